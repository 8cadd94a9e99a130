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

// without returns all tools except some.
func without(ids ...string) []string {
	return slices.DeleteFunc(allTools(), func(id string) bool { return slices.Contains(ids, id) })
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

const noFault = `{"unknown_toolsets":[],"unknown_tools":[],"conflicts":[]}`

func opens(ids ...string) expectation { return expectation{open: ids} }

func refuses(message, data string) expectation {
	return expectation{status: http.StatusBadRequest, message: message, data: data}
}

// A selecting is one row of the table: a path and headers.
type selecting struct {
	name   string
	path   string
	header http.Header
	want   expectation
}

// A setup is the operator's offer, and the requests to it.
type setup struct {
	tools    string
	broken   []string
	requests []selecting
}

// setups returns the cases of the toolset document's table, by their numbers.
func setups() []setup {
	files := []string{"files:create_file", "files:delete_file", "files:get_file"}
	locksDelete := func(open ...string) expectation {
		return expectation{open: open, locked: []string{"files:delete_file"}}
	}
	unknown := func(name string) expectation {
		return refuses("Unknown tool: "+name+". Tools that exist: ", `{"unknown_toolsets":[],"unknown_tools":["`+name+`"],"conflicts":[]}`)
	}
	return []setup{
		{`{"toolsets": ["files"], "enabled": ["create_folder"]}`, nil, []selecting{
			{"1 toolset and tool", "", nil, opens("files:create_file", "files:delete_file", "files:get_file", "folders:create_folder")},
			{"17 a toolset that is offered in part", "", headers("X-MCP-Toolsets", "folders"), opens("folders:create_folder")},
		}},
		{`{"toolsets": ["files"], "enabled": ["create_folder"], "disabled": ["get_file"]}`, nil, []selecting{
			{"2 a disabled tool of the toolset is locked", "", nil,
				expectation{open: []string{"files:create_file", "files:delete_file", "folders:create_folder"}, locked: []string{"files:get_file"}}},
		}},
		{`{"toolsets": [], "enabled": ["create_file", "get_file", "create_folder"], "disabled": ["get_file", "delete_folder"]}`, nil, []selecting{
			{"3 tools alone", "", nil, expectation{open: []string{"files:create_file", "folders:create_folder"}, locked: []string{"files:get_file"}}},
		}},
		{`{"toolsets": ["all", "files"]}`, nil, []selecting{{"5 all and one of them", "", nil, opens(allTools()...)}}},
		{`{"toolsets": ["files"], "disabled": ["get_folder"]}`, nil, []selecting{{"10 disabled, and not offered", "", nil, opens(files...)}}},
		{`{"toolsets": ["all"], "disabled": ["delete_file"]}`, nil, []selecting{
			{"11 disabled, no headers", "", nil, locksDelete(without("files:delete_file")...)},
			{"12 disabled, its toolset asked for", "", headers("X-MCP-Toolsets", "files"), locksDelete("files:create_file", "files:get_file")},
			{"13 disabled, itself asked for", "", headers("X-MCP-Tools", "delete_file"), locksDelete()},
			{"13 unknown", "", headers("X-MCP-Tools", "nope"), unknown("nope")},
			{"16 disabled and excluded", "", headers("X-MCP-Exclude-Tools", "delete_file"), opens(without("files:delete_file")...)},
		}},
		{`{"toolsets": ["files"]}`, nil, []selecting{
			{"14 outside the bound", "", headers("X-MCP-Tools", "get_folder"), unknown("get_folder")},
			{"15 outside the bound, lenient", "", headers("X-MCP-Tools", "get_folder", "Prefer", "handling=lenient"), refuses("No tools left", noFault)},
		}},
		{`{}`, nil, []selecting{
			{"4 nothing set", "", nil, opens(allTools()...)},
			{"18 everything together", "", headers("X-MCP-Toolsets", "files", "X-MCP-Tools", "create_folder", "X-MCP-Exclude-Tools", "get_file"),
				opens("files:create_file", "files:delete_file", "folders:create_folder")},
			{"18 by the other names", "", headers("X-MCP-Toolsets", "files", "X-MCP-Enabled-Tools", "create_folder", "X-MCP-Disabled-Tools", "get_file"),
				opens("files:create_file", "files:delete_file", "folders:create_folder")},
			{"19 exclude wins", "", headers("X-MCP-Tools", "get_file", "X-MCP-Exclude-Tools", "get_file"), refuses("No tools left", noFault)},
			{"20 explicitly none", "", headers("X-MCP-Toolsets", ""), refuses("No tools left", noFault)},
			{"20 explicitly none, and a tool", "", headers("X-MCP-Toolsets", "", "X-MCP-Tools", "get_file"), opens("files:get_file")},
			{"21 white space, case, empties, duplicates", "", headers("x-mcp-toolsets", " Files , files ,,"), opens(files...)},
			{"22 several lines", "", headers("X-MCP-Exclude-Tools", "get_file", "X-MCP-Exclude-Tools", "get_folder"), opens(without("files:get_file", "folders:get_folder")...)},
			{"23 read-only", "", headers("X-MCP-Readonly", "true", "X-MCP-Tools", "delete_file, get_file"), opens("files:get_file")},
			{"23 by path", "/readonly", headers("X-MCP-Tools", "delete_file, get_file"), opens("files:get_file")},
			{"25 path and header have nothing in common", "/x/files", headers("X-MCP-Toolsets", "folders"), refuses("No tools left", noFault)},
			{"a toolset by path", "/x/Files", nil, opens(files...)},
			{"an unknown toolset by path, and more", "/x/nope", headers("X-MCP-Toolsets", "zap", "X-MCP-Tools", "y"),
				refuses("Unknown toolset: nope, zap. Toolsets that exist: all, default, files, folders. Unknown tool: y. Tools that exist: ",
					`{"unknown_toolsets":["nope","zap"],"unknown_tools":["y"],"conflicts":[]}`)},
			{"an exclude that nothing has", "", headers("X-MCP-Exclude-Tools", "nope", "Prefer", "handling=lenient"), unknown("nope")},
			{"a switch that says nothing", "", headers("X-MCP-Readonly", "maybe"), refuses("X-MCP-Readonly is", noFault)},
		}},
		{`{"read_only": true}`, nil, []selecting{{"24 read-only for all", "", headers("X-MCP-Readonly", "false"), opens("files:get_file", "folders:get_folder")}}},
		{`{}`, []string{"folders"}, []selecting{
			{"26 a server that is down for a while", "", headers("X-MCP-Toolsets", "folders"), expectation{status: http.StatusServiceUnavailable, message: "No tools left", data: noFault}},
			{"27 a tool of the server that is down", "", headers("X-MCP-Tools", "get_file, folders:x"), opens("files:get_file")},
		}},
	}
}

func TestToolsetCasesInBothErasAndModes(t *testing.T) {
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
