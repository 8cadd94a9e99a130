package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// live returns a gateway after its first sync, and the real server behind it.
func live(t *testing.T, name string, o upstreamtest.Options) (*gatewaytest.Gateway, *upstreamtest.Server) {
	srv, gw := upstreamtest.New(t, o), gatewaytest.NewLive(t)
	gw.Meta = json.RawMessage(`{"io.modelcontextprotocol/clientCapabilities":{},"vendor/x":9007199254740993}`)
	gw.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	gw.Serve(name).URL = srv.URL
	gw.Configure(map[string]string{name: `"headers": {"X-Own": "yes"}`})
	gw.Sync()
	return gw, srv
}

// excluding returns the header of a request that excludes a tool.
func excluding(id string) http.Header { return http.Header{"X-Mcp-Exclude-Tools": {id}} }

func definitions(list ...string) []json.RawMessage {
	var out []json.RawMessage
	for _, d := range list {
		out = append(out, json.RawMessage(d))
	}
	return out
}

func TestLiveBothEras(t *testing.T) {
	const args = `{"n":9007199254740993,"z":1e2,"a":{"k":[1,null,"\u00e9"]}}`
	for name, protocol := range map[string]upstreamtest.Protocols{"modern": upstreamtest.Modern, "legacy": upstreamtest.Legacy} {
		t.Run(name, func(t *testing.T) {
			var answer string
			gw, srv := live(t, name, upstreamtest.Options{
				Protocols: protocol, SSE: protocol == upstreamtest.Legacy,
				Tools: definitions(def("act", "Act.", ""), def("hidden", "Hidden.", ""), def("look", "Look.", readOnly)),
				Call: func(_ context.Context, c upstreamtest.Call) (json.RawMessage, error) {
					if c.Name == "look" {
						return nil, &upstreamtest.RPCError{Code: -32050, Message: "not today", Data: json.RawMessage(`{"n":9007199254740993}`)}
					}
					answer = fmt.Sprintf(`{"zeta":9007199254740993,"content":[{"type":"hologram","v":%s}],"resultType":"complete"}`, c.Arguments)
					return json.RawMessage(answer), nil
				},
			})
			gw.Header = excluding(name + ":hidden")
			raw, err := gw.Try(fmt.Sprintf(`{"name":"call_tool_destructive","arguments":{"name":"%s:act","args":%s}}`, name, args))
			if err != nil || string(raw) != answer || !strings.Contains(answer, args) {
				t.Errorf("got %s, %v\nwant %s", raw, err, answer)
			}
			got := srv.Calls()
			if len(got) != 1 || got[0].Tool != "act" || !strings.Contains(string(got[0].Params), `"arguments":`+args) {
				t.Fatalf("the server received %+v", got)
			}
			for _, h := range []string{"X-Mcp-Exclude-Tools", "Authorization"} {
				if got[0].Header.Get(h) != "" {
					t.Errorf("%s went upstream", h)
				}
			}
			if got[0].Header.Get("X-Own") != "yes" || !strings.Contains(string(got[0].Params), `"vendor/x":9007199254740993`) {
				t.Errorf("the server's own header or the caller's _meta is missing: %s", got[0].Params)
			}
			_, err = gw.Try(fmt.Sprintf(`{"name":"call_tool_read","arguments":{"name":"%s:look"}}`, name))
			if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != -32050 || e.Message != "not today" || string(e.Data) != `{"n":9007199254740993}` {
				t.Errorf("the server's error became %v", err)
			}
		})
	}
}

func TestLiveNeverListed(t *testing.T) {
	gw, srv := live(t, "legacy", upstreamtest.Options{Tools: definitions(def("act", "Act.", ""), def("hidden", "Hidden.", ""))})
	srv.ForgetRequests()
	gw.Header = excluding("legacy:hidden")
	for _, name := range []string{"legacy:secret_tool", "legacy:hidden", "other:act", "legacy:act:x"} {
		raw, err := gw.Try(fmt.Sprintf(`{"name":"call_tool_destructive","arguments":{"name":%q}}`, name))
		if err != nil || !strings.Contains(string(raw), "was not found") {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
	}
	if n := srv.Total(); n != 0 {
		t.Errorf("%d requests reached the server", n)
	}
}

// The stored catalog answers while every server is down, and calls fail with their outcome. Calls
// work again when the servers do, without a restart.
func TestLiveServerComesBack(t *testing.T) {
	gw, srv := live(t, "s", upstreamtest.Options{Tools: definitions(def("act", "Act on documents.", ""))})
	srv.Refuse()
	gw.Sync()
	const call = `{"name":"call_tool_destructive","arguments":{"name":"s:act"}}`
	for name, params := range map[string]string{
		"search": `{"name":"retrieve_tools","arguments":{"query":"documents"}}`, "describe": `{"name":"describe_tools","arguments":{"names":["s:act"]}}`,
	} {
		if raw, err := gw.Try(params); err != nil || !strings.Contains(string(raw), "Act on documents.") {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
	}
	for _, later := range []time.Duration{0, time.Minute} { // the sync's outcome; then a new attempt
		gw.Clock.Wait(later)
		raw, err := gw.Try(call)
		if err != nil || !strings.Contains(string(raw), "MCP server 's' is unavailable and needs attention: it refuses connections.") ||
			!strings.Contains(string(raw), `"dev.portcullis/upstream":{"server":"s","status":"permanent","reason":"refused"}`) {
			t.Errorf("%s, %v", raw, err)
		}
	}
	require.OK(t, srv.Return())
	gw.Clock.Wait(time.Minute) // the gateway retries a refused connection after a minute
	if raw, err := gw.Try(call); err != nil || !strings.Contains(string(raw), `"name":"act"`) {
		t.Errorf("after the server's return: %s, %v", raw, err)
	}
}

// A new process takes each server's protocol from the catalog, for its calls and its syncs.
func TestLiveEraIsRemembered(t *testing.T) {
	gw, srv := live(t, "s", upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true, Tools: definitions(def("act", "Act.", ""))})
	if len(srv.Received("server/discover")) != 1 {
		t.Fatal("the first sync did not send server/discover")
	}
	srv.ForgetRequests()
	gw.Restart()
	if raw, err := gw.Try(`{"name":"call_tool_destructive","arguments":{"name":"s:act"}}`); err != nil || !strings.Contains(string(raw), `"name":"act"`) {
		t.Fatalf("call: %s, %v", raw, err)
	}
	gw.Restart()
	gw.Sync()
	if len(srv.Received("server/discover")) != 0 || len(srv.Received("tools/list")) != 1 || len(srv.Calls()) != 1 {
		t.Errorf("%d requests of server/discover after restarts, %d lists, %d calls", len(srv.Received("server/discover")), len(srv.Received("tools/list")), len(srv.Calls()))
	}
}

func TestLiveInputRequired(t *testing.T) {
	const ask = `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"n":9007199254740993}}},"requestState":`
	const reply = `"inputResponses":{"q":{"action":"accept","content":{"n":9007199254740993}}},"requestState":`
	gw, _ := live(t, "s", upstreamtest.Options{
		Protocols: upstreamtest.Modern, Tools: definitions(def("act", "Act.", "")),
		Call: func(_ context.Context, c upstreamtest.Call) (json.RawMessage, error) {
			if strings.Contains(string(c.Params), reply+`"s\u00e9"`) {
				return json.RawMessage(`{"content":[],"resultType":"complete"}`), nil
			}
			return json.RawMessage(ask + `"s\u00e9"}`), nil
		},
	})
	gw.Options.Sealer, gw.Modern = sealer(1), true
	gw.Restart()
	raw, err := gw.Try(`{"name":"call_tool_destructive","arguments":{"name":"s:act"}}`)
	state, ours := strings.CutPrefix(string(raw), ask)
	if err != nil || !ours || strings.Contains(state, "s\\u00e9") {
		t.Fatalf("got %s, %v", raw, err)
	}
	raw, err = gw.Try(`{"name":"call_tool_destructive","arguments":{"name":"s:act"},` + reply + state)
	if err != nil || string(raw) != `{"content":[],"resultType":"complete"}` {
		t.Errorf("got %s, %v", raw, err)
	}
}
