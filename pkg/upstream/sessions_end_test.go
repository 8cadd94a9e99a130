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

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestSessionsEnd(t *testing.T) {
	withNotebook(t, "after half an hour without use", func(t *testing.T, n *notebook) {
		n.available()
		n.reads(n.Client, "a", "")
		n.reads(n.Client, "b", "")
		time.Sleep(idleSession - time.Minute)
		n.reads(n.Client, "b", "")
		time.Sleep(2 * time.Minute)
		n.open(1)
		if got := n.Sessions(); !slices.Contains(got, n.Calls()[2].Header.Get(mcp.HeaderSession)) {
			t.Errorf("open sessions = %v, want only b's", got)
		}
		time.Sleep(idleSession)
		n.open(0)
		if n.sweeper != nil {
			t.Error("the search for idle sessions runs without sessions")
		}
	})
	withNotebook(t, "by the last instance that used them", func(t *testing.T, n *notebook) {
		first, second := n.instance(), n.instance()
		n.write(first, "a", "of a")
		n.reads(second, "a", "of a")
		n.open(1)
		for range 4 {
			time.Sleep(15 * time.Minute)
			n.reads(second, "a", "of a")
		}
		// first has not seen the session for an hour, but the store has recorded a use.
		if first.sessions.len() != 0 {
			t.Errorf("the first instance remembers %d sessions, want 0", first.sessions.len())
		}
		n.ops("7 reads 5 writes 0 deletes") // second prolongs it four times; then first checks in the store whether it may end it
		n.reads(second, "a", "of a")
		time.Sleep(keepFor + sweepEvery)
		n.open(0)
	})
	withNotebook(t, "with no instance while the store keeps them", func(t *testing.T, n *notebook) {
		first, second := n.instance(), n.instance()
		n.write(first, "a", "of a")
		first.EndSessions(t.Context())
		n.reads(second, "a", "of a")
	})
	withNotebook(t, "with a handshake that fails at its end", func(t *testing.T, n *notebook) {
		n.FailOn("notifications/initialized", 1, upstreamtest.Status(400, "no"))
		if _, err := n.try(n.Client, owner("a"), "read", ""); err == nil {
			t.Error("Call = nil, want an error")
		}
		n.open(0)
		n.reads(n.Client, "a", "")
	})
	withNotebook(t, "with the program", func(t *testing.T, n *notebook) {
		n.available()
		for i := range 40 {
			n.reads(n.Client, fmt.Sprint(i), "")
		}
		n.Client.EndSessions(t.Context())
		if got := n.Sessions(); len(got) != 0 {
			t.Errorf("open sessions = %v, want none", got)
		}
	})
	withNotebook(t, "with the program, in bounded time, even if the server hangs", func(t *testing.T, n *notebook) {
		n.reads(n.Client, "a", "")
		n.Fail(upstreamtest.Hang())
		began := time.Now()
		n.Client.EndSessions(within(t, 50*time.Millisecond))
		if took := time.Since(began); took != 50*time.Millisecond {
			t.Errorf("EndSessions took %v", took)
		}
	})
	withNotebook(t, "to make room for other sessions", func(_ *testing.T, n *notebook) {
		n.sessions.max = 2
		n.write(n.Client, "a", "of a")
		n.write(n.Client, "b", "of b")
		n.reads(n.Client, "a", "of a")
		n.reads(n.Client, "c", "")
		n.reads(n.Client, "a", "of a")
		n.open(2)
		n.reads(n.Client, "b", "") // the least recently used session has ended
	})
}

// A session ends with the program even if a call still runs on it.
func TestSessionInUseEnds(t *testing.T) {
	withNotebook(t, "", func(t *testing.T, n *notebook) {
		n.reads(n.Client, "a", "")
		n.FailOn("tools/call", 1, upstreamtest.Hang())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := n.Call(ctx, n.target(), Call{Owner: owner("a"), Name: "read"})
			ended <- err
		}()
		synctest.Wait()
		n.Client.EndSessions(t.Context())
		n.open(0)
		n.reads(n.Client, "a", "") // on another session
		cancel()
		callError(t, <-ended)
		n.open(1)
		n.reads(n.Client, "a", "")
		n.handshakes(2)
	})
}

// The number of remembered sessions is bounded, even with many agents.
func TestSessionCacheIsBounded(t *testing.T) {
	x := sessionCache{max: maxSessions}
	now := time.Now()
	key := func(agent string) entryKey { return entryKey{Key: session.Key{Server: "s", Owner: owner(agent)}} }
	busy, _ := x.acquire(key("busy"), false, now)
	for i := range maxSessions + 100 {
		e, out := x.acquire(key(fmt.Sprint(i)), false, now)
		e.set(&mcpSession{id: "x"}, Target{}, now, time.Time{}, time.Time{})
		x.release(e)
		if out == busy {
			t.Fatal("a session in use was removed")
		}
	}
	if n := x.len(); n > maxSessions {
		t.Errorf("%d sessions are kept, want at most %d", n, maxSessions)
	}
	if again, _ := x.acquire(key("busy"), false, now); again != busy {
		t.Error("a session in use was forgotten")
	}
}

// A session id lets its bearer act as the agent, so no log or error shows it.
func TestSessionIDsAreSecret(t *testing.T) {
	withNotebook(t, "in errors, results and logs", func(t *testing.T, n *notebook) {
		log, text := logged()
		n.docs.OnDocs = func(context.Context, []document.Key) error { return errors.New("down") }
		c := n.client(Options{Sessions: n.store, Log: log})
		n.reads(c, "a", "")
		id := n.Sessions()[0]
		failing := func(fault upstreamtest.Fault) (json.RawMessage, error) {
			n.FailOn("tools/call", 1, fault)
			return c.Call(t.Context(), n.target(), Call{Owner: owner("a"), Name: "read"})
		}
		_, err := failing(upstreamtest.RPC(-32000, "bad session "+id))
		if rpc, ok := errors.AsType[*outcome.RPCError](err); !ok || strings.Contains(rpc.Message, id) {
			t.Errorf("Call = %v, want an error without the id", err)
		}
		raw, err := failing(upstreamtest.Result(`{"content":[{"type":"text","text":"Mcp-Session-Id: ` + id + `"}],"n":9007199254740993}`))
		if want := `{"content":[{"type":"text","text":"Mcp-Session-Id: [secret]"}],"n":9007199254740993}`; err != nil || string(raw) != want {
			t.Errorf("Call = %s, %v; want %s", raw, err, want)
		}
		_, err = failing(upstreamtest.Status(403, strings.Repeat("x", 239)+" session "+id+" is not yours"))
		if err == nil || strings.Contains(err.Error(), id[:8]) {
			t.Errorf("Call = %v, want an error without the id", err)
		}
		c.EndSessions(t.Context())
		if strings.Contains(text.String(), id[:8]) {
			t.Errorf("the id is in the log:\n%s", text)
		}
	})
}

// A kept session may have another version or be corrupt. Then no request uses it.
func TestKeptSessionsAreChecked(t *testing.T) {
	for name, kept := range map[string]session.Session{
		"no id":              {Version: mcp.VersionLegacy},
		"no header":          {ID: secret.New("a\r\nX: y"), Version: mcp.VersionLegacy},
		"an unknown version": {ID: secret.New("x"), Version: "2031-01-01"},
	} {
		withNotebook(t, name, func(t *testing.T, n *notebook) {
			kept.Expires = time.Now().Add(time.Hour)
			k := session.Key{Server: n.target().ID, URL: n.target().URL, Owner: owner("a")}
			if _, err := n.store.Put(t.Context(), k, kept, secret.Text{}); err != nil {
				t.Fatal(err)
			}
			c := n.instance()
			n.reads(c, "b", "")
			n.reads(c, "a", "")
			n.reads(c, "a", "")
			n.handshakes(2)
			for _, r := range n.Requests() {
				if got := r.Header.Get(mcp.HeaderSession); got != "" && !slices.Contains(n.Sessions(), got) {
					t.Errorf("%q was sent", got)
				}
			}
		})
	}
}
