// Package faults runs the built functions on an emulator of which three calls in ten, or all, come to
// grief: throttled, gone, lost after they took effect, cut, garbled, late, or never answered. Meanwhile agents search and
// call, a person decides, servers change and syncs run. No gate may open, no text may be false, nothing
// that was acknowledged may be lost, and everything works again within a minute.
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

// How long it lasts, by lane.
var lasts = map[string]time.Duration{"small": 20 * time.Second, "full": 5 * time.Minute}

// Bounds of the lane.
const (
	agents     = 4
	share      = .3              // of the calls of S3 and DynamoDB
	allFail    = 8 * time.Second // how long all of them fail
	answerMost = 25 * time.Second
	soonAgain  = time.Minute
)

// switches are the tools that a person disables and enables again and again.
var switches = []string{"turn_a", "turn_b", "turn_c"}

const (
	open   = "read_page"  // may be called at any time
	never  = "drop_page"  // the config denies it
	late   = "write_page" // appears meanwhile, and nobody approves it
	waits  = "send_mail"  // of another server: nobody ever approved it
	readOn = `{"readOnlyHint":true}`
)

// A world is a stack in the storm.
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
	asked   map[string]asked // calls of agents, by the text that they bear
	took    []time.Duration
	errors  map[string]int // of searches and calls, by what they say
	shut    []interval     // when a switch was off
	decided map[string]bool
	done    int // decisions that were acknowledged
	unsure  map[string]bool
}

// An asked is a call of an agent and its answer.
type asked struct {
	tool    string
	at      time.Time
	isError bool
	text    string
}

// An interval is the time from the word that a tool is disabled to the next try to enable it.
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
	t.Logf("works again %v after every call of DynamoDB hung", w.again().Round(time.Millisecond))
	w.logErrors("every call of DynamoDB hangs")
	close(stop)
	all.Wait()
	w.stack.Sync(t)

	w.wantShut()
	w.wantTrue()
	w.wantKept()
	t.Logf("works again %v after the storm; struck %v (by lambdatest.Fault); %d answers to agents, the slowest after %v; %d decisions",
		again.Round(time.Millisecond), w.proxy.Struck(), len(w.took), slowest(w.took).Round(time.Millisecond), w.done)
	if most := slowest(w.took); most > answerMost {
		t.Errorf("an answer took %v, want at most %v", most, answerMost)
	}
	if len(w.took) < 50 || w.done < 4 {
		t.Errorf("%d answers and %d decisions: the storm struck next to nothing", len(w.took), w.done)
	}
}

// again returns how long it takes until searches and calls work.
func (w *world) again() time.Duration {
	w.t.Helper()
	over := time.Now()
	for err := w.works(); err != nil; err = w.works() {
		if time.Since(over) > soonAgain {
			w.t.Fatalf("a minute after the fault: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
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

// shopTools returns what the shop listed at first.
func shopTools() []json.RawMessage {
	tools := []json.RawMessage{upstreamtest.Tool(open, "Read a page of the shop.", readOn, "m"), upstreamtest.Tool(never, "Drop a page of the shop.", readOn, "m")}
	for _, name := range switches {
		tools = append(tools, upstreamtest.Tool(name, "Turn a page of the shop.", readOn, "m"))
	}
	return tools
}

// syncs runs one sync after the other. In the storm they may fail.
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

// wantShut checks that nothing locked was called.
func (w *world) wantShut() {
	w.t.Helper()
	if n := len(w.mail.Calls()); n > 0 {
		w.t.Errorf("a tool that nobody approved was called %d times", n)
	}
	for _, c := range w.shop.Calls() {
		mark := markOf(w.t, c)
		if c.Tool == never || c.Tool == late {
			w.t.Errorf("%s was called: %s", c.Tool, c.Params)
		}
		for _, s := range w.shut {
			if begun := w.asked[mark].at; s.tool == c.Tool && begun.After(s.from) && c.At.Before(s.to) {
				w.t.Errorf("%s was called at %v, by an agent who asked at %v; it was disabled from %v to %v", c.Tool, c.At, begun, s.from, s.to)
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
			w.t.Errorf("%s was sent %d times", a.tool, n)
		case !a.isError && n == 0:
			w.t.Errorf("%s is answered %q, and never reached its server", a.tool, a.text)
		case n > 0 && a.isError && (strings.Contains(lower, "nothing was called") || strings.Contains(lower, "nothing was sent") || strings.Contains(lower, `"status":`)):
			w.t.Errorf("%s reached its server, and is answered %q", a.tool, a.text)
		case a.tool == "shop:"+open && a.isError && falseOf(a.text, "disabled_by_user", "disabled_by_config", "pending_approval", "not found"):
			w.t.Errorf("%s is answered %q, and it was there and approved all the time", a.tool, a.text)
		case a.tool == "shop:"+never && falseOf(a.text, "disabled_by_user", "pending_approval", "not found"):
			w.t.Errorf("%s is answered %q, and the config denies it", a.tool, a.text)
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

// wantKept checks that each decision stands that was acknowledged, in the record and in the audit.
func (w *world) wantKept() {
	w.t.Helper()
	for name, disabled := range w.decided {
		got, err := w.tool(name)
		require.OK(w.t, err)
		if got.Record.Disabled != disabled && !w.unsure[name] {
			w.t.Errorf("%s is disabled: %t; the last decision that was acknowledged says %t", name, got.Record.Disabled, disabled)
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
		w.t.Errorf("the audit has %d decisions, and %d were acknowledged", lines, w.done)
	}
	if got, err := w.tool(open); err != nil || got.Status != "callable" {
		w.t.Errorf("%s is %s, %v", open, got.Status, err)
	}
	local.Until(w.t, "the tool that came waits", func() bool {
		got, err := w.tool(late)
		return err == nil && got.Status == "pending_approval"
	})
}
