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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A notebook is a server that keeps a text for each session, with a store that several clients
// share like instances of the gateway.
type notebook struct {
	*fixture
	*upstreamtest.Server
	docs        documenttest.Store
	store       *session.Store // on docs
	storeCounts storeCounts
}

// A storeCounts counts the requests to a store.
type storeCounts struct{ reads, writes, deletes atomic.Int64 }

func (a *storeCounts) count(docs *documenttest.Store) {
	docs.OnDocs = func(context.Context, []document.Key) error { a.reads.Add(1); return nil }
	docs.OnPut = func(_ context.Context, put []document.Doc) (bool, error) {
		if put[0].Data == nil {
			a.deletes.Add(1)
		} else {
			a.writes.Add(1)
		}
		return false, nil
	}
}

func (a *storeCounts) String() string {
	return fmt.Sprintf("%d reads %d writes %d deletes", a.reads.Load(), a.writes.Load(), a.deletes.Load())
}

// withNotebook runs a subtest with a notebook, on a fake clock.
func withNotebook(t *testing.T, name string, test func(t *testing.T, n *notebook)) {
	t.Helper()
	onFakeClock(t, name, func(t *testing.T) { test(t, newNotebook(t, upstreamtest.Options{})) })
}

func newNotebook(t *testing.T, o upstreamtest.Options) *notebook {
	o.Protocols, o.Sessions, o.Call, o.Tools = upstreamtest.Legacy, true, upstreamtest.Notebook(), tools(1)
	f := newFixture(t, Options{}, o)
	n := &notebook{fixture: f, Server: f.servers[0]}
	n.store = session.NewStore(&n.docs)
	n.storeCounts.count(&n.docs)
	return n
}

// instance returns a client that shares the store with other instances. The fixture's own client
// shares nothing.
func (n *notebook) instance() *Client { return n.client(Options{Sessions: n.store}) }

func (n *notebook) target() Target { return n.targets[0] }

func owner(agent string) session.Owner { return session.Owner{Way: "jwt", Agent: agent} }

func (n *notebook) try(c *Client, owner session.Owner, tool, text string) (string, error) {
	raw, err := c.Call(n.t.Context(), n.target(), Call{Owner: owner, Name: tool, Arguments: json.RawMessage(fmt.Sprintf(`{"text":%q}`, text))})
	if err != nil {
		return "", err
	}
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) != 1 {
		n.t.Fatalf("%s answers %s (%v)", tool, raw, err)
	}
	return r.Content[0].Text, nil
}

func (n *notebook) write(c *Client, agent, text string) {
	n.t.Helper()
	if _, err := n.try(c, owner(agent), "write", text); err != nil {
		n.t.Fatalf("%s writes: %v", agent, err)
	}
}

// reads checks the text of an agent's session.
func (n *notebook) reads(c *Client, agent, want string) {
	n.t.Helper()
	if got, err := n.try(c, owner(agent), "read", ""); err != nil || got != want {
		n.t.Errorf("%s reads %q, %v; want %q", agent, got, err, want)
	}
}

// open checks how many sessions are open on the server, when no request is under way.
func (n *notebook) open(want int) {
	n.t.Helper()
	synctest.Wait()
	if got := n.Sessions(); len(got) != want {
		n.t.Errorf("open sessions = %v, want %d; deleted = %v", got, want, n.deleted())
	}
}

// deleted returns the ids of the sessions that clients ended, in order.
func (n *notebook) deleted() []string {
	var out []string
	for _, r := range n.Requests() {
		if r.Verb == http.MethodDelete {
			out = append(out, r.Header.Get(mcp.HeaderSession))
		}
	}
	return out
}

// handshakes checks the number of handshakes.
func (n *notebook) handshakes(want int) {
	n.t.Helper()
	if got := len(n.Received("initialize")); got != want {
		n.t.Errorf("%d handshakes, want %d", got, want)
	}
}

// ops checks the number of requests to the store.
func (n *notebook) ops(want string) {
	n.t.Helper()
	if got := n.storeCounts.String(); got != want {
		n.t.Errorf("requests to the store = %s, want %s", got, want)
	}
}

func TestAgentsSessions(t *testing.T) {
	withNotebook(t, "are apart, and follow their owner to another instance", func(t *testing.T, n *notebook) {
		n.available()
		first, second := n.instance(), n.instance()
		owners := []session.Owner{
			owner("a"), owner("b"), {Way: "iam", Agent: "a"},
			{Way: "jwt", Agent: "a", User: "https://login.example.com ann"}, {Way: "jwt", Agent: "a", User: "https://login.example.com bob"},
		}
		for _, o := range owners {
			if _, err := n.try(first, o, "write", fmt.Sprint(o)); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []*Client{first, second, first} {
			for _, o := range owners {
				if got, err := n.try(c, o, "read", ""); err != nil || got != fmt.Sprint(o) {
					t.Errorf("%v reads %q, %v", o, got, err)
				}
			}
		}
		list := n.Received("tools/list")[0].Header.Get(mcp.HeaderSession)
		for _, r := range n.Calls() {
			if r.Header.Get(mcp.HeaderSession) == list {
				t.Errorf("%s was sent on the session of the load", r.Body)
			}
		}
		n.open(len(owners) + 1) // second ended the sessions that it opened before it read the store
	})
	withNotebook(t, "are shared if the operator says so", func(_ *testing.T, n *notebook) {
		n.targets[0].Shared = true
		for _, c := range []*Client{n.instance(), n.instance()} {
			for _, agent := range []string{"a", "b"} {
				n.reads(c, agent, "")
			}
		}
		n.open(1)
	})
	withNotebook(t, "do not wait for another agent's handshake", func(t *testing.T, n *notebook) {
		n.FailOn("initialize", 1, upstreamtest.Hang())
		ctx, cancel := context.WithCancel(t.Context())
		hung := make(chan error, 1)
		go func() {
			_, err := n.Call(ctx, n.target(), Call{Owner: owner("a"), Name: "read"})
			hung <- err
		}()
		synctest.Wait()
		n.handshakes(1)
		n.reads(n.Client, "b", "")
		cancel()
		if err := <-hung; err == nil {
			t.Error("a's call is answered, want it cancelled: its handshake hangs")
		}
		n.reads(n.Client, "a", "")
	})
	withNotebook(t, "are opened once each", func(_ *testing.T, n *notebook) {
		c := n.instance()
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() { n.reads(c, string(rune('a'+i%3)), "") })
		}
		wg.Wait()
		n.handshakes(3)
	})
}

func TestSessionsOfTwoInstances(t *testing.T) {
	withNotebook(t, "opened at the same time: one stays, the other ends", func(_ *testing.T, n *notebook) {
		instances := []*Client{n.instance(), n.instance(), n.instance(), n.instance()}
		var wg sync.WaitGroup
		for _, c := range instances {
			wg.Go(func() { n.reads(c, "a", "") })
		}
		wg.Wait()
		n.open(1)
		n.write(instances[0], "a", "of a")
		for _, c := range instances[1:] {
			n.reads(c, "a", "of a")
		}
	})
	both := func(n *notebook) (first, second *Client) {
		first, second = n.instance(), n.instance()
		n.write(first, "a", "of a")
		n.reads(second, "a", "of a")
		n.EndSessions()
		n.ForgetRequests()
		n.reads(first, "a", "")
		return first, second
	}
	withNotebook(t, "forgotten by the server: opened again once, for both", func(_ *testing.T, n *notebook) {
		first, second := both(n)
		n.write(first, "a", "again")
		n.reads(second, "a", "again")
		n.handshakes(1)
	})
	withNotebook(t, "the store's session is forgotten too: opened again", func(_ *testing.T, n *notebook) {
		_, second := both(n)
		n.EndSessions()
		n.reads(second, "a", "") // the server lost second's session and the session in the store
		n.open(1)
	})
}

func TestSessionEndsWithItsCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNotebook(t, upstreamtest.Options{Token: "old"})
		token := "old"
		client := func() *Client {
			return n.client(Options{Sessions: n.store, Secrets: secretsFunc(func(string) (string, error) { return token, nil })})
		}
		n.targets[0].Headers = map[string]string{"Authorization": "Bearer ${env:TOKEN}"}
		used := func(c *Client) string {
			t.Helper()
			n.reads(c, "a", "")
			return n.Calls()[len(n.Calls())-1].Header.Get(mcp.HeaderSession)
		}
		first, second := client(), client()
		before := used(first)
		if got := used(second); got != before {
			t.Fatalf("two instances use %s and %s", before, got)
		}
		n.open(1) // second ends its own session with the credential that opened it
		token = "new-one"
		n.SetToken("new-one")
		after := used(first)
		if after == before {
			t.Error("the session is in use after its credential was replaced")
		}
		if got := used(second); got != after {
			t.Errorf("the other instance uses %s, want %s", got, after)
		}
		n.open(1)
		if !slices.Contains(n.deleted(), before) {
			t.Errorf("%s is not among the ended %v", before, n.deleted())
		}
	})
}

// For a server without session ids, the client remembers no session and makes no request to the
// store.
func TestSessionsCostNothing(t *testing.T) {
	for _, o := range []upstreamtest.Options{{Protocols: upstreamtest.Modern}, {Protocols: upstreamtest.Both}, {Protocols: upstreamtest.Legacy}} {
		var docs documenttest.Store
		var storeCounts storeCounts
		storeCounts.count(&docs)
		f := newFixture(t, Options{}, o)
		for range 2 {
			f.Client = f.client(Options{Sessions: session.NewStore(&docs)})
			for i := range 20 {
				if _, err := f.call(Call{Owner: owner(fmt.Sprint(i % 3)), Name: "tool_aa"}); err != nil {
					t.Fatal(err)
				}
			}
			if n := f.sessions.len(); n != 0 {
				t.Errorf("protocols %d: the client remembers %d sessions, want 0", o.Protocols, n)
			}
		}
		if got := storeCounts.String(); got != "0 reads 0 writes 0 deletes" {
			t.Errorf("protocols %d: requests to the store = %s, want none", o.Protocols, got)
		}
	}
}

func TestSessionsCostTheStore(t *testing.T) {
	withNotebook(t, "one read and no handshake, if the catalog knows of the sessions", func(_ *testing.T, n *notebook) {
		out := n.available()
		n.write(n.instance(), "a", "of a")
		n.ForgetRequests()
		n.targets[0].Memory = out.Memory
		n.reads(n.instance(), "a", "of a")
		n.received("tools/call")
		n.ops("2 reads 1 writes 0 deletes")
	})
	withNotebook(t, "one write to open, one read or write to find, one write in a quarter of an hour of use", func(_ *testing.T, n *notebook) {
		first, second := n.instance(), n.instance()
		for range 10 {
			n.write(first, "a", "of a")
		}
		n.ops("1 reads 1 writes 0 deletes")
		for range 10 {
			n.reads(second, "a", "of a") // second does not know yet that the server has sessions
		}
		n.ops("2 reads 1 writes 0 deletes")
		for range 10 {
			n.reads(second, "b", "")
			n.reads(first, "b", "")
		}
		n.ops("5 reads 2 writes 0 deletes")
		for range 60 {
			time.Sleep(time.Minute)
			n.reads(first, "a", "of a")
		}
		// each instance checks whether it may end unused sessions
		n.ops("12 reads 6 writes 0 deletes")
	})
}

func TestSessionStoreDown(t *testing.T) {
	withNotebook(t, "fails no call, and logs one line", func(t *testing.T, n *notebook) {
		log, text := logged()
		n.docs.OnDocs = func(context.Context, []document.Key) error {
			n.storeCounts.reads.Add(1)
			return errors.New("the table is gone")
		}
		c := n.client(Options{Sessions: n.store, Log: log})
		n.write(c, "a", "of a")
		for _, agent := range []string{"b", "c", "d"} {
			n.reads(c, agent, "")
		}
		n.reads(c, "a", "of a")
		n.ops("1 reads 0 writes 0 deletes")
		time.Sleep(storeRetry)
		n.reads(c, "a", "of a")
		if n := strings.Count(text.String(), "the table is gone"); n != 1 {
			t.Errorf("%d lines about the store, want 1:\n%s", n, text)
		}
		n.storeCounts.count(&n.docs)
		time.Sleep(storeRetry)
		n.reads(c, "a", "of a")
		n.reads(n.instance(), "a", "of a")
	})
	withNotebook(t, "fails no call when it hangs", func(t *testing.T, n *notebook) {
		c := n.client(Options{Sessions: hungStore()})
		began := time.Now()
		for range 5 {
			n.reads(c, "a", "")
		}
		if took := time.Since(began); took > storeTimeout+time.Second {
			t.Errorf("five calls took %v", took)
		}
	})
}

// hungStore returns a store that never answers.
func hungStore() *session.Store {
	return session.NewStore(&documenttest.Store{OnDocs: func(ctx context.Context, _ []document.Key) error {
		<-ctx.Done()
		return ctx.Err()
	}})
}

// Some servers with sessions answer HTTP 400 in the middle of a call. If Once is set, the client
// does not send the call a second time, unless a new session explains the answer.
func TestCallOnce(t *testing.T) {
	for once, want := range map[bool]int{true: 1, false: 2} {
		withNotebook(t, fmt.Sprint("once ", once), func(t *testing.T, n *notebook) {
			c := n.instance()
			n.write(c, "a", "first")
			before := len(n.Calls())
			n.FailOn("tools/call", 1, upstreamtest.Status(400, "half done"))
			_, err := c.Call(t.Context(), n.target(), Call{Owner: owner("a"), Name: "write", Arguments: json.RawMessage(`{"text":"second"}`), Once: once})
			if got := len(n.Calls()) - before; got != want || once == (err == nil) {
				t.Errorf("%d sent, %v; want %d", got, err, want)
			}
		})
	}
}
