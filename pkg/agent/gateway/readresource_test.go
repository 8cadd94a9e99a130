package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const six = "retrieve_tools describe_tools call_tool_read call_tool_write call_tool_destructive upstream_servers"

// The tool list of an agent has read_resource only if the agent has a callable resource. The other
// tools of the list are always the same.
func TestReadResourceListed(t *testing.T) {
	gw := everyItem(t)
	if got := gw.menuOf(); got != six+" read_resource" {
		t.Errorf("menu with callable resources = %s", got)
	}
	gw.Agent.Servers = []string{"waiting", "user"}
	if got := gw.menuOf(); got != six {
		t.Errorf("menu with only locked resources = %s", got)
	}
	if r := gw.Call("read_resource", `{"server":"waiting","uri":"waiting:///it"}`); !r.IsError || !strings.Contains(r.Text, "pending_approval") {
		t.Errorf("call of a client that cached the longer menu: %s", r.Raw)
	}
	gw.Agent.Servers = []string{"*"}
	gw.Header = map[string][]string{"X-Mcp-Tools": {"open:act"}}
	if got := gw.menuOf(); got != six {
		t.Errorf("menu with only a tool = %s", got)
	}
	if _, err := gw.Try(`{"name":"read_resource","arguments":{"server":"open","uri":"open:///it"}}`); err == nil || !strings.Contains(err.Error(), "Unknown tool") {
		t.Errorf("%v", err)
	}
	gw.sentNothing()
}

func TestReadResource(t *testing.T) {
	gw := everyItem(t)
	answer := ""
	gw.ByName["open"].Answer = func(gatewaytest.Sent) (json.RawMessage, error) { return json.RawMessage(answer), nil }
	for _, tt := range []struct{ name, answer, want string }{
		{"text", `{"contents":[{"uri":"open:///it","mimeType":"text/plain","text":"caf\u00e9 <b>"}],"_meta":{"x":1}}`, `{"content":[{"type":"text","text":"caf\u00e9 <b>"}]}`},
		{"an image", `{"contents":[{"uri":"open:///it","mimeType":"image/png","blob":"eA=="}]}`, `{"content":[{"type":"image","data":"eA==","mimeType":"image/png"}]}`},
		{"a sound", `{"contents":[{"uri":"open:///it","mimeType":"audio/wav","blob":"eA=="}]}`, `{"content":[{"type":"audio","data":"eA==","mimeType":"audio/wav"}]}`},
		{"other bytes", `{"contents":[{"uri":"open:///it","blob":"eA==","n":9007199254740993}]}`, `{"content":[{"type":"resource","resource":{"uri":"open:///it","blob":"eA==","n":9007199254740993}}]}`},
		{"parts", `{"contents":[{"uri":"open:///it","text":"a"},{"uri":"open:///it/2","text":"b"}]}`,
			`{"content":[{"type":"text","text":"a"},{"type":"text","text":"open:///it/2:"},{"type":"text","text":"b"}]}`},
		{"nothing", `{"contents":[]}`, `{"content":[{"type":"text","text":"The resource is empty."}]}`},
		{"a part that is not an object", `{"contents":[7]}`, `{"content":[{"type":"text","text":"The resource is empty."}]}`},
		{"a question", `{"resultType":"input_required","inputRequests":{}}`, `{"resultType":"input_required","inputRequests":{}}`},
	} {
		answer = tt.answer
		raw, err := gw.Try(`{"name":"read_resource","arguments":{"server":"open","uri":"open:///it"},"later":"s"}`)
		if err != nil || string(raw) != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.name, raw, err, tt.want)
		}
		if sent := gw.Sent(); len(sent) != 1 || sent[0].Method != "resources/read" || sent[0].Tool != "open:///it" || sent[0].Params != `{"later":"s"}` {
			t.Errorf("%s: sent %+v", tt.name, sent)
		}
	}
}

// A refusal is the result of the tool read_resource and no JSON-RPC error, so that the model reads
// it. The setting "locked" decides whether the result of a locked resource is an error.
func TestReadResourceRefused(t *testing.T) {
	for _, mode := range []string{"error", "result"} {
		gw := everyItem(t, `"gateway":{"locked":"`+mode+`"}`)
		for server, status := range itemStatuses {
			if status == "" {
				continue
			}
			for _, uri := range []string{server + ":///it", server + ":///t/1"} {
				e := gw.refused("resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
				r := gw.Call("read_resource", fmt.Sprintf(`{"server":%q,"uri":%q}`, server, uri))
				if r.IsError != (mode == "error") || !strings.HasPrefix(r.Text, e.Message+"\n") || !strings.Contains(r.Text, "upstream_servers") || string(r.Meta["dev.portcullis/lock"]) != string(e.Data) {
					t.Errorf("%s %s: %s\nwant %s", mode, uri, r.Raw, e.Message)
				}
			}
		}
		for arguments, want := range map[string]string{
			`{"server":"open","uri":"open:///nothing"}`:                   `Unknown resource: "open:///nothing"`,
			`{"server":"waiting","uri":"open:///it"}`:                     `Unknown resource: "open:///it"`,
			`{"server":"nowhere","uri":"open:///it"}`:                     `Server "nowhere" was not found.`,
			`{"uri":"open:///it"}`:                                        `server is missing`,
			`{"server":"open","uri":"open:///it","name":"x"}`:             `unknown argument "name"`,
			`{"server":"open","uri":"` + strings.Repeat("x", 2001) + `"}`: `at most 2000 are taken`,
		} {
			if r := gw.Call("read_resource", arguments); !r.IsError || !strings.Contains(r.Text, want) {
				t.Errorf("%.60s: %s", arguments, r.Raw)
			}
		}
		gw.sentNothing()
	}
}

func TestReadResourceFailed(t *testing.T) {
	gw := everyItem(t)
	var err error
	gw.ByName["open"].Answer = func(gatewaytest.Sent) (json.RawMessage, error) { return nil, err }
	for _, tt := range []struct {
		err        error
		text, meta string
	}{
		{&outcome.RPCError{Code: -32002, Message: "gone\nfor good"}, "The server answered with error -32002: gone\uFFFDfor good", ""},
		{&outcome.CallError{Outcome: outcome.Outcome{Status: outcome.Transient, Reason: outcome.ReasonRateLimited}},
			"MCP server 'open' takes no more calls for the moment. The call was not carried out and the gateway does not repeat it: call again shortly.",
			`{"server":"open","status":"transient","reason":"rate_limited"}`},
	} {
		err = tt.err
		if r := gw.Call("read_resource", `{"server":"open","uri":"open:///it"}`); !r.IsError || r.Text != tt.text || string(r.Meta["dev.portcullis/upstream"]) != tt.meta {
			t.Errorf("%s, want %s %s", r.Raw, tt.text, tt.meta)
		}
	}
	gw.Agent.Tiers = nil
	_, err = gw.Try(`{"name":"read_resource","arguments":{"server":"open","uri":"open:///it"}}`)
	if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Status != 403 {
		t.Errorf("%v", err)
	}
}

// If two servers have the same URI, read_resource reads it from the server that the call names.
func TestReadResourceOfOne(t *testing.T) {
	gw := reading(t, nil, map[string][]string{"a": {"u:it"}, "b": {"u:it", "u:{+x}"}})
	for _, server := range []string{"a", "b"} {
		if r := gw.Call("read_resource", fmt.Sprintf(`{"server":%q,"uri":"u:it"}`, server)); r.IsError || gw.sentTo() != server+" u:it" {
			t.Errorf("%s: %s", server, r.Raw)
		}
	}
}

// The operation get of upstream_servers lists a server's locked prompts and resources, and each
// remediation once. Its counts include only tools. The operation list has no prompts or resources.
func TestServersGetItems(t *testing.T) {
	gw := everyItem(t)
	for server := range itemStatuses {
		checkAnswer(
			t, "upstream_server_"+server,
			gw.Call("upstream_servers", fmt.Sprintf(`{"operation":"get","name":%q}`, server)).Text,
		)
	}
	if list := gw.Call("upstream_servers", `{"operation":"list"}`).Text; strings.Contains(list, "resources") || strings.Contains(list, "prompts") {
		t.Errorf("a list: %s", list)
	}
}

// The answer has at most 8 KiB, even if a server lists many items.
func TestServersGetItemsBounded(t *testing.T) {
	items := map[string][]string{}
	for i := range 300 {
		items["open"] = append(items["open"], fmt.Sprintf("u:%s%03d", strings.Repeat("x", 1000), i))
		items["shut"] = append(items["shut"], fmt.Sprintf("v:%03d", i))
	}
	gw := reading(t, map[string]string{"shut": `"approval":"manual"`}, items)
	for _, server := range []string{"open", "shut"} {
		all := gw.Call("upstream_servers", fmt.Sprintf(`{"operation":"get","name":%q}`, server)).Text
		r := require.JSON[struct {
			Servers []struct {
				Resources struct {
					Callable, Unshown int
					URIs              []string
					Locked            []json.RawMessage
				}
			}
		}](t, all).Servers[0].Resources
		if len(all) > 8<<10 || len(r.URIs)+len(r.Locked)+r.Unshown != 300 {
			t.Errorf("%s: %d bytes, %d URIs, %d locked, %d not shown", server, len(all), len(r.URIs), len(r.Locked), r.Unshown)
		}
	}
}

// No answer contains an item out of the agent's scope. The agent's lists of tools, prompts and
// resources contain no locked item.
func TestItemsLeaveNoTrace(t *testing.T) {
	plain, full := newFixture(t), newFixture(t)
	for _, gw := range []*fixture{plain, full} {
		also(gw.Serve("mine", def("act", "Act.", readOnly)), prompt("ask", "Ask."), resource("u:it", "It."), resource("u:t/{x}", "Those."))
	}
	also(full.Serve("other", def("act", "Act.", readOnly)), prompt("ask", "Ask."), resource("u:it", "Another."), resource("u:t/{x}", "Others."), resource("{+all}", "All."))
	full.Configure(nil)
	plain.Configure(nil)
	full.Sync()
	plain.Sync()
	full.Agent.Servers, plain.Agent.Servers = []string{"mine"}, []string{"mine"}
	answers := func(gw *fixture) string {
		out := fmt.Sprintf("%+v %s %s", gw.Open().Offers(), gw.lists(), gw.menuOf())
		for _, r := range [][2]string{
			{"resources/read", `{"uri":"u:it"}`}, {"resources/read", `{"uri":"u:t/1"}`}, {"resources/read", `{"uri":"v:1"}`}, {"prompts/get", `{"name":"other__ask"}`},
			{"prompts/get", `{"name":"mine__ask"}`}, {"completion/complete", `{"ref":{"type":"ref/resource","uri":"{+all}"},"argument":{"name":"all","value":""}}`},
		} {
			raw, err := gw.ask(r[0], r[1])
			e, _ := errors.AsType[*mcp.Error](err)
			out += fmt.Sprintf("\n%s %+v", raw, e)
		}
		for _, args := range []string{`{}`, `{"operation":"get","name":"mine"}`, `{"operation":"get","name":"other"}`} {
			out += "\n" + gw.Call("upstream_servers", args).Raw
		}
		return out + "\n" + gw.Call("read_resource", `{"server":"other","uri":"u:it"}`).Raw
	}
	if a, b := answers(plain), answers(full); a != b {
		t.Errorf("a server out of scope changes the answers:\n%s\n%s", a, b)
	}
	full.Agent.Servers = []string{"mine", "other"}
	before := full.lists()
	for _, item := range []string{"prompt:ask", "resource:u:it", "resource:u:t/{x}", "resource:{+all}"} {
		full.Decide("other:"+item, "disable")
	}
	full.Clock.Wait(time.Minute)
	if after := full.lists(); after != "mine__ask u:it u:t/{x}" || after == before {
		t.Errorf("lists after the locks = %s", after)
	}
}
