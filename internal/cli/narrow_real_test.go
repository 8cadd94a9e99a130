package cli

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/testclients"
)

// readers matches the tools that the operator declares read-only.
var readers = regexp.MustCompile(`:(get|read|list|search|git_(log|status|diff))`)

const realSettings = `, "approval": "off", "annotations": {"get*": {"readOnlyHint": true}, "read*": {"readOnlyHint": true}, "list*": {"readOnlyHint": true},
	"search*": {"readOnlyHint": true}, "git_log*": {"readOnlyHint": true}, "git_status*": {"readOnlyHint": true}, "git_diff*": {"readOnlyHint": true}}`

const realRest = `, "toolsets": {"research": ["arxiv-mcp-server:*", "mcp-simple-arxiv:*", "wikipedia:*"]}, "gateway": {"mode": "MODE", "requests": false}`

// inMode sets the mode of the gateway's answers.
func (w *realTools) inMode(mode string) {
	w.configure(w.servers.config(each(realSettings), strings.Replace(realRest, "MODE", mode, 1)))
}

// A walk is one way to narrow the 527 tools.
type walk struct {
	name, path string
	header     map[string]string
	size       int
	in         func(id, server string) bool // the remaining tools
}

func walks() []walk {
	three := func(id, server string) bool {
		return slices.Contains([]string{"filesystem", "git", "arxiv-mcp-server"}, server)
	}
	const servers = "filesystem, GIT ,arxiv-mcp-server"
	return []walk{
		{"three servers", "", map[string]string{"X-MCP-Toolsets": servers}, 29, three},
		{"three servers, read-only", "", map[string]string{"X-MCP-Toolsets": servers, "X-MCP-Readonly": "yes"}, 15,
			func(id, server string) bool { return three(id, server) && readers.MatchString(id) }},
		{"three servers without some", "", map[string]string{"X-MCP-Toolsets": servers, "X-MCP-Exclude-Tools": "write_file, git:git_reset,weather:get_weather"}, 27,
			func(id, server string) bool {
				return three(id, server) && id != "filesystem:write_file" && id != "git:git_reset"
			}},
		{"a toolset by path", "/x/research", nil, 17,
			func(_, server string) bool {
				return slices.Contains([]string{"arxiv-mcp-server", "mcp-simple-arxiv", "wikipedia"}, server)
			}},
		{"a toolset by path, and one tool", "/x/research", map[string]string{"X-MCP-Tools": "wikipedia:get_summary,arxiv-mcp-server:read_paper"}, 2,
			func(id, _ string) bool { return id == "wikipedia:get_summary" || id == "arxiv-mcp-server:read_paper" }},
		{"read-only by path", "/readonly", nil, 0, func(id, _ string) bool { return readers.MatchString(id) }},
	}
}

// left returns the remaining ids and servers of a walk, in order.
func (w *realTools) left(t *testing.T, x walk) (ids, servers []string) {
	t.Helper()
	for _, s := range w.tools() {
		if x.in(s.ID, s.Server) {
			ids = append(ids, s.ID)
			servers = append(servers, s.Server)
		}
	}
	if len(ids) == 0 || x.size > 0 && len(ids) != x.size {
		t.Fatalf("the catalog has %d tools for %s, want %d: %v", len(ids), x.name, x.size, ids)
	}
	slices.Sort(ids)
	slices.Sort(servers)
	return ids, slices.Compact(servers)
}

func namesIn(t *testing.T, list json.RawMessage) []string {
	t.Helper()
	r := require.JSON[struct{ Tools []struct{ Name string } }](t, list)
	var out []string
	for _, x := range r.Tools {
		out = append(out, x.Name)
	}
	slices.Sort(out)
	return out
}

// The official clients narrow 527 tools of 70 live servers by path and headers.
func TestTypeScriptClientsNarrowRealTools(t *testing.T) {
	w := newReal(t, realSettings)
	for _, mode := range []string{"direct", "search"} {
		w.inMode(mode)
		for _, client := range []string{testclients.SDK, testclients.Auto} {
			for _, x := range walks() {
				t.Run(mode+"/"+client+"/"+x.name, func(t *testing.T) {
					ids, servers := w.left(t, x)
					outside := "weather:get_weather"
					if slices.Contains(ids, outside) {
						outside = "filesystem:write_file"
					}
					if mode == "direct" {
						got := testclients.TypeScript(t, client, w.URL+"/mcp"+x.path, x.header,
							testclients.Step{Method: "tools/list"}, callOf(direct(ids[0]), `{}`), callOf(direct(outside), `{}`))
						if diff := cmp.Diff(names(ids), namesIn(t, got.Answers[0].Result)); diff != "" {
							t.Errorf("tools/list (-want +got):\n%s", diff)
						}
						if got.Answers[1].Error != nil {
							t.Errorf("%s is not called: %+v", ids[0], got.Answers[1].Error)
						}
						if e := got.Answers[2].Error; e == nil || !strings.Contains(e.Message, "Unknown tool") {
							t.Errorf("%s answers %+v", outside, got.Answers[2])
						}
						return
					}
					w.searches(t, client, x, ids, servers, outside)
				})
			}
		}
	}
}

// searches checks the answers of the gateway's own tools for a walk.
func (w *realTools) searches(t *testing.T, client string, x walk, ids, servers []string, outside string) {
	t.Helper()
	described, err := json.Marshal(map[string]any{"names": []string{ids[0], outside}})
	require.OK(t, err)
	steps := []testclients.Step{
		callOf("upstream_servers", `{}`), callOf("describe_tools", string(described)),
		callOf("call_tool_destructive", `{"name":"`+ids[0]+`"}`), callOf("call_tool_destructive", `{"name":"`+outside+`"}`),
	}
	for _, q := range benchQueries {
		args, err := json.Marshal(map[string]any{"query": q, "limit": 50, "include_disabled": true})
		require.OK(t, err)
		steps = append(steps, callOf("retrieve_tools", string(args)))
	}
	got := testclients.TypeScript(t, client, w.URL+"/mcp"+x.path, x.header, steps...)
	list := require.JSON[struct {
		Servers []struct{ Name string }
		Total   int
	}](t, textOf(t, got.Answers[0].Result))
	var shown []string
	for _, s := range list.Servers {
		shown = append(shown, s.Name)
	}
	if page := servers[:min(50, len(servers))]; !slices.Equal(shown, page) || list.Total != len(servers) {
		t.Errorf("servers %v of %d, want %v of %d", shown, list.Total, page, len(servers))
	}
	if d := textOf(t, got.Answers[1].Result); !strings.Contains(d, `"definition"`) || !strings.Contains(d, `"not_found":["`+outside+`"]`) {
		t.Errorf("describe answers %s", d)
	}
	if called := string(got.Answers[2].Result); strings.Contains(called, `"isError":true`) {
		t.Errorf("%s answers %s", ids[0], called)
	}
	if called := string(got.Answers[3].Result); !strings.Contains(called, "was not found") {
		t.Errorf("%s answers %s", outside, called)
	}
	found := 0
	for n, a := range got.Answers[4:] {
		for _, name := range namesIn(t, json.RawMessage(textOf(t, a.Result))) {
			found++
			if _, ok := slices.BinarySearch(ids, name); !ok {
				t.Errorf("%q finds %s, which is outside the selection", benchQueries[n], name)
			}
		}
	}
	if found == 0 {
		t.Error("nothing is found by any query")
	}
}

// The Inspector sends the headers of its flags, and shows the answer to a wrong one.
func TestInspectorNarrowsRealTools(t *testing.T) {
	w := newReal(t, realSettings)
	w.inMode("direct")
	for _, protocol := range []string{"legacy", "auto"} {
		for _, x := range walks() {
			t.Run(protocol+"/"+x.name, func(t *testing.T) {
				ids, _ := w.left(t, x)
				args := []string{"--method", "tools/list"}
				for name, value := range x.header {
					args = append(args, "--header", name+": "+value)
				}
				out, err := testclients.Inspector(t, w.URL+"/mcp"+x.path, protocol, args...)
				require.OK(t, err)
				if diff := cmp.Diff(names(ids), namesIn(t, out)); diff != "" {
					t.Errorf("tools/list (-want +got):\n%s", diff)
				}
			})
		}
		out, err := testclients.Inspector(t, w.URL+"/mcp", protocol, "--method", "tools/list", "--header", "X-MCP-Toolsets: git, gti")
		if err == nil || !strings.Contains(err.Error()+string(out), "Unknown toolset: gti") {
			t.Errorf("%s: the answer to an unknown toolset is %s, %v", protocol, out, err)
		}
	}
	w.inMode("search")
	out, err := testclients.Inspector(t, w.URL+"/mcp", "auto", "--method", "tools/call", "--tool-name", "retrieve_tools",
		"--tool-args-json", `{"query":"commit history","limit":50}`, "--header", "X-MCP-Toolsets: git", "--header", "X-MCP-Exclude-Tools: git_reset")
	require.OK(t, err)
	found := namesIn(t, json.RawMessage(textOf(t, out)))
	if len(found) == 0 || slices.ContainsFunc(found, func(name string) bool { return !strings.HasPrefix(name, "git:") || name == "git:git_reset" }) {
		t.Errorf("the Inspector finds %v, want only tools of git", found)
	}
}

// The test does the same without Node.
func TestRealToolsNarrowAlikeInBothEras(t *testing.T) {
	w := newReal(t, realSettings)
	w.inMode("direct")
	for _, x := range walks() {
		h := http.Header{}
		for name, value := range x.header {
			h.Set(name, value)
		}
		ids, _ := w.left(t, x)
		inEachProtocol(t, func(t *testing.T, e protocol) {
			c := &mcpClient{program: w.program, protocol: e, path: x.path, header: h}
			got := c.listed()
			slices.Sort(got)
			if diff := cmp.Diff(names(ids), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", x.name, diff)
			}
		})
	}
}
