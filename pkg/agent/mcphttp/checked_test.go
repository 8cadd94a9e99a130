package mcphttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A checking is a handler for a gateway with one server.
type checking struct {
	http.Handler
	last tool.ID // the tool whose lock was checked
}

func gatewayTo(t testing.TB, s *upstreamtest.Server, settings string) *checking {
	t.Helper()
	g := gatewaytest.NewLive(t)
	g.Serve("s").URL = s.URL
	g.Configure(nil, `"gateway":`+settings)
	g.Sync()
	c := &checking{Handler: newHandler(t, gated{g}, nil)}
	g.Approvals.OnGet = func(_ context.Context, id tool.ID) error {
		c.last = id
		return nil
	}
	return c
}

// FuzzCheckedIsSent sends bodies through the handler, the gateway and the upstream client. In its
// body and its header, the server must receive the name of the tool whose lock was checked. The
// arguments must have the bytes of the client's message.
func FuzzCheckedIsSent(f *testing.F) {
	for _, params := range []string{
		`{"name":"s__read","arguments":{"n":9007199254740993, "z":1.0,"a":"\u00e9\/"}}`, `{"na\u006de":"s__rm","argument\u0073":[1]}`,
		`{"name":"s__read","Name":"s__rm"}`, `{"name":"s__read","name":"s__rm"}`, `{"arguments":{"name":"rm"},"name":"s__read","task":{},"requestState":"x"}`,
		`{"name":"call_tool_read","arguments":{"name":"s:read","args":{"a":[{"b":1e400}]}}}`,
		`{"name":"call_tool_destructive","arguments":{"args": {"x":"\ud83d\ude00"} ,"name":"s:rm"},"_meta":{"progressToken":1,"x/y":2}}`,
		`{"name":"call_tool_read","arguments":{"name":"s:read","args":{"a":1,"a":2}}}`, `{"name":"call_tool_read","arguments":{"name":"s:read","Name":"s:rm"}}`,
	} {
		f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`))
	}
	s := upstreamtest.New(f, upstreamtest.Options{Protocols: upstreamtest.Modern, Tools: []json.RawMessage{
		json.RawMessage(gatewaytest.Tool("read", "", gatewaytest.ReadOnly)), json.RawMessage(gatewaytest.Tool("rm", "", "")),
	}})
	direct, search := gatewayTo(f, s, `{"mode":"direct"}`), gatewayTo(f, s, `{}`)
	for h, name := range map[*checking]string{direct: "s__read", search: "call_tool_read"} {
		s.ForgetRequests()
		if send(h, legacy.request(f, "tools/call", `"name":"`+name+`","arguments":{"name":"s:read"}`)); len(s.Calls()) == 0 {
			f.Fatal(name + " does not reach the server")
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var m struct { // parsed by encoding/json, without the gateway's types
			Params struct {
				Name      any
				Arguments json.RawMessage
			}
		}
		_ = json.Unmarshal(body, &m)
		var wrapped struct{ Args json.RawMessage }
		_ = json.Unmarshal(m.Params.Arguments, &wrapped)
		if wrapped.Args == nil || string(wrapped.Args) == "null" {
			wrapped.Args = json.RawMessage("{}")
		}
		for _, way := range []struct {
			*checking
			arguments json.RawMessage
		}{{direct, m.Params.Arguments}, {search, wrapped.Args}} {
			s.ForgetRequests()
			way.last = tool.ID{}
			got := send(way, post(t, string(body)))
			calls := s.Calls()
			if len(calls) == 0 {
				continue
			}
			var sent map[string]json.RawMessage
			if err := json.Unmarshal(calls[0].Params, &sent); err != nil || got.status != http.StatusOK {
				t.Fatalf("%q: sent %s, error %v; status %d", body, calls[0].Params, err, got.status)
			}
			checked := way.last.Name
			if name, _ := tool.DecodeHeader(calls[0].Header.Get("Mcp-Name")); checked == "" || name != checked || string(sent["name"]) != `"`+checked+`"` {
				t.Errorf("%q: checked %q, sent the name %s and the header %q", body, checked, sent["name"], name)
			}
			if !bytes.Equal(sent["arguments"], way.arguments) {
				t.Errorf("%q: sent the arguments %s, the client gave %s", body, sent["arguments"], way.arguments)
			}
		}
	})
}
