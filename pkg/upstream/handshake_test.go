package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestLoadAndCall(t *testing.T) {
	const modern, handshake = "server/discover", "server/discover initialize notifications/initialized"
	for _, tt := range []struct {
		name string
		o    upstreamtest.Options
		want string // methods of one load and two calls
	}{
		{"both protocols", upstreamtest.Options{}, modern + " tools/list tools/call tools/call"},
		{"only the stateless protocol", upstreamtest.Options{Protocols: upstreamtest.Modern}, modern + " tools/list tools/call tools/call"},
		{"stateless, event streams", upstreamtest.Options{Protocols: upstreamtest.Modern, SSE: true}, modern + " tools/list tools/call tools/call"},
		{"handshake, no session", upstreamtest.Options{Protocols: upstreamtest.Legacy}, handshake + " tools/list tools/call tools/call"},
		{"handshake, sessions", upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true},
			handshake + " tools/list initialize notifications/initialized tools/call tools/call"},
		{"handshake, sessions, event streams", upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true, SSE: true},
			handshake + " tools/list initialize notifications/initialized tools/call tools/call"},
		{"handshake of 2025-03-26", upstreamtest.Options{Protocols: upstreamtest.Legacy, Versions: []string{"2025-03-26"}}, handshake + " tools/list tools/call tools/call"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Tools = []json.RawMessage{echoTool()}
			f := newFixture(t, Options{}, tt.o)
			if out := f.available(); out.Attempts != 1 || len(out.Tools) != 1 || out.Error != "" {
				t.Fatalf("Load = %+v, want it available at the first attempt with one tool", out)
			}
			for range 2 {
				got, err := f.call(Call{Name: "echo", Arguments: json.RawMessage(`{"text":"hi"}`)})
				if err != nil || !strings.Contains(got, `"arguments":{"text":"hi"}`) {
					t.Fatalf("Call = %s, %v", got, err)
				}
			}
			f.received(tt.want)
		})
	}
}

func TestLegacyRequests(t *testing.T) {
	f := newFixture(t, Options{}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true, Versions: []string{"2025-06-18"}})
	f.available()
	list := f.servers[0].Received("tools/list")[0]
	if got := list.Header.Get(mcp.HeaderSession); got != "session-1" {
		t.Errorf("session id = %q, want session-1", got)
	}
	if got := list.Header.Get("Mcp-Protocol-Version"); got != "2025-06-18" {
		t.Errorf("protocol version = %q, want the server's choice", got)
	}
	if got := list.Header.Values("Mcp-Method"); got != nil {
		t.Errorf("Mcp-Method = %q, want none in the handshake protocol", got)
	}
	if strings.Contains(string(list.Body), "_meta") {
		t.Errorf("body %s has _meta, want none in the handshake protocol", list.Body)
	}
	if got := f.servers[0].Received("initialize")[0].Header.Get("Mcp-Protocol-Version"); got != "" {
		t.Errorf("initialize has the version header %q, want none", got)
	}
}

func TestLostSession(t *testing.T) {
	legacy := upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true, Tools: tools(5), PageSize: 2}
	t.Run("is opened again once", func(t *testing.T) {
		const again = "tools/call initialize notifications/initialized tools/call"
		f := newFixture(t, Options{}, legacy)
		f.works()
		f.servers[0].EndSessions()
		f.servers[0].ForgetRequests()
		f.works()
		f.received(again)
		f.servers[0].FailOn("tools/call", -1, upstreamtest.Status(404, "no such session"))
		f.servers[0].ForgetRequests()
		if e := f.fails(Call{Name: "x"}); e.Outcome.Reason != outcome.ReasonNotFound {
			t.Errorf("Call = %v, want not_found", e)
		}
		f.received(again)
	})
	t.Run("between pages, the list starts again", func(t *testing.T) {
		f := newFixture(t, Options{}, legacy)
		f.servers[0].FailOn("tools/list", -1, second(func(s *upstreamtest.Server, w http.ResponseWriter, r *http.Request, serve http.Handler) {
			s.EndSessions()
			serve.ServeHTTP(w, r)
		}))
		if out := f.available(); len(out.Tools) != 5 {
			t.Fatalf("Load = %d tools; want all 5", len(out.Tools))
		}
	})
}

func TestServerThatChangedItsEra(t *testing.T) {
	f := newFixture(t, Options{}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true})
	f.available()
	f.servers[0].Close()
	upstreamtest.New(t, upstreamtest.Options{Protocols: upstreamtest.Modern, Tools: tools(2), Listener: f.net.Listen("server0:80")})
	if out := f.available(); len(out.Tools) != 2 {
		t.Fatalf("Load after the upgrade = %+v", out)
	}
	f.works()
}

func TestVersionNegotiation(t *testing.T) {
	version := func(supported string) upstreamtest.Fault {
		return upstreamtest.Status(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"no","data":{"supported":[`+supported+`],"requested":"2026-07-28"}}}`,
			"Content-Type", "application/json")
	}
	for _, tt := range []struct {
		name, method, supported string
		times                   int // how often the server refuses the version; -1: always
		o                       upstreamtest.Options
		reason                  string
		received                string
	}{
		{"down to the handshake protocol", "server/discover", `"2025-06-18"`, -1, upstreamtest.Options{Protocols: upstreamtest.Legacy}, "",
			"server/discover initialize notifications/initialized tools/list"},
		{"nothing in common", "server/discover", `"2031-01-01"`, -1, upstreamtest.Options{}, outcome.ReasonVersion, "server/discover"},
		{"refused once, but listed as supported", "server/discover", `"2026-07-28"`, 1, upstreamtest.Options{Protocols: upstreamtest.Modern}, "",
			"server/discover server/discover tools/list"},
		{"always refused, but listed as supported", "server/discover", `"2026-07-28"`, -1, upstreamtest.Options{}, outcome.ReasonVersion,
			"server/discover server/discover"},
		{"refused after one negotiation", "tools/list", `"2026-07-28"`, -1, upstreamtest.Options{}, outcome.ReasonVersion,
			"server/discover tools/list server/discover tools/list"},
		{"an unknown version chosen", "none", "", 0, upstreamtest.Options{Protocols: upstreamtest.Legacy, Versions: []string{"2031-01-01"}}, outcome.ReasonVersion,
			"server/discover initialize"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, Options{}, tt.o)
			f.servers[0].FailOn(tt.method, tt.times, version(tt.supported))
			if out := f.load(); out.Reason != tt.reason || (out.Status == permanent) != (tt.reason != "") {
				t.Errorf("Load = %s %s (%s), want %q", out.Status, out.Reason, out.Error, tt.reason)
			}
			f.received(tt.received)
		})
	}
}

func TestPages(t *testing.T) {
	for _, tt := range []struct {
		name               string
		tools, size, pages int
		reason             string
	}{{"all pages", 7, 2, 4, ""}, {"64 pages", 64, 1, 64, ""}, {"65 pages", 65, 1, 64, outcome.ReasonProtocol}} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, Options{}, upstreamtest.Options{Tools: tools(tt.tools), PageSize: tt.size})
			out := f.load()
			if pages := len(f.servers[0].Received("tools/list")); out.Reason != tt.reason || pages != tt.pages || out.Reason == "" && len(out.Tools) != tt.tools {
				t.Errorf("Load = %s %s with %d tools from %d pages, want reason %q after %d pages", out.Status, out.Reason, len(out.Tools), pages, tt.reason, tt.pages)
			}
		})
	}
	t.Run("10,001 tools", func(t *testing.T) {
		for n, want := range map[int]outcome.Status{10_000: outcome.Available, 10_001: permanent} {
			f := newFixture(t, Options{}, upstreamtest.Options{})
			half := strings.Repeat(`{},`, n/2)
			f.servers[0].FailOn("tools/list", 1, upstreamtest.Result(`{"tools":[`+half+`{}],"nextCursor":"2"}`))
			f.servers[0].FailOn("tools/list", 1, upstreamtest.Result(`{"tools":[`+strings.TrimSuffix(half[:3*(n-n/2-1)], ",")+`]}`))
			if out := f.load(); out.Status != want {
				t.Errorf("%d tools: Load = %s %s (%s), want %s", n, out.Status, out.Reason, out.Error, want)
			}
		}
	})
	t.Run("an opaque cursor passes byte for byte", func(t *testing.T) {
		f := newFixture(t, Options{}, upstreamtest.Options{})
		const cursor = `"\ud83d<\u00e9>"`
		f.servers[0].FailOn("tools/list", 1, upstreamtest.Result(`{"tools":[],"nextCursor":`+cursor+`}`))
		f.servers[0].FailOn("tools/list", 1, upstreamtest.Result(`{"tools":[]}`))
		f.available()
		if body := string(f.servers[0].Received("tools/list")[1].Body); !strings.Contains(body, `"cursor":`+cursor) {
			t.Errorf("request of the second page = %s, want cursor %s", body, cursor)
		}
	})
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	for _, o := range []upstreamtest.Options{
		{Protocols: upstreamtest.Modern}, {Protocols: upstreamtest.Modern, SSE: true}, {Protocols: upstreamtest.Legacy, Sessions: true, SSE: true},
	} {
		var mu sync.Mutex
		conns := map[string]bool{}
		o.Front = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				conns[r.RemoteAddr] = true
				mu.Unlock()
				next.ServeHTTP(w, r)
			})
		}
		s := upstreamtest.New(t, o)
		c := newClient(t, Options{})
		c.limits.drain = time.Minute // the default is too short for a slow machine
		for range 5 {
			if _, err := c.Call(t.Context(), Target{ID: "s", URL: s.URL}, Call{Name: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		if len(conns) != 1 {
			t.Errorf("protocols %d, streams %t: %d connections, want 1", o.Protocols, o.SSE, len(conns))
		}
	}
}

// If a stream stays open after the answer, the client does not wait for its end.
func TestOpenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := failingOn(t, "tools/call", func(s *upstreamtest.Server, w http.ResponseWriter, r *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", s.Calls()[0].ID)
			_ = http.NewResponseController(w).Flush()
			upstreamtest.Hang()(s, w, r, nil)
		}, upstreamtest.Options{})
		if got := f.works(); got != "{}" || time.Since(start) > f.limits.drain {
			t.Errorf("Call = %s after %v", got, time.Since(start))
		}
	})
}
