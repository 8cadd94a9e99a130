package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/session"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestSessionsEnd(t *testing.T) {
	t.Run("after half an hour without use, by themselves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFarm(Options{})
			s := f.add(t, upstreamtest.Options{Era: upstreamtest.Legacy, Sessions: true, Tools: tools(1)})
			defer s.Close()
			defer f.client.Close()
			if out := f.client.Load(t.Context(), f.targets[0]); out.Status != outcome.Available {
				t.Fatalf("Load = %+v", out)
			}
			for _, agent := range []string{"a", "b"} {
				if _, err := f.client.Call(t.Context(), f.targets[0], Call{Owner: owner(agent), Name: "tool_aa"}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(idleSession - time.Minute)
			if _, err := f.client.Call(t.Context(), f.targets[0], Call{Owner: owner("b"), Name: "tool_aa"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if got := s.Sessions(); len(got) != 1 || got[0] != s.Calls()[2].Header.Get(mcp.HeaderSession) {
				t.Errorf("open are %v, want b's alone", got)
			}
			time.Sleep(idleSession)
			synctest.Wait()
			if got := s.Sessions(); len(got) != 0 || f.client.sweeper != nil {
				t.Errorf("open are %v, want none, and nothing left to look for", got)
			}
		})
	})
	t.Run("by the instance that sees last that nobody uses them", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		first, second := d.instance(), d.instance()
		d.write(first, "a", "of a")
		d.reads(second, "a", "of a")
		d.open(1)
		for range 4 {
			d.pass(15 * time.Minute)
			d.reads(second, "a", "of a")
		}
		first.sweep() // it has not seen the session for an hour, but the store has
		d.until("first has forgotten it", func() bool { return first.sessions.len() == 0 && d.store.Ops()["Delete"] == 1 })
		d.reads(second, "a", "of a")
		d.pass(keepFor)
		second.sweep()
		d.open(0)
	})
}

func TestSessionsGoWith(t *testing.T) {
	t.Run("no instance while the store keeps them", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		first, second := d.instance(), d.instance()
		d.write(first, "a", "of a")
		first.EndSessions(t.Context())
		d.reads(second, "a", "of a")
	})
	t.Run("a handshake that fails at its end", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		d.FailOn("notifications/initialized", 1, upstreamtest.Status(400, "no"))
		c := d.alone()
		if _, err := d.try(c, "a", "read", ""); err == nil {
			t.Error("Call = nil, want an error")
		}
		d.open(0)
		d.reads(c, "a", "")
	})
	t.Run("the program", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		c := d.alone()
		if out := c.Load(t.Context(), d.target()); out.Status != outcome.Available {
			t.Fatalf("Load = %+v", out)
		}
		for i := range 40 {
			d.reads(c, fmt.Sprint(i), "")
		}
		c.EndSessions(t.Context())
		if got := d.Sessions(); len(got) != 0 {
			t.Errorf("open are %v, want none", got)
		}
	})
	t.Run("the program, in bounded time, whatever the server does", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		c := d.alone()
		d.reads(c, "a", "")
		d.Fail(upstreamtest.Hang())
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		c.EndSessions(ctx)
		if took := time.Since(began); took > endTimeout {
			t.Errorf("EndSessions took %v", took)
		}
	})
	t.Run("the room that others need", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		c := d.alone()
		c.sessions.max = 2
		d.write(c, "a", "of a")
		d.write(c, "b", "of b")
		d.reads(c, "a", "of a")
		d.reads(c, "c", "")
		d.reads(c, "a", "of a")
		d.open(2)
		d.reads(c, "b", "") // it was used least lately
	})
}

// A crowd of agents does not take memory without bound.
func TestSlotsAreBounded(t *testing.T) {
	x := sessionCache{max: maxSessions}
	l := &mcpSession{id: "x"}
	now := time.Now()
	busy, _ := x.acquire(entryKey{Key: session.Key{Server: "busy"}}, now)
	for i := range 10_000 {
		s, out := x.acquire(entryKey{Key: session.Key{Server: "s", Owner: owner(fmt.Sprint(i))}}, now)
		s.set(l, Target{}, now, time.Time{}, time.Time{})
		x.release(s)
		if out == busy {
			t.Fatal("a slot in use went")
		}
	}
	if n := x.len(); n > maxSessions {
		t.Errorf("%d slots are kept, want at most %d", n, maxSessions)
	}
	if again, _ := x.acquire(entryKey{Key: session.Key{Server: "busy"}}, now); again != busy {
		t.Error("a slot in use was forgotten")
	}
}

// A session id lets its bearer speak as the agent, so nothing tells it on.
func TestSessionIDsAreToldToNobody(t *testing.T) {
	d := newDesk(t, upstreamtest.Options{})
	log, text := logged()
	d.store.Fail = func(op string) error { return errors.New("down") }
	c := quick(t, Options{Sessions: &d.store, Log: log})
	d.reads(c, "a", "")
	id := d.Sessions()[0]
	d.FailOn("tools/call", 1, upstreamtest.RPC(-32000, "bad session "+id))
	_, err := c.Call(t.Context(), d.target(), Call{Owner: owner("a"), Name: "read"})
	if rpc, ok := errors.AsType[*RPCError](err); !ok || strings.Contains(rpc.Message, id) {
		t.Errorf("Call = %v, want an error without the id", err)
	}
	d.FailOn("tools/call", 1, upstreamtest.Result(`{"content":[{"type":"text","text":"Mcp-Session-Id: `+id+`"}],"n":9007199254740993}`))
	raw, err := c.Call(t.Context(), d.target(), Call{Owner: owner("a"), Name: "read"})
	if want := `{"content":[{"type":"text","text":"Mcp-Session-Id: [secret]"}],"n":9007199254740993}`; err != nil || string(raw) != want {
		t.Errorf("Call = %s, %v; want %s", raw, err, want)
	}
	d.FailOn("tools/call", 1, upstreamtest.Status(403, strings.Repeat("x", 239)+" session "+id+" is not yours"))
	if _, err = c.Call(t.Context(), d.target(), Call{Owner: owner("a"), Name: "read"}); err == nil || strings.Contains(err.Error(), id[:8]) {
		t.Errorf("Call = %v, want an error without the id", err)
	}
	c.EndSessions(t.Context())
	if strings.Contains(text.String(), id[:8]) {
		t.Errorf("the id is in the log:\n%s", text)
	}
}

// What is kept may be of another version, or garbled: it is not sent to a server.
func TestKeptSessionsAreChecked(t *testing.T) {
	for name, kept := range map[string]session.Session{
		"no id":              {Version: mcp.VersionLegacy},
		"no header":          {ID: secret.New("a\r\nX: y"), Version: mcp.VersionLegacy},
		"an unknown version": {ID: secret.New("x"), Version: "2031-01-01"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, upstreamtest.Options{})
			kept.Expires = d.clock().Add(time.Hour)
			k := session.Key{Server: "desk", URL: d.URL, Owner: owner("a")}
			if _, err := d.store.Put(t.Context(), k, kept, secret.Text{}); err != nil {
				t.Fatal(err)
			}
			c := d.instance()
			d.reads(c, "b", "")
			d.reads(c, "a", "")
			d.reads(c, "a", "")
			if n := len(d.Received("initialize")); n != 2 {
				t.Errorf("%d handshakes, want 2", n)
			}
			for _, r := range d.Requests() {
				if got := r.Header.Get(mcp.HeaderSession); got != "" && !slices.Contains(d.Sessions(), got) {
					t.Errorf("%q was sent", got)
				}
			}
		})
	}
}

// BenchmarkCallOnASession is a call of one of many agents, on a session.
func BenchmarkCallOnASession(b *testing.B) {
	s := upstreamtest.New(b, upstreamtest.Options{Era: upstreamtest.Legacy, Sessions: true, Tools: []json.RawMessage{echoTool()}, Forget: true})
	c := New(&Options{AllowNets: loopback()})
	defer c.Close()
	arguments := json.RawMessage(`{"text":"a text of the usual length, as agents send it"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Call(b.Context(), Target{ID: "s", URL: s.URL}, Call{Owner: owner("a"), Name: "echo", Arguments: arguments}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSlot is what finding the agent's session costs a call.
func BenchmarkSlot(b *testing.B) {
	x := sessionCache{max: maxSessions}
	now := time.Now()
	for i := range maxSessions {
		s, _ := x.acquire(entryKey{Key: session.Key{Server: "s", URL: "https://mcp.example.com/s/mcp", Owner: owner(fmt.Sprint("agent-", i))}}, now)
		s.set(&mcpSession{id: "x"}, Target{}, now, time.Time{}, time.Time{})
		x.release(s)
	}
	k := entryKey{Key: session.Key{Server: "s", URL: "https://mcp.example.com/s/mcp", Owner: owner("agent-512")}}
	b.ReportAllocs()
	for b.Loop() {
		s, _ := x.acquire(k, now)
		s.open(now)
		x.release(s)
	}
}
