package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

const (
	unknown    = "The call was sent and may have taken effect; check before calling again."
	harmless   = "The call was sent; by its description this tool can be called again without harm."
	notCarried = "The call was not carried out"
)

// callFailing makes a call that ends in an error, of a tool whose server fails on it as f says.
func callFailing(t *testing.T, target Target, o upstreamtest.Options, f upstreamtest.Fault, call Call) *outcome.CallError {
	t.Helper()
	s := upstreamtest.New(t, o)
	s.FailOn("tools/call", -1, f)
	target.ID, target.URL = "s", s.URL
	_, err := quick(t, Options{}).Call(t.Context(), target, call)
	failed, ok := errors.AsType[*outcome.CallError](err)
	if !ok {
		t.Fatalf("Call = %v, want a *outcome.CallError", err)
	}
	return failed
}

func TestFailedCallSaysWhetherItMayHaveTakenEffect(t *testing.T) {
	status := upstreamtest.Status
	for _, tt := range []struct {
		name      string
		fault     upstreamtest.Fault
		delivered bool
		text      string // how the message begins
	}{
		{"reset", upstreamtest.Reset(), true, "The connection to MCP server 's' broke before its answer was complete."},
		{"closed before headers", upstreamtest.EOF(), true, "The connection to MCP server 's' broke"},
		{"truncated JSON", upstreamtest.Truncated(), true, "The connection to MCP server 's' broke"},
		{"stream without the reply", upstreamtest.TruncatedStream(), true, "The connection to MCP server 's' broke"},
		{"500", status(500, ""), true, "MCP server 's' answered with HTTP status 500."},
		{"502", status(502, ""), true, "MCP server 's' answered with HTTP status 502."},
		{"504", status(504, ""), true, "MCP server 's' answered with HTTP status 504."},
		{"503 of a proxy that lost the server", status(503, "", "X-Envoy-Response-Flags", "UC"), true, "MCP server 's' answered with HTTP status 503."},
		{"503 of the server itself", status(503, `{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"half done"}}`), true, "MCP server 's' answered with HTTP status 503."},
		{"408", status(408, ""), true, "MCP server 's' answered with HTTP status 408."},
		{"400", status(400, ""), true, "MCP server 's' answered with HTTP status 400."},
		{"409", status(409, ""), true, "MCP server 's' answered with HTTP status 409."},
		{"422", status(422, ""), true, "MCP server 's' answered with HTTP status 422."},
		{"303, after the fact", status(303, "", "Location", "/done"), true, "MCP server 's' answered with HTTP status 303."},
		{"authorization timed out, or the server did", status(403, "upstream request timeout"), true, "MCP server 's' answered with HTTP status 403."},
		{"HTML", upstreamtest.HTML(), true, "MCP server 's' gave an answer that is not valid MCP."},
		{"invalid JSON", upstreamtest.BadJSON(), true, "MCP server 's' gave an answer that is not valid MCP."},
		{"answer to another request", upstreamtest.Body(`{"jsonrpc":"2.0","id":0,"result":{}}`), true, "MCP server 's' gave an answer that is not valid MCP."},
		{"202 instead of an answer", status(202, ""), true, "MCP server 's' gave an answer that is not valid MCP."},

		{"429", status(429, "", "Retry-After", "60"), false, "MCP server 's' takes no more calls for the moment."},
		{"503 at the door", status(503, "", "Retry-After", "60"), false, "MCP server 's' is starting up or briefly unavailable."},
		{"503 of a balancer", status(503, `{"message":"Service Unavailable"}`), false, "MCP server 's' is starting up or briefly unavailable."},
		{"401", status(401, ""), false, "Access to MCP server 's' was denied."},
		{"403", status(403, "RBAC: access denied"), false, "Access to MCP server 's' was denied."},
		{"404", status(404, ""), false, "MCP server 's' is unavailable and needs attention: there is nothing at its address."},
		{"307", status(307, "", "Location", "https://elsewhere.example/"), false, "MCP server 's' is unavailable and needs attention: it redirects elsewhere."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, repeatable := range []bool{false, true} {
				e := callFailing(t, Target{}, upstreamtest.Options{Era: upstreamtest.Modern}, tt.fault, Call{Name: "x", Retry: repeatable})
				got, want := e.Message("s"), notCarried
				switch {
				case tt.delivered && repeatable:
					want = harmless
				case tt.delivered:
					want = unknown
				}
				if e.Delivered != tt.delivered || !strings.HasPrefix(got, tt.text) || !strings.Contains(got, want) || strings.Contains(got, "will be retried") {
					t.Errorf("repeatable %t: delivered %t, %q; want %t, %q … %q", repeatable, e.Delivered, got, tt.delivered, tt.text, want)
				}
			}
		})
	}
}

func TestCallThatWasNotSentSaysSo(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault upstreamtest.Fault // of the handshake
	}{
		{"handshake reset", upstreamtest.Reset()},
		{"handshake 500", upstreamtest.Status(500, "")},
		{"handshake not MCP", upstreamtest.HTML()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := upstreamtest.New(t, upstreamtest.Options{})
			s.FailOn("server/discover", -1, tt.fault)
			_, err := quick(t, Options{}).Call(t.Context(), Target{ID: "s", URL: s.URL}, Call{Name: "x"})
			e, ok := errors.AsType[*outcome.CallError](err)
			if !ok || e.Delivered || !strings.Contains(e.Message("s"), notCarried) || len(s.Calls()) != 0 {
				t.Errorf("Call = %v", err)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		s := upstreamtest.New(t, upstreamtest.Options{})
		s.Refuse()
		_, err := quick(t, Options{}).Call(t.Context(), Target{ID: "s", URL: s.URL}, Call{Name: "x"})
		if e, ok := errors.AsType[*outcome.CallError](err); !ok || e.Delivered || !strings.Contains(e.Message("s"), notCarried) {
			t.Errorf("Call = %v", err)
		}
	})
}

// What one attempt may have done, no later attempt takes back.
func TestAnAttemptThatWasDeliveredStaysSo(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Modern})
	s.FailOn("tools/call", 1, upstreamtest.Reset())
	s.FailOn("tools/call", -1, upstreamtest.Status(429, ""))
	_, err := quick(t, Options{}).Call(t.Context(), Target{ID: "s", URL: s.URL}, Call{Name: "x", Retry: true})
	if e, ok := errors.AsType[*outcome.CallError](err); !ok || !e.Delivered || len(s.Calls()) != 3 {
		t.Errorf("Call = %v after %d calls, want it delivered", err, len(s.Calls()))
	}
}

func TestCallThatOutlivesItsTime(t *testing.T) {
	for _, era := range []upstreamtest.Era{upstreamtest.Modern, upstreamtest.Legacy} {
		synctest.Test(t, func(t *testing.T) {
			f := newFarm(Options{})
			defer f.close()
			s := f.add(t, upstreamtest.Options{Era: era, Sessions: era == upstreamtest.Legacy, Tools: tools(1)})
			s.FailOn("tools/call", 8, upstreamtest.Hang())
			for range 8 { // more than open the breaker, were they counted
				_, err := f.client.Call(t.Context(), f.targets[0], Call{Name: "tool_aa"})
				e, ok := errors.AsType[*outcome.CallError](err)
				if !ok || !e.Delivered || e.Outcome.Reason != outcome.ReasonTimeout || e.Message("s") != "No answer after 20 s. "+unknown {
					t.Fatalf("Call = %v, want it delivered and unanswered", err)
				}
			}
			if _, err := f.client.Call(t.Context(), f.targets[0], Call{Name: "tool_aa"}); err != nil || len(s.Calls()) != 9 {
				t.Errorf("Call after slow ones = %v, %d received; want it made and well", err, len(s.Calls()))
			}
		})
	}
}

func TestBreakerStillCountsAServerThatIsGone(t *testing.T) {
	for _, tt := range []struct {
		name  string
		plan  func(*farm, *upstreamtest.Server)
		calls int
	}{
		{"resets", func(_ *farm, s *upstreamtest.Server) { s.FailOn("tools/call", -1, upstreamtest.Reset()) }, 5},
		{"500", func(_ *farm, s *upstreamtest.Server) { s.FailOn("tools/call", -1, upstreamtest.Status(500, "")) }, 5},
		{"hangs in the handshake", func(_ *farm, s *upstreamtest.Server) { s.FailOn("server/discover", -1, upstreamtest.Hang()) }, 5},
		{"no connection in time", func(f *farm, _ *upstreamtest.Server) {
			transport := f.client.dialer.Transport()
			transport.DialContext = unanswered
			f.client.http.Transport = recorder{transport}
		}, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFarm(Options{})
				defer f.close()
				tt.plan(f, f.add(t, upstreamtest.Options{Tools: tools(1)}))
				for i := range tt.calls {
					if out := failed(t, callOnce(t, f)); out.Reason == outcome.ReasonBreakerOpen {
						t.Fatalf("the breaker is open after %d calls", i)
					}
				}
				if out := failed(t, callOnce(t, f)); out.Reason != outcome.ReasonBreakerOpen {
					t.Errorf("Call ended as %s, want the breaker open", out.Reason)
				}
			})
		})
	}
}

func callOnce(t *testing.T, f *farm) error {
	_, err := f.client.Call(t.Context(), f.targets[0], Call{Name: "tool_aa"})
	return err
}

func TestResultThatIsTooLarge(t *testing.T) {
	for name, o := range map[string]upstreamtest.Options{
		"JSON": {Era: upstreamtest.Modern}, "event stream": {Era: upstreamtest.Legacy, Sessions: true, SSE: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.Tools = tools(1)
			o.Call = func(context.Context, upstreamtest.Call) (json.RawMessage, error) {
				return json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", maxResponse) + `"}]}`), nil
			}
			s := upstreamtest.New(t, o)
			c := quick(t, Options{})
			target := Target{ID: "s", URL: s.URL}
			for range breakAfter + 1 {
				_, err := c.Call(t.Context(), target, Call{Name: "tool_aa", Retry: true})
				e, ok := errors.AsType[*outcome.CallError](err)
				if !ok || e.Outcome.Status != outcome.Available || e.Outcome.Reason != outcome.ReasonTooLarge || !e.Delivered || e.Outcome.Attempts != 1 {
					t.Fatalf("Call = %v, want it delivered, too large, at the first attempt", err)
				}
				if got := e.Message("s"); got != "The tool ran, but its result is too large to pass on (over 4 MiB). Ask for less; do not repeat a write." {
					t.Errorf("message = %q", got)
				}
			}
			if n := len(s.Calls()); n != breakAfter+1 {
				t.Errorf("%d calls were received, want each once", n)
			}
			if out := c.Load(t.Context(), target); out.Status != outcome.Available {
				t.Errorf("Load = %s %s", out.Status, out.Reason)
			}
		})
	}
}

// An answer that is too long in the handshake says nothing of a tool that ran.
func TestHandshakeThatIsTooLarge(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{})
	s.FailOn("server/discover", -1, func(_ *upstreamtest.Server, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(make([]byte, maxResponse+1)) // a client that is gone reads no answer
	})
	_, err := quick(t, Options{}).Call(t.Context(), Target{ID: "s", URL: s.URL}, Call{Name: "x"})
	if e, ok := errors.AsType[*outcome.CallError](err); !ok || e.Delivered || e.Outcome.Reason != outcome.ReasonProtocol || e.Outcome.Status != outcome.Permanent {
		t.Errorf("Call = %v, want a permanent failure that was not delivered", err)
	}
}

// A program is not told when to come again where the text says that this is of no use.
func TestOnlyWhatMayHelpIsToldWhen(t *testing.T) {
	for code, want := range map[int]int{401: 0, 403: 0, 404: 0, 429: 60, 503: 60} {
		e := callFailing(t, Target{}, upstreamtest.Options{Era: upstreamtest.Modern}, upstreamtest.Status(code, "", "Retry-After", "60"), Call{Name: "x"})
		if got := e.RetryAfter(); got != want {
			t.Errorf("%d: RetryAfter = %d, want %d; %s", code, got, want, e.Message("s"))
		}
	}
}

func TestASessionThatIsLostAtOnceIsNoMissingServer(t *testing.T) {
	for _, sessions := range []bool{true, false} {
		o := upstreamtest.Options{Era: upstreamtest.Legacy, Sessions: sessions, Tools: tools(1)}
		e := callFailing(t, Target{}, o, upstreamtest.Status(404, ""), Call{Name: "tool_aa"})
		got := e.Message("s")
		if lost := strings.Contains(got, "does not know the session"); lost != sessions || strings.Contains(got, "nothing at its address") == sessions ||
			!strings.Contains(got, notCarried) || e.Delivered {
			t.Errorf("sessions %t: %q, delivered %t", sessions, got, e.Delivered)
		}
	}
}
