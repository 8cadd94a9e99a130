package toolset_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
)

// A layout defines the toolsets "files" and "folders", either as two servers or as named groups of
// other servers' tools. Each toolset has three tools.
type layout struct {
	name           string
	files, folders string // servers
	toolsets       map[string][]string
}

func layouts() []layout {
	return []layout{
		{"each a server", "files", "folders", nil},
		{"groups over two servers", "f", "d", map[string][]string{
			"files": {"f:create_file", "f:get_file", "f:delete_file"}, "folders": {"d:*"},
		}},
	}
}

func (l layout) tools(kind, server string) []toolset.Tool {
	var tools []toolset.Tool
	for _, verb := range []string{"create", "get", "delete"} {
		tools = append(tools, toolset.Tool{ID: tool.ID{Server: server, Name: verb + "_" + kind}, ReadOnly: verb == "get"})
	}
	return tools
}

// universe returns the six tools; with down, folders did not load.
func (l layout) universe(down bool) toolset.Universe {
	u := toolset.Universe{
		Tools: l.tools("file", l.files),
		Servers: []toolset.Server{
			{Name: l.files, Loaded: true},
			{Name: l.folders, Loaded: !down, Transient: down, RetryAfter: 7 * time.Second},
		},
	}
	if !down {
		u.Tools = append(u.Tools, l.tools("folder", l.folders)...)
	}
	return u
}

// A global is the operator's settings; nil toolsets are the default.
type global struct {
	toolsets, enabled, disabled []string
	readOnly                    bool
}

func (g global) config(sets map[string][]string) *config.Config {
	cfg := &config.Config{Toolsets: sets, Tools: config.Tools{
		Toolsets: g.toolsets, Enabled: g.enabled, Disabled: g.disabled, ReadOnly: g.readOnly,
	}}
	if g.toolsets == nil {
		cfg.Tools.Toolsets = []string{"all"}
	}
	return cfg
}

// headers are name, value, name, value …
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

const (
	toolsets = "X-MCP-Toolsets"
	tools    = "X-MCP-Tools"
	exclude  = "X-MCP-Exclude-Tools"
	readOnly = "X-MCP-Readonly"
	prefer   = "Prefer"
	lenient  = "handling=lenient"
)

// everyone returns an agent that may see every server.
func everyone() identity.Agent { return identity.Agent{ID: "a", Servers: []string{"*"}} }

// An answer is the expected result of a case: an error, or the offered tools by bare name. Locked
// has the offered tools that the operator disabled.
type answer struct {
	Callable, Locked []string
	Ignored          []string
	Status           int
	Message          string // its beginning
}

func callable(names ...string) answer { return answer{Callable: names} }

func refused(message string) answer { return answer{Status: http.StatusBadRequest, Message: message} }

// choose parses and resolves one request.
func choose(t testing.TB, b *toolset.Bound, a identity.Agent, path string, h http.Header) (toolset.Selection, *toolset.Error) {
	t.Helper()
	req, err := toolset.ParseRequest(path, h)
	var sel toolset.Selection
	if err == nil {
		sel, err = b.Select(req, a)
	}
	if err == nil {
		return sel, nil
	}
	e, ok := errors.AsType[*toolset.Error](err)
	if !ok {
		t.Fatalf("the error is a %T", err)
	}
	if (e.Status == http.StatusServiceUnavailable) != (e.RetryAfter > 0) {
		t.Errorf("status %d with RetryAfter %v", e.Status, e.RetryAfter)
	}
	return sel, e
}

// ask runs one request.
func ask(t *testing.T, b *toolset.Bound, u toolset.Universe, disabled []string, agent identity.Agent, path string, h http.Header) answer {
	t.Helper()
	sel, e := choose(t, b, agent, path, h)
	if e != nil {
		return answer{Status: e.Status, Message: e.Message}
	}
	got := answer{Ignored: sel.Ignored}
	for i := range sel.Tools.All() {
		if name := u.Tools[i].ID.Name; slices.Contains(disabled, name) {
			got.Locked = append(got.Locked, name)
		} else {
			got.Callable = append(got.Callable, name)
		}
	}
	return got
}

func check(t *testing.T, got, want answer) {
	t.Helper()
	if want.Message != "" && strings.HasPrefix(got.Message, want.Message) {
		got.Message = want.Message
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func six() []string {
	return []string{"create_file", "get_file", "delete_file", "create_folder", "get_folder", "delete_folder"}
}

func files() []string { return []string{"create_file", "get_file", "delete_file"} }

// The numbers refer to the table of cases in the document about toolsets.
func TestSelectCases(t *testing.T) {
	deleteFile := global{toolsets: []string{"all"}, disabled: []string{"delete_file"}}
	onlyFiles := global{toolsets: []string{"files"}}
	for _, tc := range []struct {
		name   string
		global global
		down   bool
		path   string
		header http.Header
		want   answer
	}{
		{"1 toolset and tool", global{toolsets: []string{"files"}, enabled: []string{"create_folder"}}, false, "", nil, callable(append(files(), "create_folder")...)},
		{"2 a disabled tool of the toolset is locked", global{toolsets: []string{"files"}, enabled: []string{"create_folder"}, disabled: []string{"get_file"}}, false, "", nil,
			answer{Callable: []string{"create_file", "delete_file", "create_folder"}, Locked: []string{"get_file"}}},
		{"3 tools alone", global{toolsets: []string{}, enabled: []string{"create_file", "get_file", "create_folder"}, disabled: []string{"get_file", "delete_folder"}}, false, "", nil,
			answer{Callable: []string{"create_file", "create_folder"}, Locked: []string{"get_file"}}},
		{"4 nothing set", global{}, false, "", nil, callable(six()...)},
		{"5 all and one of them", global{toolsets: []string{"all", "files"}}, false, "", nil, callable(six()...)},
		{"10 disabled, and not offered", global{toolsets: []string{"files"}, disabled: []string{"get_folder"}}, false, "", nil, callable(files()...)},
		{"11 disabled, no headers", deleteFile, false, "", nil,
			answer{Callable: []string{"create_file", "get_file", "create_folder", "get_folder", "delete_folder"}, Locked: []string{"delete_file"}}},
		{"12 disabled, its toolset asked for", deleteFile, false, "", headers(toolsets, "files"),
			answer{Callable: []string{"create_file", "get_file"}, Locked: []string{"delete_file"}}},
		{"13 disabled, itself asked for", deleteFile, false, "", headers(tools, "delete_file"), answer{Locked: []string{"delete_file"}}},
		{"13 unknown", deleteFile, false, "", headers(tools, "nope"), refused("Unknown tool: nope. Tools that exist: ")},
		{"14 outside the bound", onlyFiles, false, "", headers(tools, "get_folder"), refused("Unknown tool: get_folder. Tools that exist: ")},
		{"15 outside the bound, lenient", onlyFiles, false, "", headers(tools, "get_folder", prefer, lenient), refused("No tools left")},
		{"16 disabled and excluded", deleteFile, false, "", headers(exclude, "delete_file"),
			callable("create_file", "get_file", "create_folder", "get_folder", "delete_folder")},
		{"17 a toolset that is offered in part", global{toolsets: []string{"files"}, enabled: []string{"create_folder"}}, false, "", headers(toolsets, "folders"), callable("create_folder")},
		{"18 everything together", global{}, false, "", headers(toolsets, "files", tools, "create_folder", exclude, "get_file"), callable("create_file", "delete_file", "create_folder")},
		{"19 exclude wins", global{}, false, "", headers(tools, "get_file", exclude, "get_file"), refused("No tools left")},
		{"20 explicitly none", global{}, false, "", headers(toolsets, ""), refused("No tools left")},
		{"20 explicitly none, and a tool", global{}, false, "", headers(toolsets, "", tools, "get_file"), callable("get_file")},
		{"21 white space, case, empties, duplicates", global{}, false, "", headers(toolsets, " Files , files ,,"), callable(files()...)},
		{"22 several lines", global{}, false, "", headers(exclude, "get_file", exclude, "get_folder"), callable("create_file", "delete_file", "create_folder", "delete_folder")},
		{"23 read-only", global{}, false, "", headers(readOnly, "true", tools, "delete_file, get_file"), callable("get_file")},
		{"24 read-only for all", global{readOnly: true}, false, "", headers(readOnly, "false"), callable("get_file", "get_folder")},
		{"25 path and header have nothing in common", global{}, false, "/x/files", headers(toolsets, "folders"), refused("No tools left")},
		{"26 a server that is down for a while", global{}, true, "", headers(toolsets, "folders"),
			answer{Status: http.StatusServiceUnavailable, Message: "No tools left"}},
		{"27 a name under that server", global{}, true, "", headers(tools, "get_file, FOLDERS:x"), callable("get_file")},
	} {
		for _, l := range layouts() {
			t.Run(tc.name+"/"+l.name, func(t *testing.T) {
				u := l.universe(tc.down)
				b := toolset.Compile(tc.global.config(l.toolsets), u)
				h := http.Header{}
				for name, values := range tc.header {
					for _, v := range values {
						h.Add(name, strings.ReplaceAll(v, "FOLDERS:", l.folders+":"))
					}
				}
				check(t, ask(t, b, u, tc.global.disabled, everyone(), tc.path, h), tc.want)
			})
		}
	}
}

// Cases 8 and 9 are faults of the operator's settings that only the servers' lists show. The config
// alone shows cases 6 and 7, so pkg/rules/config refuses them.
func TestCompileWarnings(t *testing.T) {
	for _, tc := range []struct {
		name    string
		global  global
		warning string
	}{
		{"7 a toolset that config.Parse refuses offers nothing", global{toolsets: []string{"default", "files", "nope"}}, ""},
		{"8 unknown enabled tool", global{enabled: []string{"nope", "files:nope", "srv:get_file", "files:*"}},
			"tools.enabled[0]: Unknown enabled tool: nope\ntools.enabled[1]: Unknown enabled tool: files:nope\ntools.enabled[2]: Unknown enabled tool: srv:get_file"},
		{"9 unknown disabled tool", global{disabled: []string{"nope"}}, "tools.disabled[0]: Unknown disabled tool: nope"},
		{"10 a disabled tool that is not offered causes no warning", global{toolsets: []string{"files"}, disabled: []string{"get_folder", "files:get_file"}}, ""},
		{"everything disabled", global{toolsets: []string{"files"}, disabled: []string{"files:*"}}, "tools: No tools left"},
		{"everything disabled by bare names", global{toolsets: []string{"files"}, disabled: files()}, "tools: No tools left"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := layouts()[0]
			b := toolset.Compile(tc.global.config(l.toolsets), l.universe(false))
			if got := b.Warnings().Error(); got != tc.warning {
				t.Errorf("warnings:\n%s\nwant:\n%s", got, tc.warning)
			}
			if tc.global.toolsets != nil && tc.global.disabled == nil {
				check(t, ask(t, b, l.universe(false), nil, everyone(), "", nil), callable(files()...))
			}
		})
	}
}

// A bare name in the operator's settings counts if it is unique. While a server is
// not loaded, an unknown bare name causes no warning: it may be a tool of that server.
func TestCompileBareNames(t *testing.T) {
	u, cfg := sample()
	cfg.Tools = config.Tools{Toolsets: []string{}, Enabled: []string{"one", "two", "next"}, Disabled: []string{"nobodys"}}
	b := toolset.Compile(cfg, u)
	if got, want := b.Warnings().Error(), "tools.enabled[1]: Ambiguous enabled tool: two"; got != want {
		t.Errorf("warnings = %q, want %q", got, want)
	}
	check(t, ask(t, b, u, nil, everyone(), "", nil), callable("one"))
	check(t, ask(t, b, u, nil, everyone(), "", headers(tools, "slow:next")), answer{Status: http.StatusServiceUnavailable, Message: "No tools left"})
	check(t, ask(t, b, u, nil, everyone(), "", headers(tools, "slow:other")), refused("Unknown tool: slow:other. "))
}

func TestCompileToolsetWarnings(t *testing.T) {
	u, cfg := sample()
	cfg.Toolsets["typo"] = []string{"a:one", "a:onne", "slow:x", "nope:*"}
	cfg.Toolsets["Mixed"] = []string{"b:three"} // differs from an existing name only in case
	b := toolset.Compile(cfg, u)
	want := "toolsets.typo[1]: Unknown tool: a:onne\ntoolsets.typo[3]: Unknown tool: nope:*"
	if got := b.Warnings().Error(); got != want {
		t.Errorf("warnings:\n%s\nwant:\n%s", got, want)
	}
	check(t, ask(t, b, u, nil, everyone(), "/x/typo", nil), callable("one"))
	check(t, ask(t, b, u, nil, everyone(), "/x/mixed", nil), callable("one", "three", "two"))
}
