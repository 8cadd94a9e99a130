package mcphttp_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
)

const twoPrompts = `{"prompts":[{"name":"s__a"},{"name":"s__b"}],"ttlMs":30000}`

// itemRequests are requests about prompts and resources, with the name that Mcp-Name repeats.
var itemRequests = []struct{ method, params, name string }{
	{"prompts/list", `"cursor":"c"`, ""},
	{"resources/list", `"cursor":"c"`, ""},
	{"resources/templates/list", `"cursor":"c"`, ""},
	{"prompts/get", `"name":"s__a","arguments":{"x":"\u00e9"}`, "s__a"},
	{"resources/read", `"uri":"a:b,c?d","requestState":"s"`, "a:b,c?d"},
	{"completion/complete", `"ref":{"type":"ref/prompt","name":"s__a"},"argument":{"name":"x","value":""}`, ""},
}

// named returns a request of this protocol with the header that repeats its name.
func (e protocol) named(t testing.TB, method, params, name string) *http.Request {
	t.Helper()
	r := e.request(t, method, params)
	if e.isModern() && name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	return r
}

// If the gateway offers no prompts and no resources, their methods are unknown methods.
func TestItemsNotThere(t *testing.T) {
	for _, req := range itemRequests {
		b := &backend{}
		got := send(newHandler(t, b, nil), legacy.named(t, req.method, req.params, req.name))
		got.wantError(t, 200, -32601, "7")
		if b.touched() {
			t.Errorf("%s reached the backend", req.method)
		}
	}
}

// The gateway refuses a request if its headers do not repeat its method and its name. The name in a
// header may be encoded.
func TestNameHeader(t *testing.T) {
	call := itemRequests[3]
	call.method, call.params, call.name = "tools/call", `"name":"grüße:日本"`, "grüße:日本"
	for _, req := range append(itemRequests[:len(itemRequests):len(itemRequests)], call) {
		b := &backend{items: twoPrompts}
		r := modern.named(t, req.method, req.params, "another")
		if req.name == "" {
			r.Header.Set("Mcp-Method", "tools/list")
		}
		send(newHandler(t, b, nil), r).wantError(t, 400, -32020, "7")
		if req.name != "" {
			send(newHandler(t, b, nil), modern.request(t, req.method, req.params)).wantError(t, 400, -32020, "7")
			encoded := modern.named(t, req.method, req.params, "=?base64?"+base64.StdEncoding.EncodeToString([]byte(req.name))+"?=")
			send(newHandler(t, b, nil), encoded).wantResult(t)
		} else if b.touched() {
			t.Errorf("%s reached the backend", req.method)
		}
	}
}

// TestItemsAnswers checks the members that the gateway adds to answers, by protocol.
func TestItemsAnswers(t *testing.T) {
	const signed = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"portcullis","version":"dev"}}`
	for _, req := range itemRequests {
		inEachProtocol(t, func(t *testing.T, e protocol) {
			b := &backend{items: twoPrompts, call: answers(`{"contents":[{"n":9007199254740993 ,"text":"\u00e9"}]}`)}
			got := send(newHandler(t, b, nil), e.named(t, req.method, req.params, req.name)).wantResult(t)
			want, kept := `{"contents":[{"n":9007199254740993 ,"text":"\u00e9"}]`, ""
			switch {
			case strings.HasSuffix(req.method, "list"):
				want, kept = `{"prompts":[{"name":"s__a"},{"name":"s__b"}],"ttlMs":30000`, `,"cacheScope":"private"`
				if len(b.cursors) != 1 || b.cursors[0] != req.method+" c" {
					t.Errorf("cursors = %q", b.cursors)
				}
			case req.method == "resources/read":
				kept = `,"cacheScope":"private","ttlMs":0`
			}
			want += kept
			if e.isModern() {
				want += `,"resultType":"complete",` + signed
			}
			if got != want+"}" {
				t.Errorf("%s: %s\nwant %s}", req.method, got, want)
			}
		})
	}
}

// Prompts and resources may ask for input, as tools do. Clients must not cache such an answer. If
// the gateway cannot understand or pass on a question, it returns an error, because these methods
// have no results for a model.
func TestItemsInputRequired(t *testing.T) {
	const asks = `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{}}},"requestState":"s"}`
	declared := protocol{modern.name, modern.header, strings.Replace(modern.meta, `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{}}`, 1)}
	for _, req := range itemRequests[3:] {
		h := newHandler(t, &backend{items: twoPrompts, call: answers(asks)}, nil)
		kind := "The prompt "
		if req.method == "resources/read" {
			kind = "The resource "
		}
		refused := func(e protocol, code int, want string) {
			t.Helper()
			a := send(h, e.named(t, req.method, req.params, req.name)).rpc(t)
			if a.Error == nil || a.Error.Code != code || !strings.HasPrefix(a.Error.Message, kind+want) || strings.Contains(a.Error.Message, "tool") {
				t.Errorf("%s: %+v, want %d %s%s", req.method, a.Error, code, kind, want)
			}
		}
		if req.method == "completion/complete" {
			refused(declared, 5020, "answered in a form that this gateway does not know")
			continue
		}
		got := send(h, declared.named(t, req.method, req.params, req.name)).wantResult(t)
		if !strings.HasPrefix(got, strings.TrimSuffix(asks, "}")) || strings.Contains(got, "cacheScope") || strings.Contains(got, "complete") {
			t.Errorf("%s: %s", req.method, got)
		}
		refused(modern, -32021, "asks its client for input")
		refused(legacy, 5020, "asks for input in a way that your client's protocol version does not have.")
	}
}

func TestItemsTooLarge(t *testing.T) {
	long := answers(`{"contents":[{"text":"` + strings.Repeat("x", 6<<20) + `"}]}`)
	h := newHandler(t, &backend{items: twoPrompts, call: long}, nil)
	a := send(h, modern.named(t, "resources/read", `"uri":"a:b"`, "a:b")).rpc(t)
	if a.Error == nil || a.Error.Code != 5020 || a.Error.Message != "The resource is too large to pass on (over 5 MiB). Nothing of it was passed on." {
		t.Errorf("%+v", a.Error)
	}
}

func TestItemsTooLate(t *testing.T) {
	slow := func(context.Context, mcp.Request) (json.RawMessage, error) { return nil, context.DeadlineExceeded }
	h := newHandler(t, &backend{items: twoPrompts, call: slow}, nil)
	a := send(h, legacy.request(t, "prompts/get", `"name":"s__a"`)).rpc(t)
	if a.Error == nil || a.Error.Code != 5020 || !strings.HasPrefix(a.Error.Message, "No answer after ") || !strings.HasSuffix(a.Error.Message, "to ask for a prompt again does no harm.") {
		t.Errorf("%+v", a.Error)
	}
}
