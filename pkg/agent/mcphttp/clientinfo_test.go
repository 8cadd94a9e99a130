package mcphttp_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
)

// If a client gets an answer, the handler passes its client info to Seen: once for a handshake, and
// for each request of the stateless protocol.
func TestSeen(t *testing.T) {
	var got []mcphttp.ClientInfo
	o := laptop()
	o.Seen = func(v mcphttp.ClientInfo, s mcphttp.Session) {
		if s == nil {
			t.Error("Seen got no Session")
		}
		got = append(got, v)
	}
	h := newHandler(t, &backend{}, o)
	seen := func(name string, want ...mcphttp.ClientInfo) {
		t.Helper()
		same(t, name, want, got)
		got = nil
	}
	const agent = "anonymous"
	session := begin(t, h, "")
	seen("a handshake", mcphttp.ClientInfo{Agent: agent, Name: "t", Version: "1", Protocol: "2025-11-25"})
	send(h, in(session, legacy.request(t, "tools/list", ""))).wantResult(t)
	seen("a request without client info")
	for _, method := range []string{"server/discover", "tools/list"} {
		send(h, modern.request(t, method, "")).wantResult(t)
		seen(method, mcphttp.ClientInfo{Agent: agent, Name: "t", Version: "1", Protocol: "2026-07-28"})
	}
	send(h, modern.request(t, "prompts/list", ""))
	seen("a refused request")
	send(h, protocols[0].request(t, "initialize", `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":7}`))
	seen("unreadable client info")
	nameless := protocols[4]
	nameless.meta = strings.Replace(nameless.meta, `"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},`, "", 1)
	send(h, nameless.request(t, "server/discover", "")).wantResult(t)
	seen("a client without a name", mcphttp.ClientInfo{Agent: agent, Protocol: "2026-07-28"})
}
