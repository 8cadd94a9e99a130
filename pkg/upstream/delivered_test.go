package upstream

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

const (
	unknown    = "The call was sent and may have taken effect; check before calling again."
	harmless   = "The call was sent. The tool is annotated as read-only or idempotent, so you can call it again."
	notCarried = "The call was not carried out"
)

// failingOn returns a fixture whose server fails on a method.
func failingOn(t *testing.T, method string, fault upstreamtest.Fault, o upstreamtest.Options) *fixture {
	t.Helper()
	f := newFixture(t, Options{}, o)
	f.servers[0].FailOn(method, -1, fault)
	return f
}

func TestCallDelivered(t *testing.T) {
	status := upstreamtest.Status
	for _, tt := range []struct {
		name      string
		fault     upstreamtest.Fault
		delivered bool
		text      string // the beginning of the message
	}{
		{"reset", upstreamtest.Reset(), true, "The connection to MCP server 's' broke before its answer was complete."},
		{"stream without the reply", upstreamtest.TruncatedStream(), true, "The connection to MCP server 's' broke"},
		{"500", status(500, ""), true, "MCP server 's' answered with HTTP status 500."},
		{"503 of a proxy after a lost connection", status(503, "", "X-Envoy-Response-Flags", "UC"), true, "MCP server 's' answered with HTTP status 503."},
		{"503 of the server itself", status(503, `{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"half done"}}`), true, "MCP server 's' answered with HTTP status 503."},
		{"400", status(400, ""), true, "MCP server 's' answered with HTTP status 400."},
		{"303 after the call", status(303, "", "Location", "/done"), true, "MCP server 's' answered with HTTP status 303."},
		{"authorization timed out, or the server did", status(403, "upstream request timeout"), true, "MCP server 's' answered with HTTP status 403."},
		{"HTML", upstreamtest.HTML(), true, "MCP server 's' gave an answer that is not valid MCP."},
		{"202 instead of an answer", status(202, ""), true, "MCP server 's' gave an answer that is not valid MCP."},
		{"answer to another request", upstreamtest.Body(`{"jsonrpc":"2.0","id":0,"result":{}}`), true, "MCP server 's' gave an answer that is not valid MCP."},

		{"429", status(429, "", "Retry-After", "60"), false, "MCP server 's' takes no more calls for the moment."},
		{"503 of a balancer", status(503, `{"message":"Service Unavailable"}`), false, "MCP server 's' is starting up or briefly unavailable."},
		{"403", status(403, "RBAC: access denied"), false, "Access to MCP server 's' was denied."},
		{"404", status(404, ""), false, "MCP server 's' is unavailable and needs attention: there is nothing at its address."},
		{"307", status(307, "", "Location", "https://elsewhere.example/"), false, "MCP server 's' is unavailable and needs attention: it redirects elsewhere."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, repeatable := range []bool{false, true} {
				e := failingOn(t, "tools/call", tt.fault, upstreamtest.Options{Protocols: upstreamtest.Modern}).fails(Call{Name: "x", Retry: repeatable})
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
	t.Run("stays delivered", func(t *testing.T) { // a later attempt does not undo an earlier effect
		f := newFixture(t, Options{}, upstreamtest.Options{Protocols: upstreamtest.Modern})
		f.servers[0].FailOn("tools/call", 1, upstreamtest.Reset())
		f.servers[0].FailOn("tools/call", -1, upstreamtest.Status(429, ""))
		if e := f.fails(Call{Name: "x", Retry: true}); !e.Delivered || len(f.servers[0].Calls()) != 3 {
			t.Errorf("Call = %v after %d calls, want it delivered", e, len(f.servers[0].Calls()))
		}
	})
}

func TestCallNotSent(t *testing.T) {
	for name, fault := range map[string]upstreamtest.Fault{
		"reset": upstreamtest.Reset(), "500": upstreamtest.Status(500, ""), "not MCP": upstreamtest.HTML(), "no connection": nil,
		"too large": func(_ *upstreamtest.Server, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", "application/json")
			// the client has disconnected, so the write may fail
			_, _ = w.Write(make([]byte, maxResponse+1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := failingOn(t, "server/discover", fault, upstreamtest.Options{})
			if fault == nil {
				f.servers[0].Refuse()
			}
			e := f.fails(Call{Name: "x"})
			if e.Delivered || !strings.Contains(e.Message("s"), notCarried) || len(f.servers[0].Calls()) != 0 {
				t.Errorf("Call = %v", e)
			}
			if name == "too large" && (e.Outcome.Reason != outcome.ReasonProtocol || e.Outcome.Status != permanent) {
				t.Errorf("Call = %v, want a permanent failure", e)
			}
		})
	}
}

// A call that exceeds the gateway's time is a slow tool: the breaker does not count it.
func TestCallUnanswered(t *testing.T) {
	for name, o := range map[string]upstreamtest.Options{"stateless": {Protocols: upstreamtest.Modern}, "handshake": {Protocols: upstreamtest.Legacy, Sessions: true}} {
		onFakeClock(t, name, func(t *testing.T) {
			f := newFixture(t, Options{}, o)
			f.servers[0].FailOn("tools/call", 8, upstreamtest.Hang())
			for range 8 { // enough to open the breaker if it counted them
				e := f.fails(Call{Name: "x"})
				if !e.Delivered || e.Outcome.Reason != outcome.ReasonTimeout || e.Message("s") != "No answer after 20 s. "+unknown {
					t.Fatalf("Call = %v, want it delivered and unanswered", e)
				}
			}
			if f.works(); len(f.servers[0].Calls()) != 9 {
				t.Errorf("%d calls were received, want 9", len(f.servers[0].Calls()))
			}
		})
	}
}

// unanswered dials a network that drops everything.
func unanswered(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestCallTooLargeResult(t *testing.T) {
	for name, o := range map[string]upstreamtest.Options{
		"JSON": {Protocols: upstreamtest.Modern}, "event stream": {Protocols: upstreamtest.Legacy, Sessions: true, SSE: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.Call = func(context.Context, upstreamtest.Call) (json.RawMessage, error) {
				return json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", maxResponse) + `"}]}`), nil
			}
			f := newFixture(t, Options{}, o)
			for range breakAfter + 1 {
				e := f.fails(Call{Name: "x", Retry: true})
				if e.Outcome.Status != outcome.Available || e.Outcome.Reason != outcome.ReasonTooLarge || !e.Delivered || e.Outcome.Attempts != 1 {
					t.Fatalf("Call = %v, want it delivered, too large, at the first attempt", e)
				}
				if got := e.Message("s"); got != "The tool ran, but its result is too large to pass on (over 4 MiB). Ask for less; do not repeat a write." {
					t.Errorf("message = %q", got)
				}
			}
			if n := len(f.servers[0].Calls()); n != breakAfter+1 {
				t.Errorf("%d calls were received, want each once", n)
			}
			f.available()
		})
	}
}

// If an answer exceeds the limit after decompression, the gateway cannot know whether it is a
// result.
func TestCallCompressedBomb(t *testing.T) {
	for _, media := range []string{"application/json", "text/event-stream"} {
		f := failingOn(t, "tools/call", func(_ *upstreamtest.Server, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", media)
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 8<<20)) // the client closes the connection
			_ = z.Close()
		}, upstreamtest.Options{Protocols: upstreamtest.Modern})
		e := f.fails(Call{Name: "x", Retry: true})
		want := "The answer of MCP server 's' could not be read: it is compressed, and larger than 4 MiB when unpacked. " +
			"The call was sent and may have taken effect; check before calling again, and ask for less."
		if got := e.Message("s"); got != want || e.Outcome.Attempts != 1 {
			t.Errorf("%s: %q after %d attempts", media, got, e.Outcome.Attempts)
		}
		f.available()
	}
}

// The refusal names no retry time if its text says that a retry is useless.
func TestCallRetryAfter(t *testing.T) {
	for code, want := range map[int]int{401: 0, 403: 0, 404: 0, 429: 60, 503: 60} {
		f := failingOn(t, "tools/call", upstreamtest.Status(code, "", "Retry-After", "60"), upstreamtest.Options{Protocols: upstreamtest.Modern})
		if e := f.fails(Call{Name: "x"}); e.RetryAfter() != want {
			t.Errorf("%d: RetryAfter = %d, want %d; %s", code, e.RetryAfter(), want, e.Message("s"))
		}
	}
}

// If the server loses a session immediately, that does not mean that the server is missing.
func TestCallLostSession(t *testing.T) {
	for _, sessions := range []bool{true, false} {
		e := failingOn(t, "tools/call", upstreamtest.Status(404, ""), upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: sessions}).fails(Call{Name: "x"})
		got := e.Message("s")
		if lost := strings.Contains(got, "does not know the session"); lost != sessions || strings.Contains(got, "nothing at its address") == sessions ||
			!strings.Contains(got, notCarried) || e.Delivered {
			t.Errorf("sessions %t: %q, delivered %t", sessions, got, e.Delivered)
		}
	}
}
