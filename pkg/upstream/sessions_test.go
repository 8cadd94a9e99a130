package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/session"
	"github.com/portcullis-mcp/portcullis/pkg/session/sessiontest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A desk is a server that keeps a text for each session, a store and a clock that
// several clients share, as instances of the gateway do.
type desk struct {
	*upstreamtest.Server
	t     *testing.T
	store sessiontest.Mem

	mu  sync.Mutex
	now time.Time
}

func newDesk(t *testing.T, o upstreamtest.Options) *desk {
	o.Era, o.Sessions, o.Call, o.Tools = upstreamtest.Legacy, true, upstreamtest.Notebook(), tools(1)
	d := &desk{Server: upstreamtest.New(t, o), t: t, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	d.store.Now = d.clock
	return d
}

func (d *desk) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *desk) pass(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

// instance returns a client that shares the store with the others.
func (d *desk) instance() *Client { return quick(d.t, Options{Sessions: &d.store, Now: d.clock}) }

// alone returns a client that shares nothing, as on one machine.
func (d *desk) alone() *Client { return quick(d.t, Options{Now: d.clock}) }

func (d *desk) target() Target { return Target{ID: "desk", URL: d.URL} }

func owner(agent string) session.Owner { return session.Owner{Way: "jwt", Agent: agent} }

func (d *desk) try(c *Client, agent, tool, text string) (string, error) {
	raw, err := c.Call(d.t.Context(), d.target(), Call{Owner: owner(agent), Name: tool, Arguments: json.RawMessage(fmt.Sprintf(`{"text":%q}`, text))})
	if err != nil {
		return "", err
	}
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) != 1 {
		d.t.Fatalf("%s answers %s (%v)", tool, raw, err)
	}
	return r.Content[0].Text, nil
}

func (d *desk) write(c *Client, agent, text string) {
	d.t.Helper()
	if _, err := d.try(c, agent, "write", text); err != nil {
		d.t.Fatalf("%s writes: %v", agent, err)
	}
}

// reads checks what an agent finds on its session.
func (d *desk) reads(c *Client, agent, want string) {
	d.t.Helper()
	if got, err := d.try(c, agent, "read", ""); err != nil || got != want {
		d.t.Errorf("%s reads %q, %v; want %q", agent, got, err, want)
	}
}

// until waits for what happens beside the requests.
func (d *desk) until(what string, ok func() bool) {
	d.t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond) // a real server on a real network
	}
	d.t.Fatalf("not so: %s; open are %v, deleted %v", what, d.Sessions(), d.deleted())
}

// open waits until so many sessions are open on the server.
func (d *desk) open(n int) {
	d.t.Helper()
	d.until(fmt.Sprintf("%d sessions are open", n), func() bool { return len(d.Sessions()) == n })
}

// deleted returns the ids of the sessions that clients ended, in order.
func (d *desk) deleted() []string {
	var out []string
	for _, r := range d.Requests() {
		if r.Verb == http.MethodDelete {
			out = append(out, r.Header.Get(mcp.HeaderSession))
		}
	}
	return out
}

func (d *desk) ops(want string) {
	d.t.Helper()
	ops := d.store.Ops()
	if got := fmt.Sprintf("%d get %d put %d delete", ops["Get"], ops["Put"], ops["Delete"]); got != want {
		d.t.Errorf("the store was asked for %s, want %s", got, want)
	}
}

func TestAgentsSessions(t *testing.T) {
	t.Run("are apart", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		c := d.alone()
		if out := c.Load(t.Context(), d.target()); out.Status != outcome.Available {
			t.Fatalf("Load = %+v", out)
		}
		d.write(c, "a", "of a")
		d.reads(c, "b", "")
		d.write(c, "b", "of b")
		d.reads(c, "a", "of a")
		d.reads(c, "b", "of b")
		list := d.Received("tools/list")[0].Header.Get(mcp.HeaderSession)
		for _, r := range d.Calls() {
			if r.Header.Get(mcp.HeaderSession) == list {
				t.Errorf("%s was sent on the session of the load", r.Body)
			}
		}
		d.open(3)
	})
	t.Run("are apart by how agents proved who they are", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		c := d.alone()
		d.write(c, "a", "of a")
		raw, err := c.Call(t.Context(), d.target(), Call{Owner: session.Owner{Way: "iam", Agent: "a"}, Name: "read"})
		if err != nil || strings.Contains(string(raw), "of a") {
			t.Errorf("read = %s, %v", raw, err)
		}
	})
	t.Run("follow the agent to another instance", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		first, second := d.instance(), d.instance()
		d.write(first, "a", "of a")
		d.reads(second, "a", "of a")
		d.reads(second, "b", "")
		d.write(second, "b", "of b")
		d.reads(first, "b", "of b")
		d.reads(first, "a", "of a")
		d.open(2) // what second opened before it knew that the server has sessions is ended
	})
	t.Run("are one where the operator said so", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		for _, c := range []*Client{d.instance(), d.instance()} {
			target := d.target()
			target.Shared = true
			for _, agent := range []string{"a", "b"} {
				if _, err := c.Call(t.Context(), target, Call{Owner: owner(agent), Name: "read"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		d.open(1)
	})
}

func TestAgentsAtOnce(t *testing.T) {
	t.Run("wait for no other agent's handshake", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		d.FailOn("initialize", 1, upstreamtest.Hang())
		c := d.alone()
		ctx, cancel := context.WithCancel(t.Context())
		hung := make(chan error, 1)
		go func() {
			_, err := c.Call(ctx, d.target(), Call{Owner: owner("a"), Name: "read"})
			hung <- err
		}()
		d.until("a's handshake hangs", func() bool { return len(d.Received("initialize")) == 1 })
		d.reads(c, "b", "")
		cancel()
		if err := <-hung; err == nil {
			t.Error("a's call is answered, want it cancelled: its handshake hangs")
		}
		d.reads(c, "a", "")
	})
	t.Run("open one session each", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		c := d.instance()
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() { d.reads(c, string(rune('a'+i%3)), "") })
		}
		wg.Wait()
		if n := len(d.Received("initialize")); n != 3 {
			t.Errorf("%d handshakes, want one an agent", n)
		}
	})
}

func TestSessionsOfTwoInstances(t *testing.T) {
	t.Run("opened at once: one wins, the other's is ended", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		instances := []*Client{d.instance(), d.instance(), d.instance(), d.instance()}
		var wg sync.WaitGroup
		for _, c := range instances {
			wg.Go(func() { d.reads(c, "a", "") })
		}
		wg.Wait()
		d.open(1)
		d.write(instances[0], "a", "of a")
		for _, c := range instances[1:] {
			d.reads(c, "a", "of a")
		}
	})
	t.Run("forgotten by the server: opened again once, for both", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		first, second := d.instance(), d.instance()
		d.write(first, "a", "of a")
		d.reads(second, "a", "of a")
		d.EndSessions()
		d.ForgetRequests()
		d.reads(first, "a", "")
		d.write(first, "a", "again")
		d.reads(second, "a", "again")
		if n := len(d.Received("initialize")); n != 1 {
			t.Errorf("%d handshakes, want 1", n)
		}
	})
	t.Run("taken over and forgotten as well: opened again", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		first, second := d.instance(), d.instance()
		d.write(first, "a", "of a")
		d.reads(second, "a", "of a")
		d.EndSessions()
		d.reads(first, "a", "")
		d.EndSessions()
		d.reads(second, "a", "") // its own is gone, and so is the one that the store has
		d.open(1)
	})
}

func TestSessionEndsWithItsCredential(t *testing.T) {
	d := newDesk(t, upstreamtest.Options{Token: "old"})
	var mu sync.Mutex
	token := "old"
	client := func() *Client {
		return quick(t, Options{Sessions: &d.store, Now: d.clock, Secrets: secrets(func(string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			return token, nil
		})})
	}
	target := d.target()
	target.Headers = map[string]string{"Authorization": "Bearer ${env:TOKEN}"}
	call := func(c *Client) string {
		t.Helper()
		if _, err := c.Call(t.Context(), target, Call{Owner: owner("a"), Name: "read"}); err != nil {
			t.Fatal(err)
		}
		return d.Calls()[len(d.Calls())-1].Header.Get(mcp.HeaderSession)
	}
	first, second := client(), client()
	before := call(first)
	if got := call(second); got != before {
		t.Fatalf("two instances use %s and %s", before, got)
	}
	d.open(1) // the second ends its own with the credential that opened it
	mu.Lock()
	token = "new-one"
	mu.Unlock()
	d.SetToken("new-one")
	after := call(first)
	if after == before {
		t.Error("the session outlives the credential that opened it")
	}
	if got := call(second); got != after {
		t.Errorf("the other instance uses %s, want %s", got, after)
	}
	d.until("the old session is ended", func() bool { return slices.Contains(d.deleted(), before) })
	d.open(1)
}

type secrets func(ref string) (string, error)

func (s secrets) Secret(_ context.Context, ref string) (string, error) { return s(ref) }

func TestSessionsCostTheStore(t *testing.T) {
	t.Run("nothing where the server has none", func(t *testing.T) {
		for _, o := range []upstreamtest.Options{{Era: upstreamtest.Modern}, {Era: upstreamtest.Both}, {Era: upstreamtest.Legacy}} {
			o.Tools = tools(1)
			s := upstreamtest.New(t, o)
			store := new(sessiontest.Mem)
			for range 2 {
				c := quick(t, Options{Sessions: store})
				for i := range 20 {
					if _, err := c.Call(t.Context(), Target{ID: "s", URL: s.URL}, Call{Owner: owner(fmt.Sprint(i % 3)), Name: "tool_aa"}); err != nil {
						t.Fatal(err)
					}
				}
				if n := c.sessions.len(); n != 0 {
					t.Errorf("era %d: %d sessions are remembered", o.Era, n)
				}
			}
			if ops := store.Ops(); ops["Get"]+ops["Put"]+ops["Delete"] != 0 {
				t.Errorf("era %d: the store was asked for %v, want nothing", o.Era, ops)
			}
		}
	})
	t.Run("one read for an instance that the catalog tells of them, and no handshake", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		out := d.alone().Load(t.Context(), d.target())
		d.write(d.instance(), "a", "of a")
		d.ForgetRequests()
		target := d.target()
		target.Memory = out.Memory
		raw, err := d.instance().Call(t.Context(), target, Call{Owner: owner("a"), Name: "read"})
		if err != nil || !strings.Contains(string(raw), "of a") {
			t.Errorf("read = %s, %v", raw, err)
		}
		if got := methods(d.Server); got != "tools/call" {
			t.Errorf("the server received %s, want tools/call alone", got)
		}
		d.ops("1 get 1 put 0 delete")
	})
	t.Run("one write to open, one read or write to find, one write in a quarter of an hour of use", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		first, second := d.instance(), d.instance()
		for range 10 {
			d.write(first, "a", "of a")
		}
		d.ops("0 get 1 put 0 delete")
		for range 10 {
			d.reads(second, "a", "of a") // it does not know yet that the server has sessions
		}
		d.ops("0 get 2 put 0 delete")
		for range 10 {
			d.reads(second, "b", "")
			d.reads(first, "b", "")
		}
		d.ops("2 get 3 put 0 delete")
		for range 60 {
			d.pass(time.Minute)
			d.reads(first, "a", "of a")
		}
		d.ops("2 get 7 put 0 delete")
	})
}

func TestSessionStoreDown(t *testing.T) {
	t.Run("costs no call, and one line of the log", func(t *testing.T) {
		d := newDesk(t, upstreamtest.Options{})
		log, text := logged()
		d.store.Fail = func(string) error { return errors.New("the table is gone") }
		c := quick(t, Options{Sessions: &d.store, Now: d.clock, Log: log})
		d.write(c, "a", "of a")
		for _, agent := range []string{"b", "c", "d"} {
			d.reads(c, agent, "")
		}
		d.reads(c, "a", "of a")
		d.ops("0 get 1 put 0 delete")
		d.pass(storeRetry)
		d.reads(c, "a", "of a")
		if n := strings.Count(text.String(), "the table is gone"); n != 1 {
			t.Errorf("%d lines about the store, want 1:\n%s", n, text)
		}
		d.store.Fail = nil
		d.pass(storeRetry)
		d.reads(c, "a", "of a")
		d.reads(d.instance(), "a", "of a")
	})
	t.Run("costs no call when it hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFarm(Options{Sessions: hungStore{}})
			s := f.add(t, upstreamtest.Options{Era: upstreamtest.Legacy, Sessions: true, Tools: tools(1)})
			defer s.Close()
			defer f.client.Close()
			began := time.Now()
			for range 5 {
				if _, err := f.client.Call(t.Context(), f.targets[0], Call{Owner: owner("a"), Name: "tool_aa"}); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took > storeTimeout+time.Second {
				t.Errorf("five calls took %v", took)
			}
		})
	})
}

// hungStore is a store that answers nothing.
type hungStore struct{}

func (hungStore) Get(ctx context.Context, _ session.Key) (session.Session, error) {
	<-ctx.Done()
	return session.Session{}, ctx.Err()
}

func (hungStore) Put(ctx context.Context, _ session.Key, _ session.Session, _ secret.Text) (session.Session, error) {
	<-ctx.Done()
	return session.Session{}, ctx.Err()
}

func (hungStore) Delete(ctx context.Context, _ session.Key, _ session.Session) error {
	<-ctx.Done()
	return ctx.Err()
}
