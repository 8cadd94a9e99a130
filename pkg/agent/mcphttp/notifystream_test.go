package mcphttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A changing is a backend whose list of tools can change.
type changing struct {
	*backend
	version atomic.Pointer[string]
}

func newChanging() *changing {
	c := &changing{backend: &backend{}}
	c.change("1")
	return c
}

func (c *changing) change(version string) { c.version.Store(&version) }

func (c *changing) Open(context.Context, gateway.Caller) (mcphttp.Session, error) { return c, nil }

func (c *changing) Lists(gateway.Lists) gateway.Lists {
	return gateway.Lists{Tools: *c.version.Load()}
}

// get opens a session's stream.
func get(t testing.TB, session string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/mcp", nil)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	return in(session, r)
}

func listening(t testing.TB, filter string) *http.Request {
	return modern.request(t, "subscriptions/listen", `"notifications":{`+filter+`}`)
}

// ended checks that the stream of a call ends without another message.
func (c *openCall) ended(t *testing.T) {
	t.Helper()
	if got := c.next(); got != "" {
		t.Errorf("message after the end: %s", got)
	}
}

func TestListen(t *testing.T) {
	const id = `"_meta":{"io.modelcontextprotocol/subscriptionId":7}`
	synctest.Test(t, func(t *testing.T) {
		b, ending := newChanging(), make(chan struct{})
		o := laptop()
		o.Ending = ending
		h := newHandler(t, b, o)
		tools := call(t, h, listening(t, `"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:b"]`))
		none := call(t, h, listening(t, `"toolsListChanged":false`))
		if got := tools.next(); got != `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+id+`,"notifications":{"toolsListChanged":true}}}` {
			t.Errorf("acknowledged %s", got)
		}
		if got := none.next(); !strings.Contains(got, `"notifications":{}`) {
			t.Errorf("acknowledged %s", got)
		}
		for range 3 {
			time.Sleep(time.Minute)
			b.change(*b.version.Load() + "x")
			start := time.Now()
			if got := tools.next(); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+id+`}}` || time.Since(start) > 3*time.Second {
				t.Errorf("after %v: %s", time.Since(start), got)
			}
		}
		close(ending)
		for _, c := range []*openCall{tools, none} {
			if got := c.next(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete",`) {
				t.Errorf("last message = %s", got)
			}
			c.ended(t)
		}
		synctest.Wait()
		if n := mcphttp.HeldOpen(h); n != 0 {
			t.Errorf("%d streams are held open", n)
		}
	})
}

// Streams check their lists as soon as they may have changed.
func TestStreamsCheckAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newChanging(), laptop()
		var changed atomic.Pointer[chan struct{}]
		changed.Store(new(make(chan struct{})))
		o.Changed = func() <-chan struct{} { return *changed.Load() }
		h := newHandler(t, b, o)
		tools := call(t, h, listening(t, `"toolsListChanged":true`))
		session := call(t, h, get(t, begin(t, h, ``)))
		tools.next() // the acknowledgement
		synctest.Wait()
		start := time.Now()
		for _, version := range []string{"1", "2", "3"} { // the first is no change
			b.change(version)
			close(*changed.Swap(new(make(chan struct{}))))
			synctest.Wait()
			if version == "1" {
				continue
			}
			for _, c := range []*openCall{tools, session} {
				got, took := c.next(), time.Since(start)
				if !strings.Contains(got, "tools/list_changed") || took > 0 {
					t.Errorf("after %v: %s", took, got)
				}
			}
		}
	})
}

func TestGetStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newChanging()
		h := newHandler(t, b, laptop())
		id := begin(t, h, ``)
		var streams []*openCall
		for range 4 {
			streams = append(streams, call(t, h, get(t, id)))
			synctest.Wait()
		}
		newest := streams[3]
		b.change("2")
		if got := newest.next(); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}` {
			t.Errorf("message = %s", got)
		}
		another := call(t, h, get(t, id))
		synctest.Wait()
		// the oldest stream ended to make room, and did not report the change again
		streams[0].ended(t)
		_ = another
		r := httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/mcp", nil)
		if got := send(h, in(id, r)); got.status != http.StatusNoContent {
			t.Errorf("DELETE = %d", got.status)
		}
		for _, s := range append(streams[1:], another) {
			s.ended(t)
		}
		send(h, get(t, id)).wantError(t, 404, -32001, "")
	})
}

func TestGetRefused(t *testing.T) {
	h := newHandler(t, newChanging(), laptop())
	id := begin(t, h, ``)
	jsonOnly := get(t, id)
	jsonOnly.Header.Set("Accept", "application/json")
	send(h, jsonOnly).wantError(t, 406, 406, "")
	stateless := get(t, id)
	stateless.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	send(h, stateless).wantError(t, 405, 405, "")
	none := get(t, id)
	none.Header.Del("Mcp-Session-Id")
	send(h, none).wantError(t, 405, 405, "")
	page := get(t, id)
	page.Header.Set("Origin", "https://evil.example.com")
	send(h, page).wantError(t, 403, 403, "")
	function := laptop()
	function.Alone = false
	send(newHandler(t, newChanging(), function), get(t, id)).wantError(t, 405, 405, "")
	put := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/mcp", nil)
	send(h, in(id, put)).wantError(t, 405, 405, "")
}

// An open stream sends comments at intervals, and ends with its session, its credential or its
// client.
func TestHeldEnds(t *testing.T) {
	t.Run("with the session", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHandler(t, newChanging(), laptop())
			start := time.Now()
			w := &timed{ResponseRecorder: httptest.NewRecorder(), start: start}
			h.ServeHTTP(w, get(t, begin(t, h, ``)))
			if took := time.Since(start); took < 24*time.Hour || took > 24*time.Hour+time.Minute {
				t.Errorf("the stream ended after %v, want 24 h", took)
			}
			if n := len(w.comments); n < 5000 || n > 6000 { // every 15 s, checked every 2 s
				t.Errorf("%d comments, want 5000 to 6000", n)
			}
		})
	})
	t.Run("with the credential", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var revoked atomic.Bool
			h := newAuthHandler(t, newChanging(), authenticator(func() (identity.Agent, error) {
				if revoked.Load() {
					return identity.Agent{}, &identity.Error{Kind: identity.Invalid}
				}
				return identity.Agent{ID: "ann"}, nil
			}), laptop())
			c := call(t, h, listening(t, `"toolsListChanged":true`))
			c.next()
			time.Sleep(time.Hour)
			revoked.Store(true)
			start := time.Now()
			if got := c.next(); !strings.Contains(got, `"result"`) || time.Since(start) > time.Minute {
				t.Errorf("after %v: %s", time.Since(start), got)
			}
		})
	})
	t.Run("with the client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHandler(t, newChanging(), laptop())
			ctx, cancel := context.WithCancel(t.Context())
			c := call(t, h, listening(t, ``).WithContext(ctx))
			c.next()
			cancel()
			c.next() // the result, which has no reader
			synctest.Wait()
			if n := mcphttp.HeldOpen(h); n != 0 {
				t.Errorf("%d streams are held open", n)
			}
		})
	})
	t.Run("with a client that does not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHandler(t, newChanging(), laptop())
			write(t, serve(t, h), get(t, begin(t, h, ``)))
			synctest.Wait()
			if n := mcphttp.HeldOpen(h); n != 1 {
				t.Errorf("%d streams are held open", n)
			}
			time.Sleep(time.Minute)
			if n := mcphttp.HeldOpen(h); n != 0 {
				t.Errorf("%d streams are held open", n)
			}
		})
	})
}

// A stream of one user ends when its credential changes to another user of the same agent.
func TestHeldEndsWithItsUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var user atomic.Value
		user.Store("https://login.example.com ann")
		h := newAuthHandler(t, newChanging(), authenticator(func() (identity.Agent, error) {
			return identity.Agent{ID: "ide", Subject: user.Load().(string)}, nil
		}), laptop())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c := call(t, h, listening(t, `"toolsListChanged":true`).WithContext(ctx))
		c.next()
		user.Store("https://login.example.com bob")
		start := time.Now()
		if got := c.next(); !strings.Contains(got, `"result"`) || time.Since(start) > time.Minute {
			t.Errorf("after %v: %s", time.Since(start), got)
		}
	})
}

// If the number of streams is at its limit, a new stream ends the oldest stream of the agent that
// has the most streams. If an agent is at its own limit, its new stream is refused.
func TestHeldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ending := make(chan struct{})
		o := laptop()
		o.Ending = ending
		h := newAuthHandler(t, newChanging(), sayers{}, o)
		opened := map[string][]chan reply{}
		open := func(who string) {
			got := make(chan reply, 1)
			go func() { got <- send(h, as(who, listening(t, ``))) }()
			synctest.Wait()
			opened[who] = append(opened[who], got)
		}
		left := func(who string) (n int) {
			for _, got := range opened[who] {
				if len(got) == 0 {
					n++
				}
			}
			return n
		}
		open("jwt light")
		for _, who := range []string{"jwt a", "jwt a of ann", "jwt c", "iam a"} {
			for range 70 {
				open(who)
			}
		}
		surplus := <-opened["jwt a of ann"][64]
		if surplus.wantError(t, 429, 429, "7"); surplus.header.Get("Retry-After") == "" {
			t.Errorf("headers of the refusal: %v", surplus.header)
		}
		if left("iam a") != 64 || left("jwt light") != 1 || mcphttp.HeldOpen(h) != 256 {
			t.Errorf("open streams = %d, of iam a %d", mcphttp.HeldOpen(h), left("iam a"))
		}
		open("jwt d")
		open("jwt light")
		if len(opened["jwt a"][0]) == 0 { // the oldest stream of the agent with the most streams
			t.Error("the oldest stream of jwt a has not ended")
		}
		if left("jwt d") != 1 || left("jwt light") != 2 || mcphttp.HeldOpen(h) != 256 {
			t.Errorf("open streams = %d, of jwt d %d", mcphttp.HeldOpen(h), left("jwt d"))
		}
		close(ending)
		synctest.Wait()
	})
}

// If all callers are one agent, the streams of each client session count separately.
func TestHeldOfAnonymousClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ending := make(chan struct{})
		o := laptop()
		o.Ending = ending
		h := newAuthHandler(t, newChanging(), identity.None{}, o)
		var first *openCall
		for range 65 {
			c := call(t, h, get(t, begin(t, h, ``)))
			synctest.Wait()
			if first == nil {
				first = c
			}
		}
		if n := mcphttp.HeldOpen(h); n != 65 {
			t.Errorf("%d streams are held open", n)
		}
		close(ending)
		first.ended(t)
	})
}

// The official client gets a notification that the list has changed, in both protocols.
func TestGoClientGetsChanges(t *testing.T) {
	t.Parallel() // it waits until the gateway reads the list again
	b := newChanging()
	ending := make(chan struct{})
	o := laptop()
	o.Ending = ending
	srv := httptest.NewServer(newHandler(t, b, o))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(ending) })
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			changed := make(chan struct{}, 10)
			c := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, &sdk.ClientOptions{
				ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} },
			})
			s, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: srv.URL + "/mcp"}, &sdk.ClientSessionOptions{ProtocolVersion: version})
			require.OK(t, err)
			defer s.Close()
			for i := range 1000 { // until the client listens, and the gateway looks at the list
				b.change(fmt.Sprint(version, i))
				select {
				case <-changed:
					return
				case <-time.After(time.Second):
				}
			}
			t.Error("the client got no notification")
		})
	}
}

// If the end of the program interrupts a call, the answer says so, in each protocol and for every
// kind of answer. If a handshake client disconnects, its call is not cancelled. A call continues
// until the end of the program interrupts it.
func TestCutShort(t *testing.T) {
	const said = "No answer after 6 s. The call was sent and may have taken effect; check before calling again. Note: the gateway was told to stop, and did not wait any longer."
	for _, e := range []protocol{legacy, modern} {
		for _, accept := range []string{"application/json", "application/json, text/event-stream"} {
			for _, method := range []string{"tools/call", "prompts/get"} {
				synctest.Test(t, func(t *testing.T) {
					ending := make(chan struct{})
					o := laptop()
					o.Ending = ending
					h := newHandler(t, &backend{items: `{}`, call: func(ctx context.Context, _ mcp.Request) (json.RawMessage, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					}}, o)
					requests, end := context.WithCancel(t.Context())
					r := e.request(t, method, `"name":"echo"`).WithContext(requests)
					r.Header.Set("Accept", accept)
					r.Header.Set("Mcp-Name", "echo")
					answered := make(chan reply)
					go func() { answered <- send(h, r) }()
					synctest.Wait()
					close(ending)
					time.Sleep(6 * time.Second)
					end()
					want := said
					if method == "prompts/get" {
						want = "to ask for a prompt again does no harm. Note: the gateway was told to stop"
					}
					if got := <-answered; got.status != http.StatusOK || !strings.Contains(got.body, want) {
						t.Errorf("%s %s, %s: %d %s", e.name, method, accept, got.status, got.body)
					}
				})
			}
		}
	}
}

// A leaver is a backend that calls the function before when a request opens a session.
type leaver struct {
	*backend
	before func()
}

func (l leaver) Open(ctx context.Context, c gateway.Caller) (mcphttp.Session, error) {
	l.before()
	return l.backend.Open(ctx, c)
}

// If a request begins while its session ends, the request ends too.
func TestSessionEndsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h http.Handler
		var id string
		b := leaver{&backend{call: func(ctx context.Context, _ mcp.Request) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, func() {
			if id != "" {
				send(h, in(id, httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/mcp", nil)))
			}
		}}
		h = newHandler(t, b, laptop())
		for _, made := range []func() *http.Request{
			func() *http.Request { return get(t, id) },
			func() *http.Request { return legacy.request(t, "tools/call", `"name":"echo"`) },
		} {
			id = ""
			id = begin(t, h, ``)
			start := time.Now()
			if got := send(h, in(id, made())); strings.Contains(got.body, `"result"`) || time.Since(start) != 0 {
				t.Errorf("after %v: %d %s", time.Since(start), got.status, got.body)
			}
		}
	})
}
