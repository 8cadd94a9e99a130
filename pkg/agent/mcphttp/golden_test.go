package mcphttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/test/golden"
)

// The golden file has the whole answer for every method in each protocol, and for each
// contradiction of headers and body. It was recorded with the official SDK's server, and has not
// changed since.
func TestAnswers(t *testing.T) {
	var out strings.Builder
	record := func(e protocol, r *http.Request, what string) {
		b := &backend{instructions: "Look <behind> & \"under\" it."}
		got := send(newHandler(t, b, &mcphttp.Options{Name: "gate", Version: "1.2.3"}), r)
		fmt.Fprintf(&out, "%s %s\n%d %s %s\n\n", e.name, what, got.status, got.header.Get("Content-Type"), strings.TrimSpace(got.body))
		if strings.Contains(got.body, `"error"`) && b.touched() {
			t.Errorf("%s %s reached the backend", e.name, what)
		}
	}
	for _, e := range []protocol{protocols[0], legacy, modern} {
		for _, call := range [][2]string{
			{"initialize", `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}`}, {"initialize", ``},
			{"initialize", `"protocolVersion":"2026-07-28"`}, {"initialize", `"protocolVersion":"2025-03-26"`}, {"initialize", `"protocolVersion":"2024-11-05"`},
			{"initialize", `"protocolVersion":"2099-01-01"`}, {"initialize", `"protocolVersion":5`}, {"initialize", `"capabilities":"none"`}, {"initialize", `"capabilities":{"roots":[]}`},
			{"ping", ``}, {"server/discover", ``}, {"tools/list", ``}, {"tools/list", `"cursor":5`},
			{"tools/call", `"name":"echo","arguments":{"a":1.0}`}, {"tools/call", ``}, {"tools/call", `"arguments":{}`}, {"tools/call", `"name":""`}, {"tools/call", `"name":5`},
			{"subscriptions/listen", `"notifications":{"toolsListChanged":true}`}, {"subscriptions/listen", ``}, {"subscriptions/listen", `"notifications":5`},
			{"prompts/list", ``}, {"notifications/initialized", ``},
		} {
			record(e, e.request(t, call[0], call[1]), call[0]+" {"+call[1]+"}")
		}
		for _, body := range []string{
			`{"jsonrpc":"2.0","id":7,"method":"initialize"}`, `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen"}`,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"notifications/x","params":{}}`,
			`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"k":` + strings.Repeat("[", 998) + strings.Repeat("]", 998) + `}}}`,
			`{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{"notifications":{},"_meta":{` + e.meta + `}}}`,
		} {
			for _, header := range [][2]string{{"Mcp-Method", ""}, {"Mcp-Method", "tools/list"}, {"Mcp-Method", "subscriptions/listen"}, {"Accept", "application/json"}} {
				r := post(t, body)
				r.Header.Set("Mcp-Protocol-Version", e.header.Get("Mcp-Protocol-Version"))
				r.Header.Set(header[0], header[1])
				record(e, r, fmt.Sprintf("%s: %s %.80s", header[0], header[1], body))
			}
		}
	}
	const version, capable = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"io.modelcontextprotocol/clientCapabilities":{}`
	for _, meta := range []string{
		``, version, capable, version + "," + capable, `"io.modelcontextprotocol/protocolVersion":20260728,` + capable, `"io.modelcontextprotocol/protocolVersion":"2025-11-25",` + capable,
		version + `,"io.modelcontextprotocol/clientCapabilities":[]`, version + `,"io.modelcontextprotocol/clientCapabilities":{"sampling":{"tools":5}}`,
		version + "," + capable + `,"io.modelcontextprotocol/clientInfo":"me"`, version + "," + capable + `,"io.modelcontextprotocol/clientInfo":{"name":5}`,
	} {
		for _, e := range []protocol{protocols[0], legacy, modern} {
			e.meta = meta
			record(e, e.described(t), "{"+meta+"}")
		}
	}
	for _, header := range [][2]string{
		{"Mcp-Method", ""}, {"Mcp-Method", "tools/list"}, {"Mcp-Name", ""}, {"Mcp-Name", "add"}, {"Mcp-Name", "=?base64?***?="}, {"Mcp-Protocol-Version", ""},
		{"Mcp-Protocol-Version", "2025-11-25"}, {"Mcp-Protocol-Version", "tomorrow"}, {"Mcp-Protocol-Version", "2031-01-01"},
	} {
		r := modern.request(t, "tools/call", `"name":"echo"`)
		r.Header.Set(header[0], header[1])
		record(modern, r, header[0]+": "+header[1])
	}
	golden.Check(t, "testdata/answers.golden", out.String())
}
