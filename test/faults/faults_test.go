// Package faults runs the built functions on an emulator at which three calls in ten, or all calls,
// fail. Calls are throttled, late or never answered, connections break, and answers are lost, cut
// or garbled. Meanwhile agents search and call, a person decides, servers change and syncs run. No
// locked tool may be called, no answer may be false, and no confirmed decision may be lost.
// Everything must work again within a minute.
//
// `make lanes` runs it.
package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// lasts is the duration of the test, by lane.
var lasts = map[string]time.Duration{"small": 20 * time.Second, "full": 5 * time.Minute}

// Limits of the lane.
const (
	agents  = 4
	share   = .3              // share of the calls of S3 and DynamoDB that fail
	allFail = 8 * time.Second // time in which all calls of DynamoDB fail
)

// switches are the tools that a person disables and enables repeatedly.
var switches = []string{"turn_a", "turn_b", "turn_c"}

const (
	open   = "read_page"  // may be called at any time
	never  = "drop_page"  // the config denies it
	late   = "write_page" // the server adds it during the test, and nobody approves it
	waits  = "send_mail"  // a tool of another server that nobody approved
	readOn = `{"readOnlyHint":true}`
)

// A world contains a stack with failing stores, its servers, and the results of the test.
type world struct {
	t     *testing.T
	proxy *lambdatest.Proxy
	stack *lambdatest.Stack
	shop  *upstreamtest.Server
	mail  *upstreamtest.Server
	mcp   *lambdatest.Front
	admin *lambdatest.Front
	key   string

	mu      sync.Mutex
	asked   map[string]asked // calls of agents, by the text in their arguments
	took    []time.Duration
	errors  map[string]int // number of errors of searches and calls, by their text
	shut    []interval     // times in which a switch was disabled
	decided map[string]bool
	done    int // number of confirmed decisions
	unsure  map[string]bool
}

// An asked is an agent's call and its answer.
type asked struct {
	tool    string
	at      time.Time
	isError bool
	text    string
}

// An interval starts when the gateway confirms that a tool is disabled, and ends at the next try to
// enable the tool.
type interval struct {
	tool     string
	from, to time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	endpoint := emulator.Start(t)
	key := token.New()
	w := &world{
		t: t, proxy: lambdatest.NewProxy(t, endpoint), key: key.Reveal(),
		shop:   upstreamtest.New(t, upstreamtest.Options{Tools: shopTools()}),
		mail:   upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool(waits, "Send a page by mail.", readOn, "m")}}),
		asked:  map[string]asked{},
		errors: map[string]int{}, decided: map[string]bool{}, unsure: map[string]bool{},
	}
	w.stack = lambdatest.NewStack(t, endpoint, lambdatest.Build(t, repo.Path("."), "mcp", "sync", "admin"), map[string]string{
		"AWS_ENDPOINT_URL": w.proxy.URL, "PORTCULLIS_AUTH": "none", "PORTCULLIS_BOOTSTRAP_SHA256": token.Digest(key),
	})
	w.stack.Configure(fmt.Sprintf(`{"mcpServers":{"shop":{"url":%q,"disabled_tools":[%q]},"mail":{"url":%q,"approval":"manual"}}}`, w.shop.URL, never, w.mail.URL))
	w.stack.Sync(t)
	w.mcp = w.stack.Front(t)
	w.admin = lambdatest.NewFront(t, func() *lambdatest.Function { return w.stack.Start(t, "admin") })
	return w
}

func TestStorm(t *testing.T) {
	lasts := lasts[os.Getenv("PORTCULLIS_LANES")]
	if lasts == 0 {
		t.Skip("make lanes runs it")
	}
	w := newWorld(t)
	require.OK(t, w.works())

	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range agents {
		all.Go(func() { w.agent(i, stop) })
	}
	all.Go(func() { w.person(stop) })
	all.Go(func() { w.syncs(stop) })
	w.proxy.Storm(share)
	time.Sleep(lasts)
	w.shop.SetTools(append(shopTools(), upstreamtest.Tool(late, "Write a page of the shop.", readOn, "m")))
	time.Sleep(lasts / 2)
	w.logErrors("three calls in ten fail")
	w.proxy.Storm(1)
	time.Sleep(allFail)
	w.proxy.Storm(0)
	again := w.again()
	w.logErrors("every call fails")
	w.proxy.Set("dynamodb", lambdatest.Slow)
	time.Sleep(allFail)
	w.proxy.Set("dynamodb", lambdatest.None)
	t.Logf("everything works again %v after every call of DynamoDB hung", w.again().Round(time.Millisecond))
	w.logErrors("every call of DynamoDB hangs")
	close(stop)
	all.Wait()
	w.stack.Sync(t)

	w.wantShut()
	w.wantTrue()
	w.wantKept()
	t.Logf("works again %v after the storm; struck %v (by lambdatest.Fault); %d answers to agents, the slowest after %v; %d decisions",
		again.Round(time.Millisecond), w.proxy.Struck(), len(w.took), slowest(w.took).Round(time.Millisecond), w.done)
	if len(w.took) < 50 || w.done < 4 {
		t.Errorf("%d answers and %d decisions: too few for the test", len(w.took), w.done)
	}
}

// again waits until searches and calls work, and returns how long that took.
func (w *world) again() time.Duration {
	w.t.Helper()
	over, err := time.Now(), error(nil)
	if !local.WaitFor(func() bool { err = w.works(); return err == nil }) {
		w.t.Fatalf("still failing %v after the fault: %v", local.Patience, err)
	}
	return time.Since(over)
}

// logErrors logs the errors in agents' answers since the last call.
func (w *world) logErrors(when string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for text, n := range w.errors {
		w.t.Logf("while %s: %4d × %s", when, n, text)
	}
	clear(w.errors)
}

// shopTools returns the first tools of the shop.
func shopTools() []json.RawMessage {
	tools := []json.RawMessage{upstreamtest.Tool(open, "Read a page of the shop.", readOn, "m"), upstreamtest.Tool(never, "Drop a page of the shop.", readOn, "m")}
	for _, name := range switches {
		tools = append(tools, upstreamtest.Tool(name, "Turn a page of the shop.", readOn, "m"))
	}
	return tools
}

// syncs runs one sync after the other. Syncs may fail while the stores fail.
func (w *world) syncs(stop chan struct{}) {
	f := w.stack.Start(w.t, "sync")
	for i := 0; !over(stop); i++ {
		f.Invoke([]byte(`{}`))
		time.Sleep(200 * time.Millisecond)
	}
	if a := f.Invoke([]byte(`{}`)); a.Failed {
		w.t.Errorf("a sync after the storm answers %s", a.Payload)
	}
}

func over(stop chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// works returns an error unless a search and a call work.
func (w *world) works() error {
	if found, err := w.search(); err != nil || found != "" {
		return fmt.Errorf("a search: %s %w", found, err)
	}
	if a, err := w.call("shop:"+open, "check"+time.Now().String()); err != nil || a.isError {
		return fmt.Errorf("a call: %s %w", a.text, err)
	}
	return nil
}

// wantShut checks that no locked tool was called.
func (w *world) wantShut() {
	w.t.Helper()
	if n := len(w.mail.Calls()); n > 0 {
		w.t.Errorf("an unapproved tool was called %d times", n)
	}
	for _, c := range w.shop.Calls() {
		mark := markOf(w.t, c)
		if c.Tool == never || c.Tool == late {
			w.t.Errorf("%s was called: %s", c.Tool, c.Params)
		}
		for _, s := range w.shut {
			if begun := w.asked[mark].at; s.tool == c.Tool && begun.After(s.from) && c.At.Before(s.to) {
				w.t.Errorf("%s was called at %v, for a request at %v, but was disabled from %v to %v", c.Tool, c.At, begun, s.from, s.to)
			}
		}
	}
}

func markOf(t *testing.T, c upstreamtest.Request) string {
	t.Helper()
	return require.JSON[struct{ Arguments struct{ M string } }](t, c.Params).Arguments.M
}

// wantTrue checks that the answers to agents are true.
func (w *world) wantTrue() {
	w.t.Helper()
	arrived := map[string]int{}
	for _, c := range append(w.shop.Calls(), w.mail.Calls()...) {
		arrived[markOf(w.t, c)]++
	}
	for mark, a := range w.asked {
		n := arrived[mark]
		lower := strings.ToLower(a.text)
		switch {
		case n > 1:
			w.t.Errorf("the gateway sent the call of %s %d times, want once", a.tool, n)
		case !a.isError && n == 0:
			w.t.Errorf("answer for %s: %q, but the call did not reach its server", a.tool, a.text)
		case n > 0 && a.isError && (strings.Contains(lower, "nothing was called") || strings.Contains(lower, "nothing was sent") || strings.Contains(lower, `"status":`)):
			w.t.Errorf("answer for %s: %q, but the call reached its server", a.tool, a.text)
		case a.tool == "shop:"+open && a.isError && falseOf(a.text, "disabled_by_user", "disabled_by_config", "pending_approval", "not found"):
			w.t.Errorf("answer for %s: %q, but the tool was always listed and approved", a.tool, a.text)
		case a.tool == "shop:"+never && falseOf(a.text, "disabled_by_user", "pending_approval", "not found"):
			w.t.Errorf("answer for %s: %q, but the config denies the tool", a.tool, a.text)
		}
	}
}

func falseOf(text string, says ...string) bool {
	for _, s := range says {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// wantKept checks that the record and the audit contain each confirmed decision.
func (w *world) wantKept() {
	w.t.Helper()
	for name, disabled := range w.decided {
		got, err := w.tool(name)
		require.OK(w.t, err)
		if got.Record.Disabled != disabled && !w.unsure[name] {
			w.t.Errorf("%s is disabled: %t; by the last confirmed decision: %t", name, got.Record.Disabled, disabled)
		}
	}
	lines := 0
	for after := ""; ; {
		var page struct {
			Lines []struct{ Action string }
			Next  string
		}
		status, body, err := w.ask(http.MethodGet, "/admin/audit?kind=deed&server=shop&limit=200&after="+after, "")
		require.OK(w.t, err)
		if status != http.StatusOK {
			w.t.Fatalf("the audit: %d %s", status, body)
		}
		page = require.JSON[struct {
			Lines []struct{ Action string }
			Next  string
		}](w.t, body)
		for _, l := range page.Lines {
			if l.Action == "disable" || l.Action == "enable" {
				lines++
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if lines < w.done {
		w.t.Errorf("the audit has %d decisions, but %d were confirmed", lines, w.done)
	}
	if got, err := w.tool(open); err != nil || got.Status != "callable" {
		w.t.Errorf("%s is %s, %v", open, got.Status, err)
	}
	local.Until(w.t, "the new tool is pending", func() bool {
		got, err := w.tool(late)
		return err == nil && got.Status == "pending_approval"
	})
}
