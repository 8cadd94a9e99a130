package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestCallRetries(t *testing.T) {
	reset, limited, busy := upstreamtest.Reset(), upstreamtest.Status(429, ""), upstreamtest.Status(503, "")
	flags := func(f string) upstreamtest.Fault { return upstreamtest.Status(503, "", "X-Envoy-Response-Flags", f) }
	for _, tt := range []struct {
		name  string
		fault upstreamtest.Fault // fails one request
		retry bool               // the tool is read-only or idempotent
		proxy string
		calls int // that the server received
		ok    bool
	}{
		{"500, read-only", upstreamtest.Status(500, ""), true, "", 2, true},
		{"500, writing", upstreamtest.Status(500, ""), false, "", 1, false},
		{"reset, read-only", reset, true, "", 2, true},
		{"reset, writing", reset, false, "", 1, false},
		{"truncated, writing", upstreamtest.Truncated(), false, "", 1, false},
		{"stream without the reply, writing", upstreamtest.TruncatedStream(), false, "", 1, false},
		{"429, writing", limited, false, "", 2, true},
		{"503, writing", busy, false, "", 2, true},
		{"503 of Envoy after a lost connection, writing", flags("UC"), false, "", 1, false},
		{"503 of Envoy after a lost connection, read-only", flags("UC"), true, "envoy", 2, true},
		{"503 of Envoy without a server, writing", flags("UH"), false, "envoy", 2, true},
		{"503 of Envoy without a reason, writing", busy, false, "envoy", 1, false},
		{"403, read-only", upstreamtest.Status(403, ""), true, "", 1, false},
		{"404, read-only", upstreamtest.Status(404, ""), true, "", 2, true}, // the protocol is detected again
		{"400, read-only", upstreamtest.Status(400, ""), true, "", 1, false},
		{"400, writing", upstreamtest.Status(400, ""), false, "", 1, false}, // the protocol turns out to be the same
		{"HTML, read-only", upstreamtest.HTML(), true, "", 1, false},
		{"Retry-After beyond the time left", upstreamtest.Status(429, "", "Retry-After", "60"), true, "", 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, Options{}, upstreamtest.Options{})
			f.targets[0].BehindProxy = tt.proxy
			f.load()
			f.servers[0].FailOn("tools/call", 1, tt.fault)
			_, err := f.call(Call{Name: "x", Retry: tt.retry})
			if n := len(f.servers[0].Calls()); (err == nil) != tt.ok || n != tt.calls {
				t.Errorf("Call = %v after %d calls received, want ok %t after %d", err, n, tt.ok, tt.calls)
			}
		})
	}
	t.Run("of a handshake that failed", func(t *testing.T) {
		f := newFixture(t, Options{}, upstreamtest.Options{})
		f.servers[0].FailOn("server/discover", 1, upstreamtest.Reset())
		f.works()
	})
}

func TestCallCancellation(t *testing.T) {
	for _, tt := range []struct {
		name   string
		o      upstreamtest.Options
		notice int
	}{
		{"stateless era: the connection closes", upstreamtest.Options{Protocols: upstreamtest.Modern}, 0},
		{"handshake protocol: notifications/cancelled", upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true}, 1},
	} {
		onFakeClock(t, tt.name, func(t *testing.T) {
			stopped := make(chan struct{})
			tt.o.Call = func(ctx context.Context, _ upstreamtest.Call) (json.RawMessage, error) {
				<-ctx.Done()
				close(stopped)
				return nil, ctx.Err()
			}
			f := newFixture(t, Options{}, tt.o)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err := f.Call(ctx, f.targets[0], Call{Name: "slow"})
			if out := callError(t, err).Outcome; out.Reason != outcome.ReasonAborted || out.Recorded() {
				t.Errorf("Call ended as %q %s, want aborted", out.Status, out.Reason)
			}
			<-stopped
			synctest.Wait()
			s := f.servers[0]
			notices := s.Received("notifications/cancelled")
			if s.Cancelled() != 1 || len(notices) != tt.notice {
				t.Fatalf("%d calls were cancelled at the server by %d notices, want 1 by %d", s.Cancelled(), len(notices), tt.notice)
			}
			for _, n := range notices {
				if id := string(s.Calls()[0].ID); !strings.Contains(string(n.Params), `"requestId":`+id+`,`) || n.Header.Get(mcp.HeaderSession) == "" {
					t.Errorf("notice %s with %v does not name request %s and its session", n.Params, n.Header, id)
				}
			}
		})
	}
}

func TestCallBreaker(t *testing.T) {
	onFakeClock(t, "refuses calls to a server that keeps failing", func(t *testing.T) {
		f := newFixture(t, Options{}, upstreamtest.Options{}, upstreamtest.Options{})
		s, other := f.servers[0], f.servers[1]
		s.FailOn("tools/call", 5, upstreamtest.Status(500, ""))
		for range 5 {
			if out := f.fails(Call{Name: "x"}).Outcome; out.Reason != outcome.ReasonHTTP5xx {
				t.Fatalf("Call ended as %s", out.Reason)
			}
		}
		out := f.fails(Call{Name: "x"}).Outcome
		if out.Status != transient || out.Reason != outcome.ReasonBreakerOpen || out.RetryAfter != 30*time.Second || out.Attempts != 0 || len(s.Calls()) != 5 {
			t.Errorf("sixth call = %+v, %d received; want it not made", out, len(s.Calls()))
		}
		if _, err := f.Call(t.Context(), f.targets[1], Call{Name: "x"}); err != nil || len(other.Calls()) != 1 {
			t.Errorf("the breaker also refuses calls to another server: %v", err)
		}
		time.Sleep(30 * time.Second)
		f.works()
		f.works()
	})
	t.Run("closes after a successful load", func(t *testing.T) {
		f := newFixture(t, Options{}, upstreamtest.Options{})
		f.servers[0].FailOn("tools/call", 5, upstreamtest.Status(500, ""))
		for range 6 {
			f.fails(Call{Name: "x"})
		}
		f.available()
		f.works()
	})
	for name, plan := range map[string]func(*fixture){
		"counts resets":        func(f *fixture) { f.servers[0].FailOn("tools/call", -1, upstreamtest.Reset()) },
		"counts HTTP 500":      func(f *fixture) { f.servers[0].FailOn("tools/call", -1, upstreamtest.Status(500, "")) },
		"counts handshakes":    func(f *fixture) { f.servers[0].FailOn("server/discover", -1, upstreamtest.Hang()) },
		"counts dial timeouts": func(f *fixture) { f.dial(f.Client, unanswered) },
	} {
		onFakeClock(t, name, func(t *testing.T) {
			f := newFixture(t, Options{}, upstreamtest.Options{})
			plan(f)
			for i := range breakAfter {
				if out := f.fails(Call{Name: "x"}).Outcome; out.Reason == outcome.ReasonBreakerOpen {
					t.Fatalf("the breaker is open after %d calls", i)
				}
			}
			if out := f.fails(Call{Name: "x"}).Outcome; out.Reason != outcome.ReasonBreakerOpen {
				t.Errorf("Call ended as %s, want the breaker open", out.Reason)
			}
		})
	}
}

func TestBreaker(t *testing.T) {
	now := time.Now()
	fail := outcome.Outcome{Status: transient, Reason: outcome.ReasonHTTP5xx}
	for _, tt := range []struct {
		name string
		ends []outcome.Outcome
		open bool
	}{
		{"four failures", []outcome.Outcome{fail, fail, fail, fail}, false},
		{"five failures", []outcome.Outcome{fail, fail, fail, fail, fail}, true},
		{"a success in between", []outcome.Outcome{fail, fail, fail, {Status: outcome.Available}, fail, fail}, false},
		{"limits do not count", []outcome.Outcome{fail, fail, fail, fail, {Status: transient, Reason: outcome.ReasonRateLimited}}, false},
		{"denials do not count", []outcome.Outcome{fail, fail, fail, fail, {Status: denied}}, false},
		{"aborts do not count", []outcome.Outcome{fail, fail, fail, fail, {Reason: outcome.ReasonAborted}}, false},
		{"permanent failures do not count", []outcome.Outcome{fail, fail, fail, fail, {Status: permanent}}, false},
		{"a denial in between does not reset", []outcome.Outcome{fail, fail, {Status: denied}, fail, fail, fail}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b breaker
			for _, out := range tt.ends {
				b.report(now, out)
			}
			if _, ok := b.admit(now); ok == tt.open {
				t.Errorf("admitted %t, want open %t", ok, tt.open)
			}
		})
	}
	t.Run("one probe after 30 s", func(t *testing.T) {
		var b breaker
		for range 5 {
			b.report(now, fail)
		}
		later := now.Add(breakFor)
		if wait, ok := b.admit(later.Add(-time.Second)); ok || wait != time.Second {
			t.Errorf("admit at 29 s = %v, %t", wait, ok)
		}
		if _, ok := b.admit(later); !ok {
			t.Error("no probe at 30 s")
		}
		if _, ok := b.admit(later); ok {
			t.Error("a second call is admitted during the probe")
		}
		b.report(later, fail)
		if wait, ok := b.admit(later); ok || wait != breakFor {
			t.Errorf("admit after the probe failed = %v, %t; want 30 s more", wait, ok)
		}
		b.admit(later.Add(breakFor))
		b.report(later.Add(breakFor), outcome.Outcome{Status: outcome.Available})
		if _, ok := b.admit(later.Add(breakFor)); !ok {
			t.Error("the breaker is open after a successful probe")
		}
	})
}

func TestCallUpstreamErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    upstreamtest.Options
		code int
	}{
		{"in HTTP 200", upstreamtest.Options{Protocols: upstreamtest.Legacy}, -32602},
		{"in HTTP 400", upstreamtest.Options{Protocols: upstreamtest.Modern}, -32602},
		{"of its own", upstreamtest.Options{Protocols: upstreamtest.Modern}, 4711},
		{"in an event stream", upstreamtest.Options{Protocols: upstreamtest.Modern, SSE: true}, -32603},
		{"a capability missing", upstreamtest.Options{Protocols: upstreamtest.Modern}, -32021},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const data = `{"n":9007199254740993,"z":[1.0]}`
			tt.o.Call = failing(tt.code, "no such city: Ångström", data)
			f := newFixture(t, Options{}, tt.o)
			_, err := f.call(Call{Name: "weather", Retry: true})
			rpc, ok := errors.AsType[*outcome.RPCError](err)
			if !ok || rpc.Code != int64(tt.code) || rpc.Message != "no such city: Ångström" || string(rpc.Data) != data || len(f.servers[0].Calls()) != 1 {
				t.Errorf("Call = %#v after %d calls, want the server's own error after 1", err, len(f.servers[0].Calls()))
			}
		})
	}
}

// failing answers calls with a JSON-RPC error of the server.
func failing(code int, message, data string) func(context.Context, upstreamtest.Call) (json.RawMessage, error) {
	return func(context.Context, upstreamtest.Call) (json.RawMessage, error) {
		return nil, &upstreamtest.RPCError{Code: code, Message: message, Data: json.RawMessage(data)}
	}
}

// The client reads a rotated credential again, once and without a log message.
func TestCallCredentialRotation(t *testing.T) {
	for _, o := range []upstreamtest.Options{{Protocols: upstreamtest.Modern}, {Protocols: upstreamtest.Legacy, Sessions: true}} {
		o.Token = "first"
		current, reads := "first", 0
		f := newFixture(t, Options{Secrets: secretsFunc(func(ref string) (string, error) {
			reads++
			if ref != "secretsmanager:github" {
				t.Errorf("read the secret %q", ref)
			}
			return current, nil
		})}, o)
		s := f.servers[0]
		f.targets[0].Headers = map[string]string{"Authorization": "Bearer ${secretsmanager:github}"}
		f.available()
		f.available()
		if reads != 1 {
			t.Errorf("the secret was read %d times, want once", reads)
		}
		current = "second"
		s.SetToken("second")
		f.works()
		if reads != 2 {
			t.Errorf("the secret was read %d times, want twice", reads)
		}
		s.SetToken("third") // the secret store still has the old one
		s.ForgetRequests()
		if out := f.fails(Call{Name: "x", Retry: true}).Outcome; out.Status != denied || out.Reason != outcome.ReasonAuthRequired || s.Total() != 1 {
			t.Errorf("Call = %s %s after %d requests, want denied after one", out.Status, out.Reason, s.Total())
		}
	}
}

func TestCallPanic(t *testing.T) {
	f := newFixture(t, Options{Secrets: secretsFunc(func(string) (string, error) { panic("boom") })}, upstreamtest.Options{})
	f.targets[0].Headers = map[string]string{"A": "${env:X}"}
	if out := f.fails(Call{Name: "x"}).Outcome; out.Status != permanent || out.Reason != outcome.ReasonInternal {
		t.Errorf("Call ended as %s %s, want permanent internal", out.Status, out.Reason)
	}
}

// A configured header never replaces a header of the protocol.
func TestCallConfiguredHeaders(t *testing.T) {
	f := newFixture(t, Options{}, upstreamtest.Options{Protocols: upstreamtest.Modern})
	f.targets[0].Headers = map[string]string{
		"content-type": "text/plain", "accept": "*/*", "mcp-method": "tools/list", "mcp-protocol-version": "1", "mcp-session-id": "stolen",
		"mcp-name": "other", "X-Team": "blue",
	}
	f.works()
	s := f.servers[0]
	if h := s.Calls()[0].Header; h.Get("X-Team") != "blue" || h.Get(mcp.HeaderSession) != "" || len(h.Values("Mcp-Name")) != 1 {
		t.Errorf("headers = %v", h)
	}
	if d := s.Received("server/discover")[0].Header; d.Get("Mcp-Name") != "" {
		t.Errorf("server/discover has Mcp-Name %q of the configuration", d.Get("Mcp-Name"))
	}
}

func TestCallServerThatIsBack(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{})
	f := &fixture{Client: newClient(t, Options{}), t: t, servers: []*upstreamtest.Server{s}, targets: []Target{{ID: "s", URL: s.URL}}}
	s.Refuse()
	f.loads(permanent, outcome.ReasonRefused)
	for range 10 {
		if out := f.fails(Call{Name: "x"}).Outcome; out.Reason != outcome.ReasonRefused {
			t.Fatalf("Call while it is down ended as %s", out.Reason)
		}
	}
	require.OK(t, s.Return())
	f.works()
}
