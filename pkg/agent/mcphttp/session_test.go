package mcphttp_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// sealer returns a Sealer whose key is derived from a text.
func sealer(key string) *seal.Sealer {
	return seal.New(func(context.Context) (seal.Keys, error) {
		return seal.Keys{Current: []byte(strings.Repeat(key, seal.MinKey))}, nil
	})
}

// laptop returns the options of a gateway on one machine.
func laptop() *mcphttp.Options {
	return &mcphttp.Options{Name: "gate", Version: "1", Stream: true, Alone: true, Seal: sealer("k"), Timeout: time.Hour}
}

// begin opens a session and returns its id. capabilities has the members of the client's
// capabilities.
func begin(t testing.TB, h http.Handler, capabilities string) string {
	t.Helper()
	got := send(h, protocols[0].request(t, "initialize", `"protocolVersion":"2025-11-25","capabilities":{`+capabilities+`},"clientInfo":{"name":"t","version":"1"}`))
	got.wantResult(t)
	id := got.header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatal("the answer to initialize has no session id")
	}
	return id
}

// in adds a session to a request.
func in(session string, r *http.Request) *http.Request {
	r.Header.Set("Mcp-Session-Id", session)
	return r
}

// sayers takes the agent from the header Authorization ("jwt ide", "jwt ide of ann").
type sayers struct{}

func (sayers) Authenticate(r *http.Request) (identity.Agent, error) {
	way, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if way == "" {
		return identity.Agent{}, &identity.Error{Kind: identity.Missing}
	}
	id, user, _ := strings.Cut(rest, " of ")
	return identity.Agent{Way: way, ID: id, Subject: user}, nil
}

// as adds an agent to a request.
func as(who string, r *http.Request) *http.Request {
	r.Header.Set("Authorization", who)
	return r
}

func TestSession(t *testing.T) {
	b := &backend{}
	h := newHandler(t, b, laptop())
	id := begin(t, h, `"elicitation":{}`)
	if len(id) > 200 {
		t.Errorf("the session id has %d characters, want at most 200", len(id))
	}
	if other := begin(t, h, `"elicitation":{}`); other == id {
		t.Error("two sessions have the same id")
	}
	for _, e := range protocols[:4] { // a request may name another version than its session
		send(h, in(id, e.request(t, "tools/list", ``))).wantResult(t)
	}
	send(h, legacy.request(t, "tools/list", ``)).wantResult(t) // a client without a session
	send(h, in("x", modern.request(t, "tools/list", ``))).wantResult(t)
	sessions := map[string]int{}
	for _, c := range b.callers[2:] {
		sessions[c.Session]++
	}
	if len(sessions) != 2 || sessions[""] != 2 {
		t.Errorf("sessions of the callers: %v", sessions)
	}
	for s := range sessions {
		if s != "" && strings.Contains(id, s) {
			t.Error("the id is not sealed")
		}
	}
}

// If the id does not belong to a session of this agent, the answer makes the client initialize
// again.
func TestSessionRefused(t *testing.T) {
	var log logbook
	o := laptop()
	o.Log = log.logger()
	h := newAuthHandler(t, &backend{}, sayers{}, o)
	got := send(h, as("jwt ann", protocols[0].request(t, "initialize", `"capabilities":{}`)))
	id := got.header.Get("Mcp-Session-Id")
	send(h, as("jwt ann", in(id, legacy.request(t, "tools/list", ``)))).wantResult(t)
	state, err := o.Seal.Seal(t.Context(), seal.State, []byte("x"))
	require.OK(t, err)
	short, err := o.Seal.Seal(t.Context(), seal.Session, []byte("x"))
	require.OK(t, err)
	for name, r := range map[string]*http.Request{
		"of another agent":   as("jwt bob", in(id, legacy.request(t, "tools/list", ``))),
		"of another way":     as("iam ann", in(id, legacy.request(t, "tools/list", ``))),
		"made up":            as("jwt ann", in("abc", legacy.request(t, "tools/list", ``))),
		"for something else": as("jwt ann", in(state, legacy.request(t, "tools/list", ``))),
		"very long":          as("jwt ann", in(strings.Repeat("A", 60_000), legacy.request(t, "tools/list", ``))),
		"with other content": as("jwt ann", in(short, legacy.request(t, "tools/list", ``))),
		"of another, called": as("jwt bob", in(id, legacy.request(t, "tools/call", `"name":"echo"`))),
	} {
		t.Run(name, func(t *testing.T) { send(h, r).wantError(t, 404, -32001, "7") })
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		r := httptest.NewRequestWithContext(t.Context(), method, "/mcp", nil)
		send(h, as("jwt bob", in(id, r))).wantError(t, 404, -32001, "")
		send(h, in(id, httptest.NewRequestWithContext(t.Context(), method, "/mcp", nil))).wantError(t, 401, 401, "")
	}
	twice := as("jwt ann", in(id, legacy.request(t, "tools/list", ``)))
	twice.Header.Add("Mcp-Session-Id", id+"x")
	send(h, twice).wantError(t, 400, -32020, "7")
	// An initialize with another agent's session id begins a new session.
	fixed := send(h, as("jwt bob", in(id, protocols[0].request(t, "initialize", `"capabilities":{}`))))
	if now := fixed.header.Get("Mcp-Session-Id"); now == id || now == "" {
		t.Errorf("initialize with a session id began %q", now)
	}
	if strings.Contains(log.String(), id) || strings.Contains(log.String(), id[20:60]) {
		t.Error("the session id is in the log")
	}
}

// No method accepts one user's session from another user of the same agent.
func TestSessionOfAnotherUser(t *testing.T) {
	// if GET opens a stream by mistake, fake time ends it with its session
	synctest.Test(t, func(t *testing.T) {
		h := newAuthHandler(t, newChanging(), sayers{}, laptop())
		id := send(h, as("jwt ide of ann", protocols[0].request(t, "initialize", `"capabilities":{}`))).header.Get("Mcp-Session-Id")
		for _, who := range []string{"jwt ide of bob", "jwt ide", "jwt ide of ann ", "jwt ide\x00ann", "jwt another of ann"} {
			for _, method := range []string{"tools/list", "ping", "logging/setLevel"} {
				send(h, as(who, in(id, legacy.request(t, method, `"level":"error"`)))).wantError(t, 404, -32001, "7")
			}
			send(h, as(who, get(t, id))).wantError(t, 404, -32001, "")
			send(h, as(who, in(id, httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/mcp", nil)))).wantError(t, 404, -32001, "")
		}
		send(h, as("jwt ide of ann", in(id, legacy.request(t, "tools/list", ``)))).wantResult(t)
	})
}

// A session id of an earlier version, which had no users, works only for an agent without a user.
func TestSessionOfAnEarlierVersion(t *testing.T) {
	o := laptop()
	h := newAuthHandler(t, &backend{}, sayers{}, o)
	sum := sha256.Sum256([]byte("jwt\x00ide"))
	plain := append([]byte("\x012025-11-25\x00"+strings.Repeat("i", 16)), sum[:16]...)
	id, err := o.Seal.Seal(t.Context(), seal.Session, binary.BigEndian.AppendUint64(plain, uint64(time.Now().Add(time.Hour).Unix())))
	require.OK(t, err)
	for who, want := range map[string]int{"jwt ide": http.StatusOK, "jwt ide of ann": http.StatusNotFound, "iam ide": http.StatusNotFound} {
		r := in(id, legacy.request(t, "tools/list", ``))
		r.Header.Set("Authorization", who)
		if got := send(h, r); got.status != want {
			t.Errorf("%s: %d %s, want %d", who, got.status, got.body, want)
		}
	}
}

func TestSessionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, &backend{}, laptop())
		id := begin(t, h, ``)
		time.Sleep(24*time.Hour - 2*time.Second)
		send(h, in(id, legacy.request(t, "tools/list", ``))).wantResult(t)
		time.Sleep(2 * time.Second)
		send(h, in(id, legacy.request(t, "tools/list", ``))).wantError(t, 404, -32001, "7")
	})
}

// While the key cannot be read, every session is unknown.
func TestSessionKeyOutOfReach(t *testing.T) {
	o := laptop()
	good := begin(t, newHandler(t, &backend{}, o), ``)
	o.Seal = seal.New(func(context.Context) (seal.Keys, error) { return seal.Keys{}, errors.New("boom arn:aws") })
	h := newHandler(t, &backend{}, o)
	got := send(h, in(good, legacy.request(t, "tools/list", ``)))
	got.wantError(t, 503, 503, "7")
	if got.header.Get("Retry-After") != "5" || strings.Contains(got.body, "arn") {
		t.Errorf("%v %s", got.header, got.body)
	}
	begins := send(h, protocols[0].request(t, "initialize", `"capabilities":{}`))
	begins.wantResult(t)
	if id, ok := begins.header["Mcp-Session-Id"]; ok {
		t.Errorf("initialize began session %q, want none", id)
	}
}

func TestSessionDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, &backend{talk: func(ctx context.Context, _ mcp.Request, _ mcp.Client) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, laptop())
		id, other := begin(t, h, ``), begin(t, h, ``)
		called := make(chan reply)
		go func() { called <- send(h, in(id, legacy.request(t, "tools/call", `"name":"echo"`))) }()
		synctest.Wait()
		ends(t, h, id)
		if got := <-called; got.body != "" {
			t.Errorf("the session's open call got the answer %s, want none", got.body)
		}
		send(h, in(id, legacy.request(t, "tools/list", ``))).wantError(t, 404, -32001, "7")
		remove(t, h, id).wantError(t, 404, -32001, "")
		send(h, in(other, legacy.request(t, "tools/list", ``))).wantResult(t)
		remove(t, h, "").wantError(t, 405, 405, "")
	})
	function := laptop()
	function.Alone = false
	h := newHandler(t, &backend{}, function)
	got := remove(t, h, begin(t, h, ``))
	got.wantError(t, 405, 405, "")
	if got.header.Get("Allow") != "POST" {
		t.Errorf("Allow: %s", got.header.Get("Allow"))
	}
}

func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 2)
		h := newHandler(t, &backend{talk: func(ctx context.Context, r mcp.Request, c mcp.Client) (json.RawMessage, error) {
			if string(r.Arguments) == "1" {
				c.Notify("notifications/progress", object(t, `{"progress":1}`))
			}
			start := time.Now()
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
			ended <- time.Since(start)
			return nil, ctx.Err()
		}}, laptop())
		id, other := begin(t, h, ``), begin(t, h, ``)
		cancel := func(session, requestID string) {
			r := post(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+requestID+`,"reason":"r"}}`)
			r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
			if got := send(h, in(session, r)); got.status != http.StatusAccepted || got.body != "" {
				t.Errorf("cancelled = %d %s", got.status, got.body)
			}
		}
		for _, arguments := range []string{"0", "1"} {
			answer := make(chan reply)
			go func() {
				answer <- send(h, in(id, legacy.request(t, "tools/call", `"name":"echo","arguments":`+arguments+`,"_meta":{"progressToken":1}`)))
			}()
			time.Sleep(time.Second)
			cancel(other, `7`)
			cancel(id, `"7"`)
			cancel(id, `8`)
			cancel(id, `null`)
			time.Sleep(time.Second)
			cancel(id, `7`)
			if took := <-ended; took > 3*time.Second || took < 2*time.Second {
				t.Errorf("arguments %s: the call ended after %v", arguments, took)
			}
			got := <-answer
			if kind := got.header.Get("Content-Type"); kind != "text/event-stream" || strings.Contains(got.body, `"id"`) {
				t.Errorf("arguments %s: answer = %s %s", arguments, kind, got.body)
			}
			cancel(id, `7`) // it has ended
		}
		twice := make(chan reply)
		for range 2 { // with one id
			go func() { twice <- send(h, in(id, legacy.request(t, "tools/call", `"name":"echo"`))) }()
			synctest.Wait()
		}
		cancel(id, `7`)
		for range 2 {
			if took := <-ended; took != 0 {
				t.Errorf("a call whose id is used twice ended after %v, want 0", took)
			}
			<-twice
		}
		jsonOnly := in(id, legacy.request(t, "tools/call", `"name":"echo"`))
		jsonOnly.Header.Set("Accept", "application/json")
		go func() {
			time.Sleep(time.Second)
			cancel(id, `7`)
		}()
		send(h, jsonOnly).wantError(t, 200, 499, "7")
		<-ended
	})
}

func TestSetLevel(t *testing.T) {
	wanted := make(chan string, 1)
	b := &backend{talk: func(_ context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
		wanted <- c.LogLevel
		return json.RawMessage(done), nil
	}}
	h := newHandler(t, b, laptop())
	id, other := begin(t, h, ``), begin(t, h, ``)
	level := func(session string) string {
		send(h, in(session, legacy.request(t, "tools/call", `"name":"echo"`))).wantResult(t)
		return <-wanted
	}
	if got := level(id); got != "info" {
		t.Errorf("level before setLevel = %q, want info", got)
	}
	for _, l := range []string{"debug", "notice", "emergency"} {
		if got := send(h, in(id, legacy.request(t, "logging/setLevel", `"level":"`+l+`"`))).wantResult(t); got != "{}" {
			t.Errorf("setLevel = %s", got)
		}
		if got := level(id); got != l {
			t.Errorf("level = %q, want %q", got, l)
		}
	}
	if got := level(other); got != "info" {
		t.Errorf("level of another session = %q, want info", got)
	}
	for _, params := range []string{`"level":"loud"`, `"level":5`, ``} {
		send(h, in(id, legacy.request(t, "logging/setLevel", params))).wantError(t, 200, -32602, "7")
	}
	send(h, legacy.request(t, "logging/setLevel", `"level":"info"`)).wantError(t, 200, -32600, "7")
	send(h, modern.request(t, "logging/setLevel", `"level":"info"`)).wantError(t, 404, -32601, "7")
	function := laptop()
	function.Alone = false
	send(newHandler(t, b, function), in(id, legacy.request(t, "logging/setLevel", `"level":"info"`))).wantError(t, 200, -32601, "7")
}

// The gateway supports what it declares.
func TestCapabilities(t *testing.T) {
	function, buffered, keyless := laptop(), laptop(), laptop()
	function.Alone = false
	buffered.Alone, buffered.Stream = false, false
	keyless.Seal = nil
	const (
		tools, changes = `"tools":{}}`, `"tools":{"listChanged":true}}`
		logs           = `{"logging":{},`
	)
	for _, tt := range []struct {
		name              string
		o                 *mcphttp.Options
		offers            gateway.Offers
		handshake, modern string
	}{
		{"on one machine", laptop(), gateway.Offers{}, logs + changes, logs + changes},
		{"without a key", keyless, gateway.Offers{}, `{` + changes, logs + changes},
		{"a function that streams", function, gateway.Offers{}, `{` + tools, logs + tools},
		{"a function without streams", buffered, gateway.Offers{}, `{` + tools, `{` + tools},
		{"with prompts", laptop(), gateway.Offers{Prompts: true, Completions: true},
			`{"completions":{},"logging":{},"prompts":{"listChanged":true},` + changes,
			`{"completions":{},"logging":{},"prompts":{"listChanged":true},` + changes},
		{"with resources, without a key", keyless, gateway.Offers{Resources: true},
			`{"resources":{"listChanged":true},` + changes,
			logs + `"resources":{"listChanged":true,"subscribe":true},` + changes},
		{"a function with resources", buffered, gateway.Offers{Resources: true},
			`{"resources":{},` + tools, `{"resources":{},` + tools},
	} {
		h := newHandler(t, &backend{offers: tt.offers}, tt.o)
		capabilities := func(r *http.Request) string {
			got := send(h, r).wantResult(t)
			return string(require.JSON[struct{ Capabilities json.RawMessage }](t, got).Capabilities)
		}
		if got := capabilities(protocols[0].request(t, "initialize", `"capabilities":{}`)); got != tt.handshake {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.handshake)
		}
		if got := capabilities(modern.request(t, "server/discover", ``)); got != tt.modern {
			t.Errorf("%s, modern: %s, want %s", tt.name, got, tt.modern)
		}
	}
}

// A client that shows pages says so once in the handshake protocol, and in each request of the
// stateless protocol.
func TestClientShowsApps(t *testing.T) {
	for extensions, want := range map[string]bool{
		``:                false,
		`"extensions":{}`: false,
		`"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html"]}}`: true,
		`"extensions":{"io.modelcontextprotocol/ui":null}`:                        false,
		`"elicitation":{},"extensions":{"com.example/x":{}}`:                      false,
	} {
		b := &backend{}
		h := newHandler(t, b, laptop())
		send(h, in(begin(t, h, extensions), legacy.request(t, "tools/list", ``))).wantResult(t)
		declaring := modern
		declaring.meta = strings.Replace(
			modern.meta, `Capabilities":{}`, `Capabilities":{`+extensions+`}`, 1)
		send(h, declaring.request(t, "tools/list", ``)).wantResult(t)
		for _, c := range b.callers[1:] {
			if c.Apps != want {
				t.Errorf("%s: the caller shows pages: %v", extensions, c.Apps)
			}
		}
	}
}

func TestRememberedIsBounded(t *testing.T) {
	h := newHandler(t, &backend{}, laptop())
	mcphttp.Remember(h, 10_000)
	for range 2 {
		id := begin(t, h, ``)
		send(h, in(id, legacy.request(t, "logging/setLevel", `"level":"error"`))).wantResult(t)
	}
	if n := mcphttp.Remembered(h); n != 10_000 {
		t.Errorf("%d sessions have state, want at most 10,000", n)
	}
}
