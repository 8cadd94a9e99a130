// Package load tests the gateway at the limit of the machine while most of its servers misbehave.
// It uses 48 clients and 70 servers. 38 of the servers hang, break off, or answer with garbage or
// with too much. Calls of healthy servers must succeed, and after the load the program must have
// released all resources.
//
// `make lanes` runs it for 45 s, or for half an hour.
package load

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/fleettest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestMain(m *testing.M) { os.Exit(programtest.Main(m.Run)) }

// lasts is the duration of the test, by lane.
var lasts = map[string]time.Duration{"small": 45 * time.Second, "full": 30 * time.Minute}

const (
	servers     = 70
	misbehaving = 38
	tools       = 527
	clients     = 48
	settleLimit = 2 * time.Minute // until resources are released
	moreMemory  = 48              // additional MB that the garbage collector may keep
	moreOpen    = 4               // additional descriptors, and goroutines, that may remain
)

// drip answers one byte after the other, without end.
func drip(_ *upstreamtest.Server, w http.ResponseWriter, r *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "text/event-stream")
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, ":"); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// flood answers with 64 MB of one text.
func flood(_ *upstreamtest.Server, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`)
	part := strings.Repeat("x", 1<<20)
	for range 64 {
		if _, err := io.WriteString(w, part); err != nil {
			return
		}
	}
}

// notHTTP answers in another protocol.
func notHTTP(_ *upstreamtest.Server, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_, _ = conn.Write([]byte("SSH-2.0-OpenSSH_9.6\r\n"))
		_ = conn.Close()
	}
}

// crimes returns the faults. Each bad server has the next fault.
func crimes() []upstreamtest.Fault {
	return []upstreamtest.Fault{
		upstreamtest.Hang(), upstreamtest.Status(http.StatusInternalServerError, "oops"), upstreamtest.BadJSON(), flood, drip, upstreamtest.Reset(), notHTTP,
		upstreamtest.EOF(), upstreamtest.Truncated(), upstreamtest.TruncatedStream(), upstreamtest.HTML(), upstreamtest.WrongType(),
		upstreamtest.Status(http.StatusTooManyRequests, "slow down", "Retry-After", "1"), upstreamtest.RPC(-32603, "broken"), upstreamtest.Result(`{"content":7}`),
		upstreamtest.Status(http.StatusUnauthorized, ""), upstreamtest.Redirect("http://127.0.0.1:1/"), upstreamtest.Slow(3 * time.Second), upstreamtest.Body(`[]`),
	}
}

// A fleet contains the servers, and the ids of the tools of healthy and of bad servers.
type fleet struct {
	all       map[string]*upstreamtest.Server
	bad       []string
	good, ill []string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	catalog := fleettest.MadeUp(servers, tools)
	f := &fleet{all: upstreamtest.Fleet(t, catalog, upstreamtest.Options{Forget: true})}
	names := make([]string, 0, servers)
	for name := range f.all {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		into := &f.good
		if i%servers < misbehaving {
			into, f.bad = &f.ill, append(f.bad, name)
		}
		for _, raw := range catalog[name] {
			*into = append(*into, name+":"+require.JSON[struct{ Name string }](t, raw).Name)
		}
	}
	return f
}

func (f *fleet) config() string {
	var list []string
	for name, s := range f.all {
		list = append(list, fmt.Sprintf(`%q:{"url":%q,"approval":"off","annotations":{"*":{"readOnlyHint":true}}}`, name, s.URL))
	}
	return `{"mcpServers":{` + strings.Join(list, ",") + `}}`
}

// misbehave starts the faults of the bad servers.
func (f *fleet) misbehave() {
	for i, name := range f.bad {
		all := crimes()
		f.all[name].Fail(all[i%len(all)])
	}
}

// A tally contains the results of the calls.
type tally struct {
	t              *testing.T
	url            string
	client         *http.Client
	good, ill      atomic.Int64
	failed, faulty atomic.Int64 // failed calls of healthy servers, and of bad servers
	mu             sync.Mutex
	took           []time.Duration // durations of every 64th call of a healthy server
}

// call calls a tool and reports whether the call succeeded.
func (y *tally) call(name, arguments string) (ok bool, text string) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments)
	r, err := http.NewRequestWithContext(y.t.Context(), http.MethodPost, y.url+"/mcp", strings.NewReader(body))
	if err != nil {
		return false, err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := y.client.Do(r)
	if err != nil {
		return false, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return false, fmt.Sprintf("status %d: %.300s, %v", answer.StatusCode, data, err)
	}
	var a struct {
		Result *struct{ IsError bool }
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return false, err.Error()
	}
	return a.Result != nil && !a.Result.IsError, string(data)
}

// work makes calls until stop. The first half of the clients call only healthy servers, and the
// other clients call all servers. Every fourth call is a search.
func (y *tally) work(n int, f *fleet, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		if i%4 == 3 {
			if ok, text := y.call("retrieve_tools", `{"query":"list the invoices of a customer"}`); !ok {
				y.failed.Add(1)
				y.t.Errorf("a search: %.500s", text)
			}
			continue
		}
		if n >= clients/2 && rand.IntN(4) == 0 {
			y.ill.Add(1)
			if ok, _ := y.call("call_tool_read", fmt.Sprintf(`{"name":%q,"args":{}}`, f.ill[rand.IntN(len(f.ill))])); !ok {
				y.faulty.Add(1)
			}
			continue
		}
		id, began := f.good[rand.IntN(len(f.good))], time.Now()
		if ok, text := y.call("call_tool_read", fmt.Sprintf(`{"name":%q,"args":{"n":%d}}`, id, i)); !ok {
			if y.failed.Add(1) < 10 {
				y.t.Errorf("%s, whose server is healthy: %.500s", id, text)
			}
		}
		if y.good.Add(1)%64 == 0 {
			y.mu.Lock()
			y.took = append(y.took, time.Since(began))
			y.mu.Unlock()
		}
	}
}

// goroutines ends the program and returns its number of goroutines, from the output after SIGQUIT.
func goroutines(t *testing.T, p *programtest.Program) int {
	t.Helper()
	p.Quit(syscall.SIGQUIT)
	return strings.Count("\n"+p.Log.String(), "\ngoroutine ")
}

func TestMisbehaving(t *testing.T) {
	lasts := lasts[os.Getenv("PORTCULLIS_LANES")]
	if lasts == 0 {
		t.Skip("make lanes runs it")
	}
	f, dir := newFleet(t), t.TempDir()
	programtest.WriteConfig(t, dir, f.config())
	p := programtest.Start(t, dir)
	y := &tally{t: t, url: p.URL, client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		MaxIdleConnsPerHost: clients, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext}}}
	before := local.UsageOf(t, p.PID())
	asleep := goroutines(t, p)
	p.Log.Reset()
	p.Start()
	y.run(f, 3*time.Second) // while all servers are healthy

	f.misbehave()
	good := y.good.Load()
	began := time.Now()
	y.run(f, lasts)
	rate := float64(y.good.Load()-good) / time.Since(began).Seconds()
	during := local.UsageOf(t, p.PID())
	y.client.CloseIdleConnections()
	var after local.Usage
	for end := time.Now().Add(settleLimit); ; time.Sleep(time.Second) {
		after = local.UsageOf(t, p.PID())
		if after.Descriptors <= before.Descriptors+moreOpen && after.Resident <= before.Resident+moreMemory || time.Now().After(end) {
			break
		}
	}
	if after.Descriptors > before.Descriptors+moreOpen || after.Resident > before.Resident+moreMemory {
		t.Errorf("%v after the load the program uses %+v; before the load it used %+v", settleLimit, after, before)
	}
	left := goroutines(t, p)
	if left > asleep+moreOpen {
		t.Errorf("%d goroutines after the load, %d before:\n%.20000s", left, asleep, p.Log.String())
	}
	p.Log.Reset()
	slices.Sort(y.took)
	if y.failed.Load() > 0 || y.good.Load() < 1000 || y.faulty.Load() == 0 {
		t.Errorf("%d of %d calls of healthy servers failed, and %d of %d calls of bad servers", y.failed.Load(), y.good.Load(), y.faulty.Load(), y.ill.Load())
	}
	t.Logf("%v: %d calls of healthy servers, %.0f a second, %d failed; of these p50 %v, p99 %v, slowest %v; %d calls of the others, %d failed; held %+v before, %+v during, %+v after; goroutines %d, %d",
		lasts, y.good.Load(), rate, y.failed.Load(), y.took[len(y.took)/2], y.took[len(y.took)*99/100], y.took[len(y.took)-1], y.ill.Load(), y.faulty.Load(), before, during, after, asleep, left)
}

// run makes all clients work for a duration, and waits for the answers to their last calls.
func (y *tally) run(f *fleet, lasts time.Duration) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() { y.work(n, f, stop) })
	}
	time.Sleep(lasts)
	close(stop)
	all.Wait()
}
