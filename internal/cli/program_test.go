package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// ping returns a server with one tool, and a config that names it with more keys.
func ping(t *testing.T) (server *upstreamtest.Server, config func(more string) string) {
	t.Helper()
	s := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("ping", "Answer a ping.", `{"readOnlyHint":true}`)}})
	return s, func(more string) string {
		return fmt.Sprintf(`{"mcpServers": {"s": {"url": %q, "approval": "off"%s}}}`, s.URL, more)
	}
}

func TestEditedConfig(t *testing.T) {
	_, config := ping(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, config(""))
	p := start(t, dir)
	call := func() agenttest.Result { return p.Call("call_tool_read", map[string]any{"name": "s:ping"}) }
	if got := call(); got.IsError {
		t.Fatalf("the callable tool answers %s", got.Raw)
	}
	programtest.WriteConfig(t, dir, config(`, "disabled_tools": ["ping"]`))
	local.Until(t, "the edited config locks the tool", func() bool { return strings.Contains(call().Text, "disabled_by_config") })
}

func TestBadConfig(t *testing.T) {
	_, config := ping(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, config(`, "disabled_tools": ["ping"]`))
	p := start(t, dir)
	programtest.WriteConfig(t, dir, `{"mcpServers": {"s": {"url": "nonsense"}}}`)
	local.Until(t, "the health says that the config is refused", func() bool {
		h := p.health()
		return h.Status == "degraded" && len(h.Reasons) == 1 && h.Reasons[0].Code == "config_refused"
	})
	if got := p.Call("call_tool_read", map[string]any{"name": "s:ping"}); !strings.Contains(got.Text, "disabled_by_config") {
		t.Errorf("the last good config no longer locks the tool: %s", got.Raw)
	}
	require.OK(t, p.stop())
	again := start(t, dir)
	if got := again.Call("call_tool_read", map[string]any{"name": "s:ping"}); !strings.Contains(got.Text, "disabled_by_config") {
		t.Errorf("after a restart with the bad file, the last good config no longer locks the "+
			"tool: %s", got.Raw)
	}
}

func TestWithoutConfig(t *testing.T) {
	p := start(t, t.TempDir())
	p.Ask(http.StatusServiceUnavailable, "/healthz", nil, nil)
	for tool, args := range map[string]any{"retrieve_tools": map[string]any{"query": "x"}, "call_tool_read": map[string]any{"name": "s:ping"}} {
		if got := p.Call(tool, args); !got.IsError || !strings.Contains(got.Text, "config") {
			t.Errorf("%s answers %s", tool, got.Raw)
		}
	}
}

// An upstream server is down when the gateway starts, and works again later.
func TestServerThatComesBack(t *testing.T) {
	server, config := ping(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, config(""))
	first := start(t, dir)
	require.OK(t, first.stop())
	server.Refuse()
	p := start(t, dir)
	got := p.Call("retrieve_tools", map[string]any{"query": "ping"})
	if !strings.Contains(got.Text, "s:ping") {
		t.Errorf("the search does not use the stored catalog: %s", got.Text)
	}
	got = p.Call("call_tool_read", map[string]any{"name": "s:ping"})
	if !got.IsError || !strings.Contains(got.Text, "MCP server 's' is unavailable and needs attention") {
		t.Errorf("a call of a dead server answers %s", got.Raw)
	}
	require.OK(t, server.Return())
	// The circuit breaker refuses calls to a server that refused connections, for a minute or until
	// a sync succeeds.
	p.Ask(http.StatusOK, "/admin/sync", `{}`, nil)
	if got := p.Call("call_tool_read", map[string]any{"name": "s:ping"}); got.IsError {
		t.Errorf("a call of the server that works again fails: %s", got.Raw)
	}
}
