package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// loopback allows 127.0.0.0/8, where the test servers listen.
func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

// newClient returns a client that may dial loopback and does not wait between attempts.
func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	if o.AllowNets == nil {
		o.AllowNets = loopback()
	}
	if o.Jitter == nil {
		o.Jitter = func(time.Duration) time.Duration { return -maxPause }
	}
	c := New(&o)
	t.Cleanup(c.Close)
	return c
}

// noJitter lets a client wait between attempts, for tests on a fake clock.
func noJitter(time.Duration) time.Duration { return 0 }

// A fixture is a client and servers on a network in memory, where a fake clock works.
type fixture struct {
	*Client
	t       *testing.T
	net     upstreamtest.Network
	servers []*upstreamtest.Server
	targets []Target
}

// newFixture returns a fixture with a server for each of servers.
func newFixture(t *testing.T, o Options, servers ...upstreamtest.Options) *fixture {
	t.Helper()
	f := &fixture{t: t}
	f.Client = f.client(o)
	for _, s := range servers {
		f.add(s)
	}
	return f
}

// client returns another client on the network.
func (f *fixture) client(o Options) *Client {
	c := newClient(f.t, o)
	f.dial(c, f.net.Dial)
	return c
}

func (f *fixture) dial(c *Client, dial func(context.Context, string, string) (net.Conn, error)) {
	transport := c.dialer.Transport()
	transport.DialContext = dial
	c.http.Transport = recorder{transport}
}

// add adds a server named server0, server1, ….
func (f *fixture) add(o upstreamtest.Options) *upstreamtest.Server {
	f.t.Helper()
	id := fmt.Sprintf("server%d", len(f.servers))
	o.Listener = f.net.Listen(id + ":80")
	s := upstreamtest.New(f.t, o)
	f.servers = append(f.servers, s)
	f.targets = append(f.targets, Target{ID: id, URL: "http://" + id + ":80/mcp"})
	return s
}

// load loads the first server.
func (f *fixture) load() outcome.Outcome { return f.Load(f.t.Context(), f.targets[0]) }

// available loads the first server and fails the test if it is not available.
func (f *fixture) available() outcome.Outcome {
	f.t.Helper()
	out := f.load()
	if out.Status != outcome.Available {
		f.t.Fatalf("Load = %+v, want it available", out)
	}
	return out
}

// loads checks the outcome of a load of the first server.
func (f *fixture) loads(status outcome.Status, reason string) {
	f.t.Helper()
	if out := f.load(); out.Status != status || out.Reason != reason {
		f.t.Errorf("Load = %q %s (%s), want %q %s", out.Status, out.Reason, out.Error, status, reason)
	}
}

// call calls a tool of the first server.
func (f *fixture) call(call Call) (string, error) {
	raw, err := f.Call(f.t.Context(), f.targets[0], call)
	return string(raw), err
}

// works makes a call that must succeed, and returns its result.
func (f *fixture) works() string {
	f.t.Helper()
	got, err := f.call(Call{Name: "tool_aa"})
	if err != nil {
		f.t.Fatalf("Call = %v", err)
	}
	return got
}

// fails makes a call that must fail without an error of the server itself.
func (f *fixture) fails(call Call) *outcome.CallError {
	f.t.Helper()
	_, err := f.call(call)
	return callError(f.t, err)
}

func callError(t *testing.T, err error) *outcome.CallError {
	t.Helper()
	failed, ok := errors.AsType[*outcome.CallError](err)
	if !ok {
		t.Fatalf("Call = %v, want a *outcome.CallError", err)
	}
	return failed
}

// received checks the methods of the requests that the first server has received.
func (f *fixture) received(want string) {
	f.t.Helper()
	var got []string
	for _, r := range f.servers[0].Requests() {
		got = append(got, r.Method)
	}
	if got := strings.Join(got, " "); got != want {
		f.t.Errorf("the server received %s, want %s", got, want)
	}
}

// onFakeClock runs a subtest on a clock that does not wait.
func onFakeClock(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// within returns a context of the test that ends after d; 0: with the test.
func within(t *testing.T, d time.Duration) context.Context {
	if d == 0 {
		return t.Context()
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func echoTool() json.RawMessage { return upstreamtest.Tool("echo", "Says it again.", "", "text") }

// tools returns n definitions: tool_aa, tool_ba, ….
func tools(n int) []json.RawMessage {
	var out []json.RawMessage
	for i := range n {
		out = append(out, upstreamtest.Tool("tool_"+string(rune('a'+i%26))+string(rune('a'+i/26)), "Does it.", ""))
	}
	return out
}

// byStatus returns the servers' ids by the status of their outcomes, and how many tools they list.
func byStatus(outs []outcome.Outcome) (ids map[outcome.Status][]string, tools int) {
	ids = map[outcome.Status][]string{}
	for _, o := range outs {
		ids[o.Status] = append(ids[o.Status], o.ServerID)
		tools += len(o.Tools)
	}
	return ids, tools
}

// secretsFunc is a source of secrets.
type secretsFunc func(ref string) (string, error)

func (f secretsFunc) Secret(_ context.Context, ref string) (string, error) { return f(ref) }

// logged returns a logger and the text that it writes.
func logged() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})), &b
}
