package cli

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The program stops at once, even if clients have open streams.
func TestStopWithStreams(t *testing.T) {
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, `{"mcpServers":{}}`)
	p := start(t, dir)
	c := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, nil)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		s, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: p.URL + "/mcp"}, &sdk.ClientSessionOptions{ProtocolVersion: version})
		require.OK(t, err)
		defer s.Close()
	}
	listen, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	require.OK(t, err)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
	} {
		listen.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(listen)
	require.OK(t, err)
	defer res.Body.Close()
	events := bufio.NewScanner(res.Body)
	events.Scan()
	require.OK(t, p.stop())
	if log := p.log.String(); strings.Contains(log, "requests are cut short") {
		t.Errorf("the program waited for streams: %s", log)
	}
	var last string
	for events.Scan() {
		if events.Text() != "" {
			last = events.Text()
		}
	}
	if !strings.Contains(last, `"result"`) {
		t.Errorf("the stream ends with %q", last)
	}
}
