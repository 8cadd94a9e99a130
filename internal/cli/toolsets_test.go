package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// allTools returns the tools of the two servers, in the order of their ids. The two servers are
// also the two toolsets. ids.
func allTools() []string {
	return []string{"files:create_file", "files:delete_file", "files:get_file", "folders:create_folder", "folders:delete_folder", "folders:get_folder"}
}

// toolsetGateway is the gateway in front of the servers files and folders.
type toolsetGateway struct {
	*program
	mode    string
	servers servers
}

// newToolsetGateway starts the servers, except the broken ones, and the gateway with the operator's
// tools.
func newToolsetGateway(t *testing.T, mode, tools string, broken ...string) *toolsetGateway {
	t.Helper()
	all := map[string][]json.RawMessage{}
	for _, kind := range []string{"file", "folder"} {
		all[kind+"s"] = []json.RawMessage{
			upstreamtest.Tool("create_"+kind, "Create a "+kind+".", ""),
			upstreamtest.Tool("get_"+kind, "Get a "+kind+".", `{"readOnlyHint":true}`),
			upstreamtest.Tool("delete_"+kind, "Delete a "+kind+".", ""),
		}
	}
	o := &toolsetGateway{mode: mode, servers: upstreamtest.Fleet(t, all, upstreamtest.Options{})}
	for _, name := range broken {
		o.servers[name].Fail(upstreamtest.Status(http.StatusServiceUnavailable, "", "Retry-After", "1"))
	}
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, o.configOf(tools))
	o.program = start(t, dir)
	return o
}

// configOf returns a config of the servers, with the operator's tools.
func (o *toolsetGateway) configOf(tools string) string {
	return o.servers.config(each(`, "approval": "off"`), fmt.Sprintf(`, "tools": %s, "gateway": {"mode": %q, "requests": false}`, tools, o.mode))
}

// An expectation is the result of a request: tools, or a refusal.
type expectation struct {
	open, locked []string
	status       int    // status of the refusal; 0: no refusal
	message      string // beginning of the refusal's message
	data         string // "": no unknown names
}

// A selecting is one row of the table: a path and headers.
type selecting struct {
	name   string
	path   string
	header http.Header
	want   expectation
}

// A setup is the operator's offer, the servers that are down, and the requests.
type setup struct {
	tools    string
	broken   []string
	requests []selecting
}

// setups returns one case for each kind of answer. Package toolset tests which tools a request
// selects.
func setups() []setup {
	offer := `{"toolsets": ["files"], "enabled": ["create_folder"], "disabled": ["get_file"]}`
	unknown := "Unknown toolset: nope, zap. Toolsets that exist: all, default, files, folders. " +
		"Unknown tool: get_folder. Tools that exist: "
	return []setup{
		{offer, nil, []selecting{
			{"the operator's offer", "", nil, expectation{
				open:   []string{"files:create_file", "files:delete_file", "folders:create_folder"},
				locked: []string{"files:get_file"},
			}},
			{"narrowed by path and headers", "/x/files",
				headers("X-MCP-Exclude-Tools", "create_file", "X-MCP-Exclude-Tools", "get_file"),
				expectation{open: []string{"files:delete_file"}}},
			{"read-only, and lenient", "/readonly",
				headers("X-MCP-Toolsets", "files, nope", "Prefer", "handling=lenient"),
				expectation{locked: []string{"files:get_file"}}},
			{"unknown, and not offered", "/x/nope",
				headers("X-MCP-Toolsets", "zap", "X-MCP-Tools", "get_folder"), expectation{
					status: http.StatusBadRequest, message: unknown,
					data: `{"unknown_toolsets":["nope","zap"],"unknown_tools":["get_folder"],` +
						`"conflicts":[]}`,
				}},
		}},
		{`{}`, []string{"folders"}, []selecting{
			{"a server that is down", "", headers("X-MCP-Toolsets", "folders"), expectation{
				status: http.StatusServiceUnavailable, message: "No tools left",
				data: `{"unknown_toolsets":[],"unknown_tools":[],"conflicts":[]}`,
			}},
		}},
	}
}

func TestToolsets(t *testing.T) {
	for _, s := range setups() {
		for _, mode := range []string{"search", "direct"} {
			o := newToolsetGateway(t, mode, s.tools, s.broken...)
			for _, r := range s.requests {
				t.Run(mode+"/"+r.name, func(t *testing.T) {
					inEachProtocol(t, func(t *testing.T, e protocol) { o.check(t, e, r) })
				})
			}
		}
	}
}

// check compares every answer with one request's selection.
func (o *toolsetGateway) check(t *testing.T, e protocol, r selecting) {
	c := &mcpClient{program: o.with(t), protocol: e, path: r.path, header: r.header}
	if r.want.status != 0 {
		checkRefused(t, c, r.want)
		return
	}
	if a := c.open(); a.Error != nil || a.Status != http.StatusOK {
		t.Fatalf("%s is refused: %s", e.opening, a.Body)
	}
	if o.mode == "search" {
		checkSearch(t, c, r.want)
		o.checkServers(t, c, r.want)
	} else if diff := cmp.Diff(names(r.want.open), c.listed()); diff != "" {
		t.Errorf("tools/list (-want +got):\n%s", diff)
	}
	o.checkCalls(t, c, r.want)
}

// names returns the ids' names in direct mode.
func names(ids []string) []string {
	out := []string{}
	for _, id := range ids {
		out = append(out, direct(id))
	}
	return out
}

func checkRefused(t *testing.T, c *mcpClient, want expectation) {
	t.Helper()
	for what, a := range map[string]answer{c.protocol.opening: c.open(), "tools/list": c.send("tools/list", map[string]any{}),
		"tools/call": c.send("tools/call", map[string]any{"name": "retrieve_tools", "arguments": map[string]any{"query": "file"}})} {
		if a.Status != want.status || a.Error == nil || a.Error.Code != -32602 || !strings.HasPrefix(a.Error.Message, want.message) || string(a.Error.Data) != want.data {
			t.Errorf("%s answers %d %s, want %d, %q and %s", what, a.Status, a.Body, want.status, want.message, want.data)
		}
		if retry := a.Header.Get("Retry-After"); (retry != "" && retry != "0") != (want.status == http.StatusServiceUnavailable) {
			t.Errorf("%s: status %d with Retry-After %q", what, a.Status, retry)
		}
	}
}

// checkSearch checks the gateway's own tools.
func checkSearch(t *testing.T, c *mcpClient, want expectation) {
	t.Helper()
	var found struct {
		Tools, Disabled []struct{ Name, Status string }
		Total           int
	}
	c.gets("retrieve_tools", map[string]any{"query": "create get delete file folder", "limit": 50, "include_disabled": true}, &found)
	var open, locked []string
	for _, x := range found.Tools {
		open = append(open, x.Name)
	}
	for _, x := range found.Disabled {
		locked = append(locked, x.Name)
		if x.Status != "disabled_by_config" {
			t.Errorf("%s is %s", x.Name, x.Status)
		}
	}
	slices.Sort(open)
	if !slices.Equal(open, want.open) || !slices.Equal(locked, want.locked) || found.Total != len(want.open) {
		t.Errorf("search finds %v and locked %v, %d in all; want %v and %v", open, locked, found.Total, want.open, want.locked)
	}

	var described struct {
		Tools []struct {
			Name, Status string
			Definition   json.RawMessage
		}
		NotFound []string `json:"not_found"`
	}
	c.gets("describe_tools", map[string]any{"names": allTools()}, &described)
	open, locked = nil, nil
	for _, x := range described.Tools {
		switch {
		case x.Status == "" && x.Definition != nil:
			open = append(open, x.Name)
		case x.Status == "disabled_by_config" && x.Definition == nil:
			locked = append(locked, x.Name)
		}
	}
	if !slices.Equal(open, want.open) || !slices.Equal(locked, want.locked) || len(open)+len(locked)+len(described.NotFound) != 6 {
		t.Errorf("describe has %+v, want %v and locked %v", described, want.open, want.locked)
	}

}

// checkServers checks the list of servers against the selection. The list has an unreachable server
// if it may have selected tools.
func (o *toolsetGateway) checkServers(t *testing.T, c *mcpClient, want expectation) {
	t.Helper()
	var list struct {
		Servers []struct {
			Name, Status string
			Tools        map[string]int
		}
	}
	c.gets("upstream_servers", map[string]any{}, &list)
	counts := map[string]int{}
	for _, s := range list.Servers {
		if shown := slices.ContainsFunc(slices.Concat(want.open, want.locked), func(id string) bool { return strings.HasPrefix(id, s.Name+":") }); !shown && s.Status == "available" {
			t.Errorf("server %s is listed, but none of its tools is", s.Name)
		}
		for status, n := range s.Tools {
			counts[status] += n
		}
	}
	if counts["disabled_by_config"] != len(want.locked) {
		t.Errorf("the counts are %v, want %d locked", counts, len(want.locked))
	}
}

// checkCalls calls each tool. A call of a callable tool reaches its server, and a call of a locked
// tool returns the reason. A call of a tool outside the selection answers like a call of an unknown
// tool.
func (o *toolsetGateway) checkCalls(t *testing.T, c *mcpClient, want expectation) {
	t.Helper()
	call := func(id string) (answer, string, bool) {
		if o.mode == "direct" {
			return c.tool(direct(id), map[string]any{})
		}
		return c.tool("call_tool_destructive", map[string]any{"name": id})
	}
	unknown, _, _ := call("files:no_such_tool")
	for _, id := range allTools() {
		server, name, _ := strings.Cut(id, ":")
		o.servers[server].ForgetRequests()
		a, text, isError := call(id)
		open, locked := slices.Contains(want.open, id), slices.Contains(want.locked, id)
		switch {
		case open && (isError || text != name):
			t.Errorf("%s is callable, but answers %s", id, a.Body)
		case locked && (!isError || !strings.Contains(text, "disabled_by_config")):
			t.Errorf("%s is locked, but answers %s", id, a.Body)
		case !open && !locked:
			like := strings.NewReplacer("files:no_such_tool", id, "files__no_such_tool", direct(id)).Replace(unknown.Body)
			if a.Status != unknown.Status || a.Body != like {
				t.Errorf("%s is outside the selection, but answers %d %s, want %d %s", id, a.Status, a.Body, unknown.Status, like)
			}
		}
		calls := o.servers[server].Calls()
		if len(calls) == 1 != open || len(calls) > 1 {
			t.Errorf("%s reached its server %d times; callable: %v", id, len(calls), open)
		}
		for _, r := range calls {
			for header := range r.Header {
				if strings.HasPrefix(header, "X-Mcp-") || header == "Prefer" {
					t.Errorf("%s reached its server with %s", id, header)
				}
			}
		}
	}
}
