package relay_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/relay"
)

// A person is a SignIn. Until a test sets a token, nobody is signed in.
type person struct {
	mu      sync.Mutex
	token   string
	next    string // replaces a refused token, once
	seen    []string
	err     error // of Token
	changed chan struct{}
}

func newPerson() *person { return &person{changed: make(chan struct{}, 1)} }

const address = "Open https://issuer.example/authorize, then call again."

func required(err error) error {
	return &relay.SignInError{Text: func(context.Context) string { return address }, Err: err}
}

func (p *person) Token(context.Context) (secret.Text, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return secret.Text{}, required(p.err)
	}
	return secret.New(p.token), nil
}

func (p *person) Refused(
	_ context.Context, rejected secret.Text, status int, h http.Header,
) (secret.Text, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(
		p.seen,
		fmt.Sprint(status, " ", rejected.Reveal(), " ", h.Get("Www-Authenticate")),
	)
	switch {
	case status == http.StatusForbidden:
		return secret.Text{}, nil
	case p.next != "":
		p.token, p.next = p.next, ""
		return secret.New(p.token), nil
	}
	return secret.Text{}, required(nil)
}

func (p *person) Changed() <-chan struct{} { return p.changed }

func (p *person) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token = ""
}

func (p *person) signIn(token string) {
	p.mu.Lock()
	p.token = token
	p.mu.Unlock()
	p.changed <- struct{}{}
}

// newGuarded returns an endpoint that accepts one token, for both protocols.
func newGuarded(t *testing.T, token string) *endpoint {
	return newEndpoint(t, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		switch {
		case r.Header.Get("Authorization") != "Bearer "+token:
			w.Header().Set("WWW-Authenticate", "Bearer x=y")
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m["method"] == "initialize":
			w.Header().Set("Mcp-Session-Id", "s1")
			reply(w, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}`)
		case m["id"] == nil:
			w.WriteHeader(http.StatusAccepted)
		case m["method"] == "subscriptions/listen":
			stream(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}`)
			<-r.Context().Done()
		default:
			reply(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"of":"gateway"}}`, m["id"]))
		}
	})
}

// Before the sign-in the relay answers a handshake and its lists itself. After the sign-in it
// begins the session with the gateway, and the client learns which lists have changed.
func TestSignInHandshake(t *testing.T) {
	e, p := newGuarded(t, "t0ken"), newPerson()
	c := newClient(t, relay.Options{URL: e.URL, SignIn: p, Version: "1.2"})
	c.send(hello)
	const can = `{"prompts":{"listChanged":true},"resources":{"listChanged":true},` +
		`"tools":{"listChanged":true}}`
	c.wants(
		`{"jsonrpc":"2.0","id":0,"result":{"capabilities":` + can + `,"instructions":"This ` +
			`gateway requires ` +
			`a sign-in before it lists its tools. Call the tool sign_in: it returns the address ` +
			`that the user opens ` +
			`in a browser.","protocolVersion":"2025-11-25","serverInfo":{"name":"portcullis",` +
			`"version":"1.2"}}}`,
	)
	c.send(ready)
	for i, exchange := range []struct{ request, want string }{
		{`"method":"ping"`, `"result":{}`},
		{`"method":"tools/list"`, `"result":{"tools":[{"name":"sign_in","description":"Returns ` +
			`the address at ` +
			`which the user signs in to the gateway. After the sign-in, the gateway lists its ` +
			`own tools.",` +
			`"inputSchema":{"type":"object","additionalProperties":false}}]}`},
		{`"method":"resources/list"`, `"result":{"resources":[]}`},
		{`"method":"tools/call",` +
			`"params":{"name":"sign_in"}`, `"result":{"content":[{"type":"text",` +
			`"text":"` + address + `"}],"isError":false}`},
		{`"method":"tools/call",` +
			`"params":{"name":"other"}`, `"result":{"content":[{"type":"text",` +
			`"text":"` + address + `"}],"isError":true}`},
		{`"method":"prompts/get"`, `"error":{"code":-32603,"message":"` + address + `"}`},
	} {
		id := fmt.Sprintf(`{"jsonrpc":"2.0","id":"a%d",`, i)
		c.send(id + exchange.request + `}`)
		c.wants(id + exchange.want + `}`)
	}
	if got := e.requests(); strings.Contains(got, "initialized") ||
		strings.Contains(got, "tools/call") {
		t.Errorf("requests before the sign-in: %s", got)
	}

	p.signIn("t0ken")
	c.wants(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	c.wants(`{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`)
	c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sign_in"}}`)
	c.wants(
		`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"The sign-in is ` +
			`complete. ` +
			`List the tools again: the gateway now lists its own tools."}],"isError":false}}`,
	)
	c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	c.wants(`{"jsonrpc":"2.0","id":3,"result":{"of":"gateway"}}`)
	c.send(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"sign_in"}}`)
	c.wants(`{"jsonrpc":"2.0","id":4,"result":{"of":"gateway"}}`)
	c.close()
	if got := e.requests(); !strings.Contains(got, "POST notifications/initialized s1") ||
		!strings.Contains(got, "POST tools/list s1") {
		t.Errorf("requests: %s", got)
	}
	if strings.Contains(c.log.String(), "t0ken") {
		t.Errorf("the token is in the log: %s", c.log)
	}
}

// A client of the stateless protocol has no handshake. Its subscription reports the sign-in and
// ends.
func TestSignInStateless(t *testing.T) {
	e, p := newGuarded(t, "t0ken"), newPerson()
	c := newClient(t, relay.Options{URL: e.URL, SignIn: p, Version: "1.2"})
	const (
		version = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
		server  = `"io.modelcontextprotocol/serverInfo":{"name":"portcullis","version":"1.2"}`
		sub     = `"io.modelcontextprotocol/subscriptionId":7`
	)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + version + `}}`)
	if got := c.next(); !strings.Contains(
		got,
		`"supportedVersions":["2026-07-28","2025-11-25","2025-06-18"]`,
	) ||
		!strings.Contains(got, `"resultType":"complete","_meta":{`+server+`}`) {
		t.Errorf("server/discover: %s", got)
	}
	c.send(`{"jsonrpc":"2.0","id":2,"method":"prompts/list","params":{` + version + `}}`)
	c.wants(`{"jsonrpc":"2.0","id":2,"result":{"prompts":[],"ttlMs":0,"cacheScope":"private",` +
		`"resultType":"complete","_meta":{` + server + `}}}`)
	c.send(`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":` +
		`{"promptsListChanged":true,"resourcesListChanged":false},` + version + `}}`)
	c.wants(
		`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",` +
			`"params":{"_meta":{` + sub +
			`},"notifications":{"promptsListChanged":true}}}`,
	)
	p.signIn("t0ken")
	c.wants(
		`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed",` +
			`"params":{"_meta":{` + sub + `}}}`,
	)
	c.wants(
		`{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete",` +
			`"_meta":{` + server + `,` + sub + `}}}`,
	)
	c.send(`{"jsonrpc":"2.0","id":8,"method":"tools/list","params":{` + version + `}}`)
	c.wants(`{"jsonrpc":"2.0","id":8,"result":{"of":"gateway"}}`)

	// a subscription at the gateway goes on when the sign-in ends, and reports the next sign-in too
	c.send(`{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":` +
		`{"toolsListChanged":true},` + version + `}}`)
	c.wants(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}`)
	p.end()
	c.send(`{"jsonrpc":"2.0","id":10,"method":"tools/list","params":{` + version + `}}`)
	if got := c.next(); !strings.Contains(got, `"name":"sign_in"`) {
		t.Errorf("tools/list after the end of the sign-in: %s", got)
	}
	p.signIn("t0ken")
	c.wants(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":` +
		`{"io.modelcontextprotocol/subscriptionId":9}}}`)
	c.send(
		`{"jsonrpc":"2.0","method":"notifications/cancelled",` +
			`"params":{"requestId":9,` + version + `}}`,
	)
	c.close()
}

// A refused token is replaced once for a request. A refusal that no token can change goes to the
// client.
func TestRefusedToken(t *testing.T) {
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, tt := range []struct {
		name, token, next string
		err               error
		status            int // of the endpoint for every request; 0: it accepts "good"
		want, seen        string
	}{
		{"accepted", "good", "", nil, 0, `"result":{"of":"gateway"}`, ""},
		{"replaced", "old", "good", nil, 0, `"result":{"of":"gateway"}`, "401 old Bearer x=y"},
		{
			"replaced in vain", "old", "bad", nil, 0, `"error":{"code":-32603,"message":"The ` +
				`gateway refuses the ` +
				`token that its own issuer gave. Its operator must compare its issuer and its ` +
				`audience with the ` +
				`token. The request was not carried out."}`, "401 old Bearer x=y",
		},
		{"not replaced", "old", "", nil, 0, `"result":{"tools":[{"name":"sign_in"`, "401 old " +
			"Bearer x=y"},
		{"forbidden", "good", "", nil, 403, `"error":{"code":-32603,"message":"The gateway ` +
			`refused the request (HTTP status 403).`, "403 good "},
		{"issuer down", "", "", errors.New("down"), 0, `"result":{"tools":[{"name":"sign_in"`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, p := newGuarded(t, "good"), newPerson()
			if tt.status != 0 {
				e = newEndpoint(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
					w.WriteHeader(tt.status)
				})
			}
			p.token, p.next, p.err = tt.token, tt.next, tt.err
			c := newClient(t, relay.Options{URL: e.URL, SignIn: p})
			c.send(list)
			if got := c.next(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":1,`+tt.want) {
				t.Errorf("answer %s, want %s", got, tt.want)
			}
			c.close()
			if got := strings.Join(p.seen, ", "); got != tt.seen {
				t.Errorf("refusals %s, want %s", got, tt.seen)
			}
			if tt.err != nil && (e.requests() != "" || !strings.Contains(c.log.String(), "down")) {
				t.Errorf("requests %q, log %s", e.requests(), c.log)
			}
		})
	}
}
