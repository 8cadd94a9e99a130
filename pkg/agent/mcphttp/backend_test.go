package mcphttp_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A backend serves fixed definitions, and answers each call with the function that the test set. It
// stores what it receives. The zero value answers each call with the params of the call.
type backend struct {
	tools        string // the result of tools/list; "": two small tools
	instructions string
	outputs      bool // each tool has an output schema
	openErr      error
	listErr      error
	call         func(ctx context.Context, r mcp.Request) (json.RawMessage, error)
	offers       gateway.Offers
	// items is the result of every list except tools/list. If it is "", the backend has no prompts
	// or resources. The functions call and talk also answer for prompts and resources.
	items string
	// talk replaces call, and also gets the client.
	talk func(ctx context.Context, r mcp.Request, c mcp.Client) (json.RawMessage, error)

	mu      sync.Mutex
	callers []gateway.Caller
	cursors []string
	params  []string
}

const twoTools = `{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"add","inputSchema":{"type":"object"}}]}`

func (b *backend) Open(_ context.Context, c gateway.Caller) (mcphttp.Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.callers = append(b.callers, c)
	if b.openErr != nil {
		return nil, b.openErr
	}
	return b, nil
}

func (b *backend) Stopped(context.Context, identity.Agent) error { return nil }

func (b *backend) While(ctx context.Context, _ identity.Agent) (context.Context, func()) {
	return context.WithCancel(ctx)
}

func (b *backend) Lists(gateway.Lists) gateway.Lists { return gateway.Lists{} }

func (b *backend) DeclaresOutput(string) bool { return b.outputs }

func (b *backend) Instructions() string { return b.instructions }

func (b *backend) ListTools(_ context.Context, cursor string) (json.RawMessage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cursors = append(b.cursors, cursor)
	if b.tools == "" {
		return json.RawMessage(twoTools), b.listErr
	}
	return json.RawMessage(b.tools), b.listErr
}

func (b *backend) Offers() gateway.Offers { return b.offers }

func (b *backend) ListItems(_ context.Context, method, cursor string) (json.RawMessage, error) {
	if b.items == "" {
		return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "method not found"}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cursors = append(b.cursors, method+" "+cursor)
	return json.RawMessage(b.items), b.listErr
}

func (b *backend) GetItem(ctx context.Context, r mcp.Request, c mcp.Client) (json.RawMessage, error) {
	if b.items == "" {
		return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "method not found"}
	}
	return b.CallTool(ctx, r, c)
}

func (b *backend) AnswerTask(
	ctx context.Context, r mcp.Request, c mcp.Client,
) (json.RawMessage, error) {
	return b.CallTool(ctx, r, c)
}

func (b *backend) CallTool(ctx context.Context, r mcp.Request, c mcp.Client) (json.RawMessage, error) {
	params := paramsOf(r)
	b.mu.Lock()
	b.params = append(b.params, params)
	b.mu.Unlock()
	if b.talk != nil {
		return b.talk(ctx, r, c)
	}
	if b.call != nil {
		return b.call(ctx, r)
	}
	return json.RawMessage(`{"content":[{"type":"text","text":"ok"}],"echo":` + params + `}`), nil
}

// paramsOf returns the params of a call as JSON: the name, the arguments, the other members, _meta.
func paramsOf(r mcp.Request) string {
	o := rawjson.Object{{Name: "name", Value: rawjson.Quote(r.Name)}}
	if r.Arguments != nil {
		o.Add("arguments", r.Arguments)
	}
	o = append(o, r.Rest...)
	if r.Meta != nil {
		o.Add("_meta", r.Meta.Bytes())
	}
	return string(o.Bytes())
}

// touched reports whether the backend received a call or a list request.
func (b *backend) touched() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.params)+len(b.cursors) > 0
}

// answers returns a call function with one result.
func answers(result string) func(context.Context, mcp.Request) (json.RawMessage, error) {
	return func(context.Context, mcp.Request) (json.RawMessage, error) {
		return json.RawMessage(result), nil
	}
}

// newHandler returns a handler on b with no authentication.
func newHandler(t testing.TB, b mcphttp.Backend, o *mcphttp.Options) http.Handler {
	t.Helper()
	return newAuthHandler(t, b, identity.None{}, o)
}

// newAuthHandler returns a handler on b that uses auth.
func newAuthHandler(t testing.TB, b mcphttp.Backend, auth identity.Authenticator, o *mcphttp.Options) http.Handler {
	t.Helper()
	h, err := mcphttp.New(b, auth, o)
	require.OK(t, err)
	return h
}

// An authenticator is a function that returns the agent of every request, or an error.
type authenticator func() (identity.Agent, error)

func (a authenticator) Authenticate(*http.Request) (identity.Agent, error) { return a() }

// denies returns an authenticator that accepts nobody.
func denies(err error) authenticator {
	return func() (identity.Agent, error) { return identity.Agent{}, err }
}

// A protocol is a version of MCP, with what a client sends to announce it.
type protocol struct {
	name   string
	header http.Header
	meta   string // the content of _meta
}

var protocols = []protocol{
	{"none", http.Header{}, ``},
	{"2025-03-26", http.Header{"Mcp-Protocol-Version": {"2025-03-26"}}, ``},
	{"2025-06-18", http.Header{"Mcp-Protocol-Version": {"2025-06-18"}}, ``},
	{"2025-11-25", http.Header{"Mcp-Protocol-Version": {"2025-11-25"}}, ``},
	{"2026-07-28", http.Header{"Mcp-Protocol-Version": {"2026-07-28"}},
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`},
}

var legacy, modern = protocols[3], protocols[4]

func (e protocol) isModern() bool { return e.meta != "" }

// inEachProtocol runs f as a subtest of every protocol.
func inEachProtocol(t *testing.T, f func(t *testing.T, e protocol)) {
	t.Helper()
	for _, e := range protocols {
		t.Run(e.name, func(t *testing.T) { f(t, e) })
	}
}

// request returns the POST that a client of this protocol sends. params has the members of the
// params object, without braces.
func (e protocol) request(t testing.TB, method, params string) *http.Request {
	t.Helper()
	if e.meta != "" {
		if params != "" {
			params += ","
		}
		params += `"_meta":{` + e.meta + `}`
	}
	r := post(t, `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{`+params+`}}`)
	maps.Copy(r.Header, e.header)
	if e.isModern() {
		r.Header.Set("Mcp-Method", method)
		var p struct{ Name, TaskID string }
		switch err := json.Unmarshal([]byte("{"+params+"}"), &p); {
		case err == nil && method == "tools/call":
			r.Header.Set("Mcp-Name", p.Name)
		case err == nil && strings.HasPrefix(method, "tasks/"):
			r.Header.Set("Mcp-Name", p.TaskID)
		}
	}
	return r
}

// described returns a tool call with the headers Mcp-Protocol-Version, Mcp-Method and Mcp-Name, for
// any protocol. The test can change e.meta and e.header first.
func (e protocol) described(t testing.TB) *http.Request {
	t.Helper()
	meta := `,"_meta":{` + e.meta + `}`
	if e.meta == "" {
		meta = ""
	}
	r := post(t, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"`+meta+`}}`)
	r.Header.Set("Mcp-Protocol-Version", e.header.Get("Mcp-Protocol-Version"))
	r.Header.Set("Mcp-Method", "tools/call")
	r.Header.Set("Mcp-Name", "echo")
	return r
}

// post returns a plain POST with a body.
func post(t testing.TB, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return r
}

// A reply is an HTTP answer.
type reply struct {
	status int
	header http.Header
	body   string
}

// send sends a request to a handler.
func send(h http.Handler, r *http.Request) reply {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	b, _ := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(b)}
}

// An rpc is a JSON-RPC answer.
type rpc struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// rpc parses the body. If the body is not a JSON-RPC answer, the test fails.
func (r reply) rpc(t testing.TB) rpc {
	t.Helper()
	out := require.JSON[rpc](t, r.body)
	if out.Version != "2.0" || out.ID == nil || (out.Error == nil) == (out.Result == nil) {
		t.Fatalf("body is not a JSON-RPC answer:\n%s", r.body)
	}
	if ct := r.header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("content type %q, want application/json", ct)
	}
	return out
}

// wantError checks the HTTP status, the error code and the id of a refusal. If id is "", the id
// must be null.
func (r reply) wantError(t testing.TB, status, code int, id string) {
	t.Helper()
	a := r.rpc(t)
	if id == "" {
		id = "null"
	}
	if r.status != status || a.Error == nil || a.Error.Code != code || string(a.ID) != id {
		t.Errorf("got status %d, body %s\nwant status %d, code %d, id %s", r.status, r.body, status, code, id)
	}
}

// wantResult checks that the answer is a result and returns it.
func (r reply) wantResult(t testing.TB) string {
	t.Helper()
	a := r.rpc(t)
	if r.status != http.StatusOK || a.Error != nil {
		t.Fatalf("got status %d, body %s\nwant a result", r.status, r.body)
	}
	return string(a.Result)
}

// A logbook keeps log lines.
type logbook struct{ local.Buffer }

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

// same checks that two values are equal.
func same[T any](t testing.TB, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
