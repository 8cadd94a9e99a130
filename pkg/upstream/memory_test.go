package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestEraIsRememberedFromOneProcessToTheNext(t *testing.T) {
	const asked, spared = "server/discover initialize notifications/initialized tools/list", "initialize notifications/initialized tools/list"
	for _, sessions := range []bool{false, true} {
		now := time.Now()
		s := upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Legacy, Sessions: sessions, Tools: tools(1)})
		load := func(m outcome.Memory) outcome.Memory {
			t.Helper()
			s.ForgetRequests()
			out := quick(t, Options{Now: func() time.Time { return now }}).Load(t.Context(), Target{ID: "s", URL: s.URL, Memory: m})
			if out.Status != outcome.Available {
				t.Fatalf("Load = %+v", out)
			}
			raw, err := json.Marshal(out)
			if err != nil || json.Unmarshal(raw, &out) != nil {
				t.Fatalf("outcome %s does not survive", raw)
			}
			return out.Memory
		}
		first := load(outcome.Memory{})
		if methods(s) != asked || first != (outcome.Memory{Handshake: true, Sessions: sessions, At: first.At}) || !first.At.Equal(now) {
			t.Errorf("first load sent %s, and remembers %+v", methods(s), first)
		}
		now = now.Add(maxMemory - time.Second)
		if next := load(first); methods(s) != spared || next != first {
			t.Errorf("next process sent %s, and remembers %+v, want %s and %+v", methods(s), next, spared, first)
		}
		now = now.Add(time.Second)
		if later := load(first); methods(s) != asked || !later.At.Equal(now) {
			t.Errorf("a day later it sent %s, and remembers %+v, want the era asked for", methods(s), later)
		}
	}
}

// An instance that knows of sessions looks for the agent's before it opens one.
func TestRememberedSessionsAreTakenOverAtOnce(t *testing.T) {
	d := newDesk(t, upstreamtest.Options{})
	first, second := d.instance(), d.instance()
	d.write(first, "a", "of a")
	d.ForgetRequests()
	target := d.target()
	target.Memory = first.server(target).remembered()
	raw, err := second.Call(t.Context(), target, Call{Owner: owner("a"), Name: "read"})
	if err != nil || !strings.Contains(string(raw), "of a") || methods(d.Server) != "tools/call" {
		t.Errorf("read = %s, %v after %s; want a's text by one request", raw, err, methods(d.Server))
	}
}

func TestMemoryThatIsWrongMendsItself(t *testing.T) {
	for _, tt := range []struct {
		name   string
		o      upstreamtest.Options
		memory outcome.Memory
		fault  upstreamtest.Fault // of initialize; nil: none
		want   string             // methods of a load and a call
		after  bool               // the handshake era is remembered
	}{
		{"stateless by now", upstreamtest.Options{Era: upstreamtest.Modern}, outcome.Memory{Handshake: true, Sessions: true}, nil,
			"initialize server/discover tools/list tools/call", false},
		{"stateless, and there is nothing else", upstreamtest.Options{Era: upstreamtest.Modern}, outcome.Memory{Handshake: true}, upstreamtest.Status(404, ""),
			"initialize server/discover tools/list tools/call", false},
		{"of both eras by now", upstreamtest.Options{}, outcome.Memory{Handshake: true}, nil,
			"initialize notifications/initialized tools/list tools/call", true},
		{"handshake after all", upstreamtest.Options{Era: upstreamtest.Legacy}, outcome.Memory{}, nil,
			"server/discover initialize notifications/initialized tools/list tools/call", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Tools = tools(1)
			s := upstreamtest.New(t, tt.o)
			if tt.fault != nil {
				s.FailOn("initialize", -1, tt.fault)
			}
			if tt.memory.Handshake {
				tt.memory.At = time.Now()
			}
			c := quick(t, Options{})
			target := Target{ID: "s", URL: s.URL, Memory: tt.memory}
			out := c.Load(t.Context(), target)
			if _, err := c.Call(t.Context(), target, Call{Name: "tool_aa"}); err != nil || out.Status != outcome.Available || out.Attempts != 1 {
				t.Errorf("Load = %+v, Call = %v", out, err)
			}
			if got := methods(s); got != tt.want || out.Memory.Handshake != tt.after {
				t.Errorf("the server received %s, want %s; %+v is remembered", got, tt.want, out.Memory)
			}
		})
	}
}

func TestMemoryOutlivesALoadThatFails(t *testing.T) {
	memory := outcome.Memory{Handshake: true, Sessions: true, At: time.Now().Round(0)}
	s := upstreamtest.New(t, upstreamtest.Options{})
	for name, f := range map[string]func(){"down": s.Refuse, "denied": func() { _ = s.Return(); s.Fail(upstreamtest.Status(403, "")) }} {
		f()
		if out := quick(t, Options{}).Load(t.Context(), Target{ID: "s", URL: s.URL, Memory: memory}); out.Status == outcome.Available || out.Memory != memory {
			t.Errorf("%s: Load = %+v, want it to remember %+v", name, out, memory)
		}
	}
}

// slowly lets each exchange with a server take a time.
func slowly(d time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(d)
			next.ServeHTTP(w, r)
		})
	}
}

func TestServerBehindASlowBridgeLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(Options{Jitter: func(time.Duration) time.Duration { return 0 }})
		defer f.close()
		f.add(t, upstreamtest.Options{Era: upstreamtest.Legacy, Tools: tools(1), Front: slowly(1400 * time.Millisecond)})
		out := f.client.Load(t.Context(), f.targets[0])
		if out.Status != outcome.Available || out.Attempts != 1 || out.Duration != 5600*time.Millisecond {
			t.Errorf("Load = %s %s after %d attempts in %v, want the handshake and the list each in time", out.Status, out.Reason, out.Attempts, out.Duration)
		}
		// What a handshake that was too slow found out helps the next.
		slow := f.add(t, upstreamtest.Options{Era: upstreamtest.Legacy, Tools: tools(1), Front: slowly(2 * time.Second)})
		out = f.client.Load(t.Context(), f.targets[1])
		if out.Reason != outcome.ReasonTimeout || !out.Memory.Handshake {
			t.Fatalf("Load = %s %s, remembers %+v; want it too slow, and its era known", out.Status, out.Reason, out.Memory)
		}
		slow.ForgetRequests()
		next := inMemory(&f.net, Options{})
		defer next.Close()
		target := f.targets[1]
		target.Memory = out.Memory
		if out = next.Load(t.Context(), target); out.Status != outcome.Available || out.Duration != 6*time.Second {
			t.Errorf("next Load = %s %s in %v after %s, want it available in 6s", out.Status, out.Reason, out.Duration, methods(slow))
		}
	})
}

func TestEachPageHasItsTime(t *testing.T) {
	for _, tt := range []struct {
		name     string
		pages    int
		page     time.Duration
		deadline time.Duration // of the caller; 0: none
		reason   string
		took     time.Duration
	}{
		{"ten pages of 4 s", 10, 4 * time.Second, 0, "", 40 * time.Second},
		{"60 s in all", 20, 4 * time.Second, 0, outcome.ReasonTimeout, time.Minute},
		{"the caller's deadline less 500 ms", 20, 4 * time.Second, 30 * time.Second, outcome.ReasonTimeout, 29500 * time.Millisecond},
		{"a page of 6 s", 2, 6 * time.Second, 0, outcome.ReasonTimeout, 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFarm(Options{Jitter: func(time.Duration) time.Duration { return 0 }})
				defer f.close()
				s := f.add(t, upstreamtest.Options{Era: upstreamtest.Modern, Tools: tools(tt.pages), PageSize: 1})
				s.FailOn("tools/list", -1, upstreamtest.Slow(tt.page))
				ctx := t.Context()
				if tt.deadline > 0 {
					limited, cancel := context.WithTimeout(ctx, tt.deadline)
					defer cancel()
					ctx = limited
				}
				out := f.client.Load(ctx, f.targets[0])
				if out.Reason != tt.reason || out.Duration != tt.took || tt.reason == "" && len(out.Tools) != tt.pages {
					t.Errorf("Load = %s %s with %d tools in %v, want %q in %v", out.Status, out.Reason, len(out.Tools), out.Duration, tt.reason, tt.took)
				}
			})
		})
	}
}

func TestPageThatHangsIsTriedAgainInTheFirstTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(Options{Jitter: func(time.Duration) time.Duration { return 0 }})
		defer f.close()
		s := f.add(t, upstreamtest.Options{Era: upstreamtest.Modern, Tools: tools(3), PageSize: 1})
		n := 0
		s.FailOn("tools/list", -1, func(s *upstreamtest.Server, w http.ResponseWriter, r *http.Request, serve http.Handler) {
			if n++; n == 2 {
				upstreamtest.Hang()(s, w, r, serve)
				return
			}
			serve.ServeHTTP(w, r)
		})
		out := f.client.Load(t.Context(), f.targets[0])
		if got := fmt.Sprintln(out.Status, out.Attempts, len(out.Tools), out.Duration); got != "available 2 3 5.25s\n" {
			t.Errorf("Load = %s", got)
		}
	})
}
