package mcphttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/mcphttp"
	"github.com/portcullis-mcp/portcullis/test/golden"
)

// Every method in each era, and each way in which headers and body can disagree, with the whole
// answer. The file was recorded while the official SDK's server answered, and has not changed since.
func TestAnswers(t *testing.T) {
	h := newHandler(t, &backend{instructions: "Look <behind> & \"under\" it."}, &mcphttp.Options{Name: "gate", Version: "1.2.3"})
	var out strings.Builder
	record := func(e era, r *http.Request, what string) {
		got := send(h, r)
		fmt.Fprintf(&out, "%s %s\n%d %s %s\n\n", e.name, what, got.status, got.header.Get("Content-Type"), strings.TrimSpace(got.body))
	}
	for _, e := range eras {
		for _, call := range [][2]string{
			{"initialize", `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}`}, {"initialize", ``},
			{"initialize", `"protocolVersion":"2026-07-28"`}, {"initialize", `"protocolVersion":5`}, {"initialize", `"capabilities":{"roots":[]}`},
			{"ping", ``}, {"server/discover", ``}, {"tools/list", ``}, {"tools/list", `"cursor":5`},
			{"tools/call", `"name":"echo","arguments":{"a":1.0}`}, {"tools/call", ``}, {"tools/call", `"name":5`},
			{"subscriptions/listen", `"notifications":{"toolsListChanged":true}`}, {"subscriptions/listen", ``}, {"subscriptions/listen", `"notifications":5`},
			{"prompts/list", ``}, {"notifications/initialized", ``},
		} {
			record(e, e.request(t, call[0], call[1]), call[0]+" {"+call[1]+"}")
		}
		for _, body := range []string{
			`{"jsonrpc":"2.0","id":7,"method":"initialize"}`, `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen"}`,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"notifications/x","params":{}}`,
			`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"k":` + strings.Repeat("[", 998) + strings.Repeat("]", 998) + `}}}`,
		} {
			r := post(t, body)
			r.Header.Set("Mcp-Protocol-Version", e.header.Get("Mcp-Protocol-Version"))
			record(e, r, fmt.Sprintf("%.80s", body))
			r = post(t, body)
			r.Header.Set("Mcp-Protocol-Version", e.header.Get("Mcp-Protocol-Version"))
			r.Header.Set("Mcp-Method", "tools/list")
			record(e, r, fmt.Sprintf("Mcp-Method: tools/list %.80s", body))
		}
	}
	const version, capable = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"io.modelcontextprotocol/clientCapabilities":{}`
	for _, meta := range []string{
		``, version, capable, version + "," + capable, `"io.modelcontextprotocol/protocolVersion":5,` + capable, `"io.modelcontextprotocol/protocolVersion":"2025-11-25",` + capable,
		version + `,"io.modelcontextprotocol/clientCapabilities":{"sampling":{"tools":5}}`, version + "," + capable + `,"io.modelcontextprotocol/clientInfo":{"name":5}`,
	} {
		for _, e := range []era{eras[0], legacy, modern} {
			e.meta = meta
			record(e, e.described(t), "{"+meta+"}")
		}
	}
	for _, header := range [][2]string{{"Mcp-Method", ""}, {"Mcp-Method", "ping"}, {"Mcp-Name", ""}, {"Mcp-Name", "add"}, {"Mcp-Name", "=?base64?***?="}, {"Mcp-Protocol-Version", "x"}} {
		r := modern.request(t, "tools/call", `"name":"echo"`)
		r.Header.Set(header[0], header[1])
		record(modern, r, header[0]+": "+header[1])
	}
	golden.Check(t, "testdata/answers.golden", out.String())
}
