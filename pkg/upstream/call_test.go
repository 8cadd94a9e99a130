package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// failed returns the outcome of a call that failed.
func failed(t *testing.T, err error) outcome.Outcome {
	t.Helper()
	ce, ok := errors.AsType[*outcome.CallError](err)
	if !ok {
		t.Fatalf("error = %v, want a *outcome.CallError", err)
	}
	return ce.Outcome
}

func TestCallIsTriedAgainOnlyWhereThatIsSafe(t *testing.T) {
	reset, limited, busy := upstreamtest.Reset(), upstreamtest.Status(429, ""), upstreamtest.Status(503, "")
	flags := func(f string) upstreamtest.Fault { return upstreamtest.Status(503, "", "X-Envoy-Response-Flags", f) }
	for _, tt := range []struct {
		name  string
		fault upstreamtest.Fault // strikes once
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
		{"503 of Envoy that lost the server, writing", flags("UC"), false, "", 1, false},
		{"503 of Envoy that lost the server, read-only", flags("UC"), true, "envoy", 2, true},
		{"503 of Envoy that found no server, writing", flags("UH"), false, "envoy", 2, true},
		{"503 of Envoy that does not say why, writing", busy, false, "envoy", 1, false},
		{"403, read-only", upstreamtest.Status(403, ""), true, "", 1, false},
		{"404, read-only", upstreamtest.Status(404, ""), true, "", 2, true}, // the era is found out again
		{"400, read-only", upstreamtest.Status(400, ""), true, "", 1, false},
		{"400, writing", upstreamtest.Status(400, ""), false, "", 1, false}, // the era is found to be what it was
		{"HTML, read-only", upstreamtest.HTML(), true, "", 1, false},
		{"Retry-After beyond the time left", upstreamtest.Status(429, "", "Retry-After", "60"), true, "", 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := upstreamtest.New(t, upstreamtest.Options{Tools: tools(1)})
			c := quick(t, Options{})
			target := Target{ID: "s", URL: s.URL, BehindProxy: tt.proxy}
			c.Load(t.Context(), target)
			s.FailOn("tools/call", 1, tt.fault)
			_, err := c.Call(t.Context(), target, Call{Name: "tool_aa", Retry: tt.retry})
			if (err == nil) != tt.ok || len(s.Calls()) != tt.calls {
				t.Errorf("Call = %v after %d calls received, want ok %t after %d", err, len(s.Calls()), tt.ok, tt.calls)
			}
		})
	}
}

func TestCallThatFailedInTheHandshakeIsTriedAgain(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Tools: tools(1)})
	s.FailOn("server/discover", 1, upstreamtest.Reset())
	if _, err := quick(t, Options{}).Call(t.Context(), Target{ID: "s", URL: s.URL}, Call{Name: "tool_aa"}); err != nil {
		t.Errorf("Call = %v, want it to go through: it was not sent before", err)
	}
}

func TestCallDeadlines(t *testing.T) {
	for _, tt := range []struct {
		name     string
		timeout  time.Duration // of the target
		deadline time.Duration // of the caller
		want     time.Duration
	}{
		{"20 s by default", 0, 0, 20 * time.Second},
		{"the target's own", 3 * time.Second, 0, 3 * time.Second},
		{"at most 20 s", time.Minute, 0, 20 * time.Second},
		{"before the caller's", 0, 8 * time.Second, 7500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFarm(Options{})
				defer f.close()
				s := f.add(t, upstreamtest.Options{Era: upstreamtest.Modern})
				s.FailOn("tools/call", -1, upstreamtest.Hang())
				f.targets[0].Timeout = tt.timeout
				ctx := t.Context()
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				start := time.Now()
				_, err := f.client.Call(ctx, f.targets[0], Call{Name: "x", Retry: true})
				out := failed(t, err)
				if out.Status != outcome.Transient || out.Reason != outcome.ReasonTimeout || time.Since(start) != tt.want {
					t.Errorf("Call ended as %s %s after %v, want timeout after %v", out.Status, out.Reason, time.Since(start), tt.want)
				}
			})
		})
	}
}

func TestCancellationReachesTheServer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		o      upstreamtest.Options
		notice int
	}{
		{"stateless era: the connection closes", upstreamtest.Options{Era: upstreamtest.Modern}, 0},
		{"handshake era: notifications/cancelled", upstreamtest.Options{Era: upstreamtest.Legacy, Sessions: true}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFarm(Options{})
				defer f.close()
				stopped := make(chan struct{})
				tt.o.Call = func(ctx context.Context, _ upstreamtest.Call) (json.RawMessage, error) {
					<-ctx.Done()
					close(stopped)
					return nil, ctx.Err()
				}
				s := f.add(t, tt.o)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				_, err := f.client.Call(ctx, f.targets[0], Call{Name: "slow"})
				if out := failed(t, err); out.Reason != outcome.ReasonAborted || out.Recorded() {
					t.Errorf("Call ended as %q %s, want aborted", out.Status, out.Reason)
				}
				<-stopped
				synctest.Wait()
				if s.Cancelled() != 1 {
					t.Errorf("%d calls were cancelled at the server, want 1", s.Cancelled())
				}
				notices := s.Received("notifications/cancelled")
				if len(notices) != tt.notice {
					t.Fatalf("%d notices of it, want %d", len(notices), tt.notice)
				}
				if tt.notice == 1 {
					if id := string(s.Calls()[0].ID); !strings.Contains(string(notices[0].Params), `"requestId":`+id+`,`) {
						t.Errorf("notice %s does not name request %s", notices[0].Params, id)
					}
					if notices[0].Header.Get("Mcp-Session-Id") == "" {
						t.Error("the notice bears no session id")
					}
				}
			})
		})
	}
}

func TestBreakerSparesAServerThatKeepsFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(Options{})
		defer f.close()
		s := f.add(t, upstreamtest.Options{Tools: tools(1)})
		other := f.add(t, upstreamtest.Options{Tools: tools(1)})
		call := func() error {
			_, err := f.client.Call(t.Context(), f.targets[0], Call{Name: "tool_aa"})
			return err
		}
		s.FailOn("tools/call", 5, upstreamtest.Status(500, ""))
		for range 5 {
			if out := failed(t, call()); out.Reason != outcome.ReasonHTTP5xx {
				t.Fatalf("Call ended as %s", out.Reason)
			}
		}
		out := failed(t, call())
		if out.Status != outcome.Transient || out.Reason != outcome.ReasonBreakerOpen || out.RetryAfter != 30*time.Second || out.Attempts != 0 || len(s.Calls()) != 5 {
			t.Errorf("sixth call = %+v, %d received; want it not made", out, len(s.Calls()))
		}
		if _, err := f.client.Call(t.Context(), f.targets[1], Call{Name: "tool_aa"}); err != nil || len(other.Calls()) != 1 {
			t.Errorf("the other server suffers too: %v", err)
		}
		time.Sleep(30 * time.Second)
		if err := call(); err != nil {
			t.Errorf("call after 30 s = %v, want it made and well", err)
		}
		if err := call(); err != nil {
			t.Errorf("call after the recovery = %v", err)
		}
	})
}

func TestLoadThatSucceedsClosesTheBreaker(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Tools: tools(1)})
	c := quick(t, Options{})
	target := Target{ID: "s", URL: s.URL}
	s.FailOn("tools/call", 5, upstreamtest.Status(500, ""))
	for range 6 {
		_, _ = c.Call(t.Context(), target, Call{Name: "tool_aa"})
	}
	if c.Load(t.Context(), target).Status != outcome.Available {
		t.Fatal("Load failed")
	}
	if _, err := c.Call(t.Context(), target, Call{Name: "tool_aa"}); err != nil {
		t.Errorf("Call after the server was loaded = %v", err)
	}
}

func TestBreakerCountsTransientFailuresInARow(t *testing.T) {
	now := time.Now()
	fail := outcome.Outcome{Status: outcome.Transient, Reason: outcome.ReasonHTTP5xx}
	for _, tt := range []struct {
		name     string
		verdicts []outcome.Outcome
		open     bool
	}{
		{"four failures", []outcome.Outcome{fail, fail, fail, fail}, false},
		{"five failures", []outcome.Outcome{fail, fail, fail, fail, fail}, true},
		{"a success between", []outcome.Outcome{fail, fail, fail, {Status: outcome.Available}, fail, fail}, false},
		{"limits do not count", []outcome.Outcome{fail, fail, fail, fail, {Status: outcome.Transient, Reason: outcome.ReasonRateLimited}}, false},
		{"denials do not count", []outcome.Outcome{fail, fail, fail, fail, {Status: outcome.Denied}}, false},
		{"aborts do not count", []outcome.Outcome{fail, fail, fail, fail, {Reason: outcome.ReasonAborted}}, false},
		{"permanent failures do not count", []outcome.Outcome{fail, fail, fail, fail, {Status: outcome.Permanent}}, false},
		{"a denial between does not help", []outcome.Outcome{fail, fail, {Status: outcome.Denied}, fail, fail, fail}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b breaker
			for _, v := range tt.verdicts {
				b.report(now, v)
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
			t.Error("a second call beside the probe")
		}
		b.report(later, fail)
		if wait, ok := b.admit(later); ok || wait != breakFor {
			t.Errorf("admit after the probe failed = %v, %t; want 30 s more", wait, ok)
		}
		b.admit(later.Add(breakFor))
		b.report(later.Add(breakFor), outcome.Outcome{Status: outcome.Available})
		if _, ok := b.admit(later.Add(breakFor)); !ok {
			t.Error("the breaker is open after a probe that went well")
		}
	})
}

func TestUpstreamErrorsPassThrough(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    upstreamtest.Options
		code int
	}{
		{"in HTTP 200", upstreamtest.Options{Era: upstreamtest.Legacy}, -32602},
		{"in HTTP 400", upstreamtest.Options{Era: upstreamtest.Modern}, -32602},
		{"of its own", upstreamtest.Options{Era: upstreamtest.Modern}, 4711},
		{"in an event stream", upstreamtest.Options{Era: upstreamtest.Modern, SSE: true}, -32603},
		{"a capability missing", upstreamtest.Options{Era: upstreamtest.Modern}, -32021},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const data = `{"n":9007199254740993,"z":[1.0]}`
			tt.o.Call = func(context.Context, upstreamtest.Call) (json.RawMessage, error) {
				return nil, &upstreamtest.RPCError{Code: tt.code, Message: "no such city: Ångström", Data: json.RawMessage(data)}
			}
			s := upstreamtest.New(t, tt.o)
			c := quick(t, Options{})
			_, err := c.Call(t.Context(), Target{ID: "s", URL: s.URL}, Call{Name: "weather", Retry: true})
			rpc, ok := errors.AsType[*RPCError](err)
			if !ok || rpc.Code != int64(tt.code) || rpc.Message != "no such city: Ångström" || string(rpc.Data) != data {
				t.Errorf("Call = %#v, want the server's own error", err)
			}
			if n := len(s.Calls()); n != 1 {
				t.Errorf("%d calls were received, want 1", n)
			}
		})
	}
}

func TestCredentialIsRefreshedSilentlyOnce(t *testing.T) {
	for _, o := range []upstreamtest.Options{{Era: upstreamtest.Modern}, {Era: upstreamtest.Legacy, Sessions: true}} {
		o.Token, o.Tools = "first", tools(1)
		s := upstreamtest.New(t, o)
		current, asked := "first", 0
		c := quick(t, Options{Secrets: secretsFunc(func(_ context.Context, ref string) (string, error) {
			asked++
			if ref != "secretsmanager:github" {
				t.Errorf("asked for %q", ref)
			}
			return current, nil
		})})
		target := Target{ID: "s", URL: s.URL, Headers: map[string]string{"Authorization": "Bearer ${secretsmanager:github}"}}
		for range 2 {
			if out := c.Load(t.Context(), target); out.Status != outcome.Available {
				t.Fatalf("Load = %+v", out)
			}
		}
		if asked != 1 {
			t.Errorf("the secret was asked for %d times, want once", asked)
		}
		current = "second"
		s.SetToken("second")
		if _, err := c.Call(t.Context(), target, Call{Name: "tool_aa"}); err != nil {
			t.Errorf("Call after the rotation = %v", err)
		}
		if asked != 2 {
			t.Errorf("the secret was asked for %d times, want twice", asked)
		}
		s.SetToken("third") // and the secret is the old one still
		s.ForgetRequests()
		_, err := c.Call(t.Context(), target, Call{Name: "tool_aa", Retry: true})
		if out := failed(t, err); out.Status != outcome.Denied || out.Reason != outcome.ReasonAuthRequired || s.Total() != 1 {
			t.Errorf("Call = %s %s after %d requests, want denied after one", out.Status, out.Reason, s.Total())
		}
	}
}

func TestCallReportsAPanic(t *testing.T) {
	c := quick(t, Options{Secrets: secretsFunc(func(context.Context, string) (string, error) { panic("boom") })})
	_, err := c.Call(t.Context(), Target{ID: "s", URL: "http://127.0.0.1:1/", Headers: map[string]string{"A": "${env:X}"}}, Call{Name: "x"})
	if out := failed(t, err); out.Status != outcome.Permanent || out.Reason != outcome.ReasonInternal {
		t.Errorf("Call ended as %s %s, want permanent internal", out.Status, out.Reason)
	}
}

func TestConfiguredHeadersDoNotReplaceTheProtocols(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Modern, Tools: tools(1)})
	target := Target{ID: "s", URL: s.URL, Headers: map[string]string{
		"content-type": "text/plain", "accept": "*/*", "mcp-method": "tools/list", "mcp-protocol-version": "1", "mcp-session-id": "stolen",
		"mcp-name": "other", "X-Team": "blue",
	}}
	if _, err := quick(t, Options{}).Call(t.Context(), target, Call{Name: "tool_aa"}); err != nil {
		t.Fatalf("Call = %v", err)
	}
	h := s.Calls()[0].Header
	if h.Get("X-Team") != "blue" || h.Get("Mcp-Session-Id") != "" || len(h.Values("Mcp-Name")) != 1 {
		t.Errorf("headers = %v", h)
	}
	if d := s.Received("server/discover")[0].Header; d.Get("Mcp-Name") != "" {
		t.Errorf("server/discover bears Mcp-Name %q of the configuration", d.Get("Mcp-Name"))
	}
}

func TestCallWorksAgainWhenTheServerIsBack(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Tools: tools(1)})
	c := quick(t, Options{})
	target := Target{ID: "s", URL: s.URL}
	s.Refuse()
	if out := c.Load(t.Context(), target); out.Reason != outcome.ReasonRefused {
		t.Fatalf("Load = %+v", out)
	}
	for range 10 {
		_, err := c.Call(t.Context(), target, Call{Name: "tool_aa"})
		if out := failed(t, err); out.Reason != outcome.ReasonRefused {
			t.Fatalf("Call while it is down ended as %s", out.Reason)
		}
	}
	if err := s.Return(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(t.Context(), target, Call{Name: "tool_aa"}); err != nil {
		t.Errorf("Call after it came back = %v", err)
	}
}
