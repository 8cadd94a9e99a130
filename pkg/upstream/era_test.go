package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func methods(s *upstreamtest.Server) string {
	var out []string
	for _, r := range s.Requests() {
		out = append(out, r.Method)
	}
	return strings.Join(out, " ")
}

func TestLoadAndCallInEveryShapeOfServer(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    upstreamtest.Options
		want string // methods of one load and two calls
	}{
		{"both eras", upstreamtest.Options{}, "server/discover tools/list tools/call tools/call"},
		{"stateless era alone", upstreamtest.Options{Era: upstreamtest.Modern}, "server/discover tools/list tools/call tools/call"},
		{"stateless, event streams", upstreamtest.Options{Era: upstreamtest.Modern, SSE: true}, "server/discover tools/list tools/call tools/call"},
		{"handshake, no session", upstreamtest.Options{Era: upstreamtest.Legacy},
			"server/discover initialize notifications/initialized tools/list tools/call tools/call"},
		{"handshake, sessions", upstreamtest.Options{Era: upstreamtest.Legacy, Sessions: true},
			"server/discover initialize notifications/initialized tools/list initialize notifications/initialized tools/call tools/call"},
		{"handshake, sessions, event streams", upstreamtest.Options{Era: upstreamtest.Legacy, Sessions: true, SSE: true},
			"server/discover initialize notifications/initialized tools/list initialize notifications/initialized tools/call tools/call"},
		{"handshake of 2025-03-26", upstreamtest.Options{Era: upstreamtest.Legacy, Versions: []string{"2025-03-26"}},
			"server/discover initialize notifications/initialized tools/list tools/call tools/call"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Tools = []json.RawMessage{echoTool()}
			s := upstreamtest.New(t, tt.o)
			c := quick(t, Options{})
			target := Target{ID: "s", URL: s.URL}
			out := c.Load(t.Context(), target)
			if out.Status != outcome.Available || out.Attempts != 1 || len(out.Tools) != 1 || out.Error != "" {
				t.Fatalf("Load = %+v, want it available at the first attempt with one tool", out)
			}
			for range 2 {
				got, err := c.Call(t.Context(), target, Call{Name: "echo", Arguments: json.RawMessage(`{"text":"hi"}`)})
				if err != nil || !strings.Contains(string(got), `"arguments":{"text":"hi"}`) {
					t.Fatalf("Call = %s, %v", got, err)
				}
			}
			if got := methods(s); got != tt.want {
				t.Errorf("the server received %s, want %s", got, tt.want)
			}
		})
	}
}

func TestLegacyRequestsBearSessionAndVersion(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Legacy, Sessions: true, Tools: tools(1), Versions: []string{"2025-06-18"}})
	c := quick(t, Options{})
	if out := c.Load(t.Context(), Target{ID: "s", URL: s.URL}); out.Status != outcome.Available {
		t.Fatalf("Load = %+v", out)
	}
	list := s.Received("tools/list")[0]
	if got := list.Header.Get("Mcp-Session-Id"); got != "session-1" {
		t.Errorf("session id = %q, want session-1", got)
	}
	if got := list.Header.Get("Mcp-Protocol-Version"); got != "2025-06-18" {
		t.Errorf("protocol version = %q, want the one that the server chose", got)
	}
	if got := list.Header.Values("Mcp-Method"); got != nil {
		t.Errorf("Mcp-Method = %q, which that era does not know", got)
	}
	if strings.Contains(string(list.Body), "_meta") {
		t.Errorf("body %s has metadata, which that era does not need", list.Body)
	}
	if got := s.Received("initialize")[0].Header.Get("Mcp-Protocol-Version"); got != "" {
		t.Errorf("initialize bears version %q before there is one", got)
	}
}

func TestLostSessionIsOpenedAgainOnce(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Legacy, Sessions: true, Tools: tools(1)})
	c := quick(t, Options{})
	target := Target{ID: "s", URL: s.URL}
	if _, err := c.Call(t.Context(), target, Call{Name: "tool_aa"}); err != nil {
		t.Fatal(err)
	}
	s.EndSessions()
	s.ForgetRequests()
	if _, err := c.Call(t.Context(), target, Call{Name: "tool_aa"}); err != nil {
		t.Fatalf("Call after the session was lost: %v", err)
	}
	if got, want := methods(s), "tools/call initialize notifications/initialized tools/call"; got != want {
		t.Errorf("the server received %s, want %s", got, want)
	}
	s.FailOn("tools/call", -1, upstreamtest.Status(404, "no such session"))
	s.ForgetRequests()
	_, err := c.Call(t.Context(), target, Call{Name: "tool_aa"})
	if ce, ok := errors.AsType[*outcome.CallError](err); !ok || ce.Outcome.Reason != outcome.ReasonNotFound {
		t.Errorf("Call = %v, want not_found", err)
	}
	if got, want := methods(s), "tools/call initialize notifications/initialized tools/call"; got != want {
		t.Errorf("the server received %s, want a new session once: %s", got, want)
	}
}

func TestSessionLostBetweenPagesStartsTheListAnew(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Legacy, Sessions: true, Tools: tools(5), PageSize: 2})
	lost := false
	s.FailOn("tools/list", -1, func(s *upstreamtest.Server, w http.ResponseWriter, r *http.Request, serve http.Handler) {
		if len(s.Received("tools/list")) == 2 && !lost {
			lost = true
			s.EndSessions()
		}
		serve.ServeHTTP(w, r)
	})
	out := quick(t, Options{}).Load(t.Context(), Target{ID: "s", URL: s.URL})
	if out.Status != outcome.Available || len(out.Tools) != 5 {
		t.Fatalf("Load = %s %s, %d tools; want all 5", out.Status, out.Reason, len(out.Tools))
	}
}

func TestServerThatChangedItsEraIsFoundOutAgain(t *testing.T) {
	old := upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Legacy, Sessions: true, Tools: tools(1)})
	c := quick(t, Options{})
	target := Target{ID: "s", URL: old.URL}
	if out := c.Load(t.Context(), target); out.Status != outcome.Available {
		t.Fatalf("Load = %+v", out)
	}
	old.Close()
	upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Modern, Tools: tools(2), Addr: old.Addr()})
	if out := c.Load(t.Context(), target); out.Status != outcome.Available || len(out.Tools) != 2 {
		t.Fatalf("Load after the upgrade = %+v", out)
	}
	if _, err := c.Call(t.Context(), target, Call{Name: "tool_aa"}); err != nil {
		t.Fatalf("Call after the upgrade: %v", err)
	}
}

func TestVersionIsNegotiatedOnce(t *testing.T) {
	version := func(supported string) upstreamtest.Fault {
		return upstreamtest.Status(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"no","data":{"supported":[`+supported+`],"requested":"2026-07-28"}}}`,
			"Content-Type", "application/json")
	}
	t.Run("down to the handshake era", func(t *testing.T) {
		s := upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Legacy, Tools: tools(1)})
		s.FailOn("server/discover", -1, version(`"2025-06-18"`))
		if out := quick(t, Options{}).Load(t.Context(), Target{ID: "s", URL: s.URL}); out.Status != outcome.Available {
			t.Errorf("Load = %+v", out)
		}
	})
	t.Run("nothing in common", func(t *testing.T) {
		s := upstreamtest.New(t, upstreamtest.Options{Tools: tools(1)})
		s.FailOn("server/discover", -1, version(`"2031-01-01"`))
		out := quick(t, Options{}).Load(t.Context(), Target{ID: "s", URL: s.URL})
		if out.Status != outcome.Permanent || out.Reason != outcome.ReasonVersion || methods(s) != "server/discover" {
			t.Errorf("Load = %s %s after %s, want permanent version after server/discover alone", out.Status, out.Reason, methods(s))
		}
	})
	t.Run("refused after negotiation", func(t *testing.T) {
		s := upstreamtest.New(t, upstreamtest.Options{Tools: tools(1)})
		s.FailOn("tools/list", -1, version(`"2026-07-28"`))
		out := quick(t, Options{}).Load(t.Context(), Target{ID: "s", URL: s.URL})
		if out.Status != outcome.Permanent || out.Reason != outcome.ReasonVersion {
			t.Errorf("Load = %s %s, want permanent version", out.Status, out.Reason)
		}
		if got, want := methods(s), "server/discover tools/list server/discover tools/list"; got != want {
			t.Errorf("the server received %s, want one negotiation: %s", got, want)
		}
	})
	t.Run("an unknown version chosen", func(t *testing.T) {
		s := upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Legacy, Versions: []string{"2031-01-01"}})
		out := quick(t, Options{}).Load(t.Context(), Target{ID: "s", URL: s.URL})
		if out.Status != outcome.Permanent || out.Reason != outcome.ReasonVersion {
			t.Errorf("Load = %s %s, want permanent version", out.Status, out.Reason)
		}
	})
}

func TestPagesAreFollowedAndBounded(t *testing.T) {
	t.Run("all pages", func(t *testing.T) {
		s := upstreamtest.New(t, upstreamtest.Options{Tools: tools(7), PageSize: 2})
		out := quick(t, Options{}).Load(t.Context(), Target{ID: "s", URL: s.URL})
		if out.Status != outcome.Available || len(out.Tools) != 7 || len(s.Received("tools/list")) != 4 {
			t.Errorf("Load = %s with %d tools from %d pages, want 7 from 4", out.Status, len(out.Tools), len(s.Received("tools/list")))
		}
	})
	t.Run("64 pages", func(t *testing.T) {
		s := upstreamtest.New(t, upstreamtest.Options{Tools: tools(64), PageSize: 1})
		if out := quick(t, Options{}).Load(t.Context(), Target{ID: "s", URL: s.URL}); out.Status != outcome.Available || len(out.Tools) != 64 {
			t.Errorf("Load = %s %s, %d tools", out.Status, out.Reason, len(out.Tools))
		}
	})
	t.Run("65 pages", func(t *testing.T) {
		s := upstreamtest.New(t, upstreamtest.Options{Tools: tools(65), PageSize: 1})
		out := quick(t, Options{}).Load(t.Context(), Target{ID: "s", URL: s.URL})
		if out.Reason != outcome.ReasonProtocol || len(s.Received("tools/list")) != 64 {
			t.Errorf("Load = %s %s after %d pages, want protocol after 64", out.Status, out.Reason, len(s.Received("tools/list")))
		}
	})
	t.Run("10,001 tools", func(t *testing.T) {
		for n, want := range map[int]outcome.Status{10_000: outcome.Available, 10_001: outcome.Permanent} {
			s := upstreamtest.New(t, upstreamtest.Options{})
			half := strings.Repeat(`{},`, n/2)
			s.FailOn("tools/list", 1, upstreamtest.Result(`{"tools":[`+half+`{}],"nextCursor":"2"}`))
			s.FailOn("tools/list", 1, upstreamtest.Result(`{"tools":[`+strings.TrimSuffix(half[:3*(n-n/2-1)], ",")+`]}`))
			if out := quick(t, Options{}).Load(t.Context(), Target{ID: "s", URL: s.URL}); out.Status != want {
				t.Errorf("%d tools: Load = %s %s (%s), want %s", n, out.Status, out.Reason, out.Error, want)
			}
		}
	})
	t.Run("an opaque cursor passes byte for byte", func(t *testing.T) {
		s := upstreamtest.New(t, upstreamtest.Options{})
		const cursor = `"\ud83d<\u00e9>"`
		s.FailOn("tools/list", 1, upstreamtest.Result(`{"tools":[],"nextCursor":`+cursor+`}`))
		s.FailOn("tools/list", 1, upstreamtest.Result(`{"tools":[]}`))
		if out := quick(t, Options{}).Load(t.Context(), Target{ID: "s", URL: s.URL}); out.Status != outcome.Available {
			t.Fatalf("Load = %+v", out)
		}
		if body := string(s.Received("tools/list")[1].Body); !strings.Contains(body, `"cursor":`+cursor) {
			t.Errorf("second page asked for with %s, want cursor %s", body, cursor)
		}
	})
}

func TestServerWithoutToolsIsAvailable(t *testing.T) {
	for _, era := range []upstreamtest.Era{upstreamtest.Modern, upstreamtest.Legacy} {
		s := upstreamtest.New(t, upstreamtest.Options{Era: era, NoTools: true})
		out := quick(t, Options{}).Load(t.Context(), Target{ID: "s", URL: s.URL})
		if diff := cmp.Diff([]any{outcome.Available, "", 0}, []any{out.Status, out.Reason, len(out.Tools)}); diff != "" {
			t.Errorf("era %d: %s", era, diff)
		}
	}
}

func TestHandshakeIsSharedByConcurrentCalls(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Legacy, Sessions: true, Tools: tools(1)})
	c := quick(t, Options{})
	errs := make(chan error, 8)
	for range 8 {
		go func() {
			_, err := c.Call(context.Background(), Target{ID: "s", URL: s.URL}, Call{Name: "tool_aa"})
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Errorf("Call: %v", err)
		}
	}
	if n := len(s.Received("initialize")); n != 1 {
		t.Errorf("%d sessions were opened, want 1", n)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	for _, o := range []upstreamtest.Options{
		{Era: upstreamtest.Modern}, {Era: upstreamtest.Modern, SSE: true}, {Era: upstreamtest.Legacy, Sessions: true, SSE: true},
	} {
		var mu sync.Mutex
		conns := map[string]bool{}
		o.Tools = tools(1)
		o.Front = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				conns[r.RemoteAddr] = true
				mu.Unlock()
				next.ServeHTTP(w, r)
			})
		}
		s := upstreamtest.New(t, o)
		c := quick(t, Options{})
		c.limits.drain = time.Minute // however slow the machine is
		for range 5 {
			if _, err := c.Call(t.Context(), Target{ID: "s", URL: s.URL}, Call{Name: "tool_aa"}); err != nil {
				t.Fatal(err)
			}
		}
		if len(conns) != 1 {
			t.Errorf("era %d, streams %t: %d connections, want 1", o.Era, o.SSE, len(conns))
		}
	}
}

func TestStreamThatStaysOpenIsNotWaitedFor(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Tools: tools(1)})
	s.FailOn("tools/call", -1, func(s *upstreamtest.Server, w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", s.Calls()[0].ID)
		_ = http.NewResponseController(w).Flush()
		upstreamtest.Hang()(s, w, r, nil)
	})
	if got, err := quick(t, Options{}).Call(t.Context(), Target{ID: "s", URL: s.URL}, Call{Name: "tool_aa"}); err != nil || string(got) != "{}" {
		t.Errorf("Call = %s, %v", got, err)
	}
}
