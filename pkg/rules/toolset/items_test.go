package toolset_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// allKinds has two servers with everything, and one that did not load.
func allKinds(t *testing.T) toolset.Universe {
	t.Helper()
	u := toolset.Universe{Servers: []toolset.Server{{Name: "fs", Loaded: true}, {Name: "git", Loaded: true}, {Name: "away", Transient: true}}}
	for _, s := range []string{
		"fs:read", "fs:write", "git:log",
		"fs:prompt:read", "fs:prompt:review_code", "fs:resource:file:///a", "fs:resource:file:///{+path}", "git:prompt:blame", "git:resource:repo://x/a",
	} {
		id, err := tool.ParseID(s)
		require.OK(t, err)
		u.Tools = append(u.Tools, toolset.Tool{ID: id, ReadOnly: id.Kind != tool.Tool || id.Name == "read"})
	}
	return u
}

// kinds returns the items that a selection offers, by kind: "tools | prompts | resources".
func kinds(u toolset.Universe, s toolset.Selection) string {
	var parts []string
	for _, set := range []tool.Set{s.Tools, s.Prompts, s.Resources} {
		var ids []string
		for i := range set.All() {
			ids = append(ids, u.Tools[i].ID.String())
		}
		parts = append(parts, strings.Join(ids, " "))
	}
	return strings.Join(parts, " | ")
}

func TestSelectItems(t *testing.T) {
	const fsAll = "fs:read fs:write | fs:prompt:read fs:prompt:review_code | fs:resource:file:///a fs:resource:file:///{+path}"
	every := "fs:read fs:write git:log | fs:prompt:read fs:prompt:review_code git:prompt:blame | fs:resource:file:///a fs:resource:file:///{+path} git:resource:repo://x/a"
	for _, tt := range []struct {
		name, tools, path string
		header            http.Header
		want              string
	}{
		{"everything", `{}`, "", nil, every},
		{"a server's toolset", `{}`, "/x/fs", nil, fsAll},
		{"a server that is offered", `{"toolsets": ["fs"]}`, "", nil, fsAll},
		{"server:* is its tools", `{"toolsets": ["starred"]}`, "", nil, "fs:read fs:write |  | "},
		{"prompts by a glob", `{"toolsets": ["prompts"]}`, "", nil, " | fs:prompt:read fs:prompt:review_code git:prompt:blame | "},
		{"by their beginning", `{"toolsets": ["reviews"]}`, "", nil, " | fs:prompt:review_code | "},
		{"one resource", `{"toolsets": ["one"]}`, "", nil, " |  | fs:resource:file:///a"},
		{"one template", `{"toolsets": ["template"]}`, "", nil, " |  | fs:resource:file:///{+path}"},
		{"resources by a glob, a tool beside", `{"toolsets": ["mixed"]}`, "", nil, "git:log |  | fs:resource:file:///a fs:resource:file:///{+path}"},
		{"enabled besides", `{"toolsets": ["one"], "enabled": ["git:prompt:*", "fs:read"]}`, "", nil, "fs:read | git:prompt:blame | fs:resource:file:///a"},
		{"a bare name is a tool's", `{"toolsets": [], "enabled": ["read"]}`, "", nil, "fs:read |  | "},
		{"read-only", `{"read_only": true}`, "", nil, strings.Replace(every, "fs:write git:log ", "", 1)},
		{"read-only by the path", `{}`, "/readonly", nil, strings.Replace(every, "fs:write git:log ", "", 1)},
		{"tools by header are all", `{}`, "", http.Header{"X-Mcp-Tools": {"fs:read"}}, "fs:read |  | "},
		{"prompts by header", `{}`, "", http.Header{"X-Mcp-Tools": {"fs:read, fs:prompt:review_code,fs:resource:file:///a"}}, "fs:read | fs:prompt:review_code | fs:resource:file:///a"},
		{"excluded", `{}`, "/x/fs", http.Header{"X-Mcp-Exclude-Tools": {"read,fs:prompt:read"}}, strings.NewReplacer("fs:read ", "", "fs:prompt:read ", "").Replace(fsAll)},
		{"disabled ones are offered", `{"disabled": ["fs:prompt:*", "fs:*"]}`, "/x/fs", nil, fsAll},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := config.Parse([]byte(`{"mcpServers": {"fs": {"url": "https://fs.example"}, "git": {"url": "https://git.example"}, "away": {"url": "https://away.example"}},
				"toolsets": {"starred": ["fs:*"], "prompts": ["fs:prompt:*", "git:prompt:*"], "reviews": ["fs:prompt:review_*"], "one": ["fs:resource:file:///a"],
					"template": ["fs:resource:file:///{+path}"], "mixed": ["git:log", "fs:resource:file:///*"]},
				"tools": ` + tt.tools + `}`))
			require.OK(t, err)
			u := allKinds(t)
			b := toolset.Compile(cfg, u)
			if w := b.Warnings(); w != nil {
				t.Errorf("warnings %v", w)
			}
			req, err := toolset.ParseRequest(tt.path, tt.header)
			require.OK(t, err)
			sel, err := b.Select(req, identity.Agent{Servers: []string{"*"}})
			require.OK(t, err)
			if diff := cmp.Diff(tt.want, kinds(u, sel)); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
			if strings.Contains(tt.want, "fs:") != sel.HasServer("fs") {
				t.Errorf("HasServer(fs) = %v", sel.HasServer("fs"))
			}
		})
	}
}

func TestSelectItemsScope(t *testing.T) {
	cfg, err := config.Parse([]byte(`{"mcpServers": {"fs": {"url": "https://fs.example"}, "git": {"url": "https://git.example"}}, "toolsets": {"p": ["git:prompt:blame"]}}`))
	require.OK(t, err)
	u := allKinds(t)
	u.Servers = u.Servers[:2]
	b := toolset.Compile(cfg, u)
	select1 := func(path string, h http.Header, agent identity.Agent) (toolset.Selection, error) {
		req, err := toolset.ParseRequest(path, h)
		require.OK(t, err)
		return b.Select(req, agent)
	}
	sel, err := select1("", nil, identity.Agent{Servers: []string{"git"}})
	if got := kinds(u, sel); err != nil || got != "git:log | git:prompt:blame | git:resource:repo://x/a" {
		t.Errorf("a scope of one server offers %s, %v", got, err)
	}
	sel, err = select1("", nil, identity.Agent{Servers: []string{"*"}, Toolsets: []string{"p"}})
	if got := kinds(u, sel); err != nil || got != " | git:prompt:blame | " {
		t.Errorf("an agent's toolset offers %s, %v", got, err)
	}
	for _, h := range []string{"fs:prompt:read", "fs:resource:file:///a", "git:prompt:none", "git:resource:a b"} {
		if _, err := select1("", http.Header{"X-Mcp-Tools": {h}}, identity.Agent{Servers: []string{"git"}}); err == nil || !strings.HasPrefix(err.Error(), "Unknown tool: "+h) || strings.Contains(err.Error(), "file:///{") {
			t.Errorf("%s: %v", h, err)
		}
	}
	if got := sel.ServerToolsets("git"); !slices.Equal(got, []string{"git", "p"}) {
		t.Errorf("toolsets of git: %v", got)
	}
}

func TestItemWarnings(t *testing.T) {
	cfg, err := config.Parse([]byte(`{"mcpServers": {"fs": {"url": "https://fs.example"}, "git": {"url": "https://git.example"}, "away": {"url": "https://away.example"}},
		"toolsets": {"t": ["fs:prompt:gone", "git:resource:*", "away:prompt:x", "fs:prompt:zz*"]},
		"tools": {"enabled": ["fs:resource:file:///gone"], "disabled": ["git:prompt:*", "git:prompt:a*", "fs:prompt:gone", "away:resource:x*"]}}`))
	require.OK(t, err)
	var got []string
	for _, w := range toolset.Compile(cfg, allKinds(t)).Warnings() {
		got = append(got, w.Path+": "+w.Message)
	}
	want := []string{
		"toolsets.t[0]: Unknown prompt: fs:prompt:gone", "toolsets.t[3]: Unknown prompt: fs:prompt:zz*",
		"tools.enabled[0]: Unknown enabled resource: fs:resource:file:///gone",
		"tools.disabled[1]: Unknown disabled prompt: git:prompt:a*", "tools.disabled[2]: Unknown disabled prompt: fs:prompt:gone",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
