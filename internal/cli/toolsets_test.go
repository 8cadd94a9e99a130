package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// startTwoServers runs the gateway in front of the servers files and folders, with the operator's
// tools.
func startTwoServers(t *testing.T, mode, tools string) *program {
	t.Helper()
	all := map[string][]json.RawMessage{}
	for _, kind := range []string{"file", "folder"} {
		all[kind+"s"] = []json.RawMessage{
			upstreamtest.Tool("create_"+kind, "Create a "+kind+".", ""),
			upstreamtest.Tool("get_"+kind, "Get a "+kind+".", `{"readOnlyHint":true}`),
			upstreamtest.Tool("delete_"+kind, "Delete a "+kind+".", ""),
		}
	}
	rest := fmt.Sprintf(`, "tools": %s, "gateway": {"mode": %q, "requests": false}`, tools, mode)
	dir := t.TempDir()
	fleet := servers(upstreamtest.Fleet(t, all, upstreamtest.Options{}))
	programtest.WriteConfig(t, dir, fleet.config(each(`, "approval": "off"`), rest))
	return start(t, dir)
}

// The path and the headers of a request narrow the operator's offer. Package toolset tests which
// tools a request selects.
func TestToolsets(t *testing.T) {
	const offer = `{"toolsets": ["files"], "enabled": ["create_folder"], "disabled": ["get_file"]}`
	for mode, unknown := range map[string]string{"search": "was not found", "direct": "Unknown tool"} {
		p := startTwoServers(t, mode, offer)
		inEachProtocol(t, func(t *testing.T, e protocol) {
			c := &mcpClient{
				program: p.with(t), protocol: e, path: "/x/files",
				header: http.Header{"X-Mcp-Exclude-Tools": {"create_file"}},
			}
			if a := c.open(); a.Error != nil || a.Status != http.StatusOK {
				t.Fatalf("%s is refused: %s", e.opening, a.Body)
			}
			if mode == "direct" {
				if got := c.listed(); !slices.Equal(got, []string{"files__delete_file"}) {
					t.Errorf("tools/list has %v", got)
				}
			} else {
				var found struct{ Tools []struct{ Name string } }
				c.gets("retrieve_tools", map[string]any{"query": "file folder"}, &found)
				if len(found.Tools) != 1 || found.Tools[0].Name != "files:delete_file" {
					t.Errorf("a search finds %v", found.Tools)
				}
			}
			for name, want := range map[string]string{
				"files:delete_file": "delete_file", "files:get_file": "disabled_by_config",
				"files:create_file": unknown, "folders:create_folder": unknown,
			} {
				tool, args := "call_tool_destructive", map[string]any{"name": name}
				if mode == "direct" {
					tool, args = strings.Replace(name, ":", "__", 1), map[string]any{}
				}
				if a, _, _ := c.tool(tool, args); !strings.Contains(a.Body, want) {
					t.Errorf("%s, %s answers %s, want %s", mode, name, a.Body, want)
				}
			}
			c.path = "/x/nope"
			const data = `{"unknown_toolsets":["nope"],"unknown_tools":[],"conflicts":[]}`
			if a := c.open(); a.Status != http.StatusBadRequest || string(a.Error.Data) != data {
				t.Errorf("an unknown toolset: %d %s", a.Status, a.Body)
			}
		})
	}
}
