package toolset_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
)

// sample returns four servers. a and b have a tool of the same bare name. slow and dead did not
// load; only slow will probably load soon. The operator offers all tools except b:hidden.
func sample() (toolset.Universe, *config.Config) {
	u := toolset.Universe{Servers: []toolset.Server{
		{Name: "a", Loaded: true}, {Name: "b", Loaded: true}, {Name: "dead"}, {Name: "slow", Transient: true},
	}}
	for _, id := range []string{"a:one", "a:two", "b:hidden", "b:three", "b:two", "slow:stale"} {
		server, name, _ := strings.Cut(id, ":")
		u.Tools = append(u.Tools, toolset.Tool{ID: tool.ID{Server: server, Name: name}, ReadOnly: name == "three"})
	}
	return u, &config.Config{
		Toolsets: map[string][]string{"mixed": {"a:one", "b:two"}, "later": {"slow:next"}, "secret": {"b:hidden"}},
		Tools:    config.Tools{Toolsets: []string{"a", "dead", "slow"}, Enabled: []string{"b:two", "b:three", "later"}},
	}
}

func sampleBound(t *testing.T) (*toolset.Bound, toolset.Universe) {
	t.Helper()
	u, cfg := sample()
	return toolset.Compile(cfg, u), u
}

// offered lists the ids of a selection.
func offered(u toolset.Universe, sel toolset.Selection) string {
	var ids []string
	for i := range sel.Tools.All() {
		ids = append(ids, u.Tools[i].ID.String())
	}
	return strings.Join(ids, " ")
}

func agent(servers string, toolsets ...string) identity.Agent {
	return identity.Agent{ID: "a", Servers: strings.Fields(servers), Toolsets: toolsets}
}

// A selectCase is one request to the sample.
type selectCase struct {
	name   string
	agent  identity.Agent
	path   string
	header http.Header
	want   string // ids, or the beginning of the error's message
	status int    // 0: no error
}

// Both cases are covered: the whole offer, and a server that will be back.
const (
	everything  = "a:one a:two b:three b:two slow:stale"
	off         = "No tools left: their server is disabled or unavailable, so its tools are not known. Without this selection, upstream_servers says why."
	unavailable = "No tools left: their server could not be reached just now. Try again later."
)

func runSelect(t *testing.T, cases []selectCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			b, u := sampleBound(t)
			sel, e := choose(t, b, tc.agent, tc.path, tc.header)
			if tc.status == 0 {
				if got := offered(u, sel); e != nil || got != tc.want {
					t.Errorf("offered %q, %v; want %q", got, e, tc.want)
				}
				return
			}
			if e == nil || e.Status != tc.status || !strings.HasPrefix(e.Message, tc.want) {
				t.Fatalf("Select = %q, %v; want status %d, %q", offered(u, sel), e, tc.status, tc.want)
			}
			if (tc.status == http.StatusServiceUnavailable) != (e.RetryAfter == 30*time.Second) {
				t.Errorf("status %d with RetryAfter %v", e.Status, e.RetryAfter)
			}
		})
	}
}

func TestSelectScope(t *testing.T) {
	runSelect(t, []selectCase{
		{"everything", agent("*"), "", nil, everything, 0},
		{"the zero agent sees nothing, without an error", identity.Agent{}, "", nil, "", 0},
		{"an agent of one server", agent("b"), "", nil, "b:three b:two", 0},
		{"a server that is not there", agent("gone"), "", nil, "", 0},
		{"an agent with toolsets", agent("*", "MIXED"), "", nil, "a:one b:two", 0},
		{"an agent with toolsets, within its servers", agent("a", "mixed", "b"), "", nil, "a:one", 0},
		{"an agent with a toolset that is gone", agent("*", "gone"), "", nil, "", 0},
		{"an agent with no toolsets at all", identity.Agent{Servers: []string{"*"}, Toolsets: []string{}}, "", nil, "", 0},
		{"an agent with all toolsets", agent("*", "all"), "", nil, everything, 0},
		{"an agent with the standard toolset", agent("*", "default"), "", nil, everything, 0},
	})
}

func TestSelectByToolset(t *testing.T) {
	runSelect(t, []selectCase{
		{"all", agent("*"), "", headers(toolsets, "all"), everything, 0},
		{"default", agent("*"), "", headers(toolsets, "DEFAULT"), everything, 0},
		{"all on the path", agent("*"), "/x/all", nil, everything, 0},
		{"a server's toolset", agent("*"), "", headers(toolsets, "B"), "b:three b:two", 0},
		{"a toolset on the path folds case", agent("*"), "/x/Mixed", nil, "a:one b:two", 0},
		{"path and header meet", agent("*"), "/x/mixed", headers(toolsets, "a"), "a:one", 0},
		{"read-only path", agent("*"), "/readonly", nil, "b:three", 0},
		{"a read-only header cannot undo the path", agent("*"), "/readonly", headers(readOnly, "no"), "b:three", 0},
		{"an empty exclude list", agent("*"), "", headers(exclude, ""), everything, 0},
		{"nothing but separators", agent("*"), "", headers(tools, " , "), "No tools left", 400},
		{"both lists empty", agent("*"), "", headers(tools, "", toolsets, ""), "No tools left", 400},
		{"an empty list beside a full one", agent("*"), "", headers(tools, "", toolsets, "b"), "b:three b:two", 0},
		{"nothing read-only", agent("a"), "", headers(readOnly, "on"), "No tools left", 400},
	})
}

func TestSelectByTool(t *testing.T) {
	runSelect(t, []selectCase{
		{"a full name", agent("*"), "", headers(tools, "b:two"), "b:two", 0},
		{"a bare name", agent("*"), "", headers(tools, "three"), "b:three", 0},
		{"a bare name of two tools", agent("*"), "", headers(tools, "two"), "Ambiguous tool: two is one of a:two, b:two", 400},
		{"a bare name of one that the agent sees", agent("b"), "", headers(tools, "two"), "b:two", 0},
		{"a bare name that the path makes clear", agent("*"), "/x/mixed", headers(tools, "two"), "b:two", 0},
		{"a bare name whose tools are not on the path", agent("*"), "/x/later", headers(tools, "one"), "No tools left", 400},
		{"tool names do not fold case", agent("a"), "", headers(tools, "a:ONE"), "Unknown tool: a:ONE. Tools that exist: a:one, a:two", 400},
		{"patterns are for the operator", agent("a"), "", headers(tools, "a:*"), "Unknown tool: a:*. ", 400},
		{"a tool outside the bound", agent("b"), "", headers(tools, "b:hidden"), "Unknown tool: b:hidden. Tools that exist: b:three, b:two", 400},
		{"a tool out of scope", agent("a"), "", headers(tools, "b:two"), "Unknown tool: b:two. Tools that exist: a:one, a:two", 400},
		{"a tool outside the agent's toolsets", agent("*", "b"), "", headers(tools, "a:one"), "Unknown tool: a:one. Tools that exist: b:three, b:two", 400},
		{"a toolset out of scope", agent("a"), "", headers(toolsets, "b"), "Unknown toolset: b. Toolsets that exist: all, default, a, mixed", 400},
		{"a toolset outside the bound", agent("a b"), "", headers(toolsets, "secret"), "Unknown toolset: secret. Toolsets that exist: all, default, a, b, mixed", 400},
		{"a toolset outside the agent's", agent("*", "b"), "", headers(toolsets, "a"), "Unknown toolset: a. Toolsets that exist: all, default, b, mixed", 400},
		{"an unknown toolset on the path", agent("a"), "/x/nope", nil, "Unknown toolset: nope. Toolsets that exist: all, default, a, mixed", 400},
		{"an unknown toolset on the path is never ignored", agent("a"), "/x/nope", headers(prefer, lenient), "Unknown toolset: nope. ", 400},
		{"everything unknown at once", agent("a"), "/x/p", headers(toolsets, "y, x", tools, "v,u", exclude, "w"),
			"Unknown toolset: p, x, y. Toolsets that exist: all, default, a, mixed. Unknown tool: u, v, w. Tools that exist: a:one, a:two", 400},
		{"an agent without tools", agent("none"), "", headers(tools, "x"), "Unknown tool: x. No tool exists", 400},
	})
}

func TestSelectExclude(t *testing.T) {
	runSelect(t, []selectCase{
		{"an excluded tool", agent("*"), "", headers(exclude, "a:one"), "a:two b:three b:two slow:stale", 0},
		{"a bare name excludes every tool of that name", agent("*"), "", headers(exclude, "two"), "a:one b:three slow:stale", 0},
		{"an excluded tool that is outside the bound", agent("*"), "", headers(exclude, "b:hidden"), everything, 0},
		{"an excluded tool that is not on the path", agent("*"), "/x/b", headers(exclude, "a:one"), "b:three b:two", 0},
		{"an excluded tool that does not exist", agent("a"), "", headers(exclude, "a:nope"), "Unknown tool: a:nope. ", 400},
		{"an unknown excluded tool, lenient", agent("a"), "", headers(exclude, "nope", prefer, lenient), "Unknown tool: nope. ", 400},
		{"an excluded tool out of scope does not exist", agent("a"), "", headers(exclude, "b:two"), "Unknown tool: b:two. ", 400},
	})
}

func TestSelectLenient(t *testing.T) {
	runSelect(t, []selectCase{
		{"lenient drops what does not exist", agent("a"), "", headers(tools, "one,nope", toolsets, "b", prefer, lenient), "a:one", 0},
		{"lenient drops what is ambiguous", agent("*"), "", headers(tools, "one,two", prefer, lenient), "a:one", 0},
		{"a list of which all was dropped selects nothing", agent("a"), "", headers(toolsets, "nope", prefer, lenient), "No tools left", 400},
	})
}

func TestSelectServersDown(t *testing.T) {
	runSelect(t, []selectCase{
		{"stale tools of a server that is down", agent("*"), "", headers(toolsets, "slow"), "slow:stale", 0},
		{"a name under a server that is down", agent("*"), "", headers(tools, "slow:next"), unavailable, 503},
		{"beside one that is there", agent("*"), "", headers(tools, "slow:next,a:one"), "a:one", 0},
		{"a bare name that may be its", agent("*"), "", headers(tools, "next"), unavailable, 503},
		{"a bare name that cannot be under that server", agent("a b"), "", headers(tools, "next"), "Unknown tool: next. ", 400},
		{"a name under a server that stays down", agent("*"), "", headers(tools, "dead:x"), off, 400},
		{"a name that no tool can have", agent("*"), "", headers(tools, "slow:no such"), "Unknown tool: slow:no such. ", 400},
		{"a bare name that no tool can have", agent("*"), "", headers(tools, "no such"), "Unknown tool: no such. ", 400},
		{"a name under that server, outside the path", agent("*"), "/x/a", headers(tools, "slow:next"), "No tools left", 400},
		{"a name under that server, excluded", agent("*"), "", headers(exclude, "slow:next"), everything, 0},
		{"a bare name that may be under that server, excluded", agent("*"), "", headers(exclude, "next"), everything, 0},
		{"a name under that server, out of scope", agent("a"), "", headers(tools, "slow:next"), "Unknown tool: slow:next. ", 400},
		{"a name under that server, outside the agent's toolsets", agent("*", "later"), "", headers(tools, "slow:other"), "Unknown tool: slow:other. No tool exists", 400},
		{"a toolset of that server", agent("*"), "", headers(toolsets, "later"), unavailable, 503},
		{"a known tool that is not read-only is no reason to wait", agent("*"), "", headers(tools, "slow:stale", readOnly, "1"), "No tools left", 400},
	})
}

func TestSelectError(t *testing.T) {
	b, _ := sampleBound(t)
	_, got := choose(t, b, agent("a b"), "/x/p", headers(toolsets, "x,X", tools, "two, u", "X-MCP-Disabled-Tools", "w"))
	// An unknown path has no tools, so it does not resolve an ambiguous name.
	want := &toolset.Error{
		Status: http.StatusBadRequest, UnknownToolsets: []string{"X", "p", "x"}, UnknownTools: []string{"u", "w"},
		Message: "Unknown toolset: X, p, x. Toolsets that exist: all, default, a, b, mixed. " +
			"Unknown tool: u, w. Tools that exist: a:one, a:two, b:three, b:two",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	_, got = choose(t, b, agent("a b"), "", headers(tools, "two"))
	if got == nil {
		t.Fatal("want a conflict")
	}
	if diff := cmp.Diff([]toolset.Conflict{{Name: "two", Tools: []string{"a:two", "b:two"}}}, got.Conflicts); diff != "" {
		t.Errorf("conflicts (-want +got):\n%s", diff)
	}
}

func TestSelectionIgnored(t *testing.T) {
	b, _ := sampleBound(t)
	sel, e := choose(t, b, agent("a b"), "", headers(tools, "two,one,zz", toolsets, "nope,a", prefer, "respond-async, Handling = \"lenient\";x"))
	if diff := cmp.Diff([]string{"nope", "two", "zz"}, sel.Ignored); diff != "" {
		t.Errorf("%v, ignored (-want +got):\n%s", e, diff)
	}
}

// For a name that the caller may not see, the answer is the same as for a name that does not exist.
func TestSelectHiddenNames(t *testing.T) {
	b, _ := sampleBound(t)
	for _, tc := range []struct {
		agent          identity.Agent
		header, hidden string
	}{
		{agent("a"), tools, "b:two"}, {agent("a"), tools, "b:nope"}, {agent("a"), tools, "slow:stale"}, {agent("a"), tools, "three"},
		{agent("a b"), tools, "b:hidden"}, {agent("a b"), tools, "hidden"}, {agent("a", "mixed"), tools, "a:two"},
		{agent("a"), exclude, "b:two"}, {agent("a"), exclude, "three"}, {agent("a", "mixed"), exclude, "a:two"},
		{agent("a"), toolsets, "b"}, {agent("a"), toolsets, "slow"}, {agent("a"), toolsets, "later"}, {agent("a"), toolsets, "secret"},
		{agent("a b"), toolsets, "secret"}, {agent("a b", "mixed"), toolsets, "slow"},
	} {
		for _, how := range []string{"", lenient} {
			answers := map[string]string{}
			for _, name := range []string{tc.hidden, "qqq"} {
				sel, e := choose(t, b, tc.agent, "", headers(tc.header, name, prefer, how))
				answers[name] = strings.ReplaceAll(fmt.Sprintf("%v %+v", sel.Ignored, e), name, "NAME")
			}
			if answers[tc.hidden] != answers["qqq"] {
				t.Errorf("%s: the answer about %s differs from the answer about an unknown name:\n%s\n%s", tc.header, tc.hidden, answers[tc.hidden], answers["qqq"])
			}
		}
	}
}

func TestSelectionHasServer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		agent  identity.Agent
		path   string
		header http.Header
		want   string
	}{
		{"all, with those that did not load", agent("*"), "", nil, "a b dead slow"},
		{"those of the agent", agent("b slow"), "", nil, "b slow"},
		{"those of the agent's toolsets", agent("*", "mixed"), "", nil, "a b"},
		{"those of the path", agent("*"), "/x/a", nil, "a"},
		{"one that did not load, by its toolset", agent("*"), "", headers(toolsets, "a,later"), "a slow"},
		{"one that did not load, by a tool", agent("*"), "", headers(tools, "a:one,dead:x"), "a dead"},
		{"any that did not load, by a bare name", agent("*"), "", headers(tools, "a:one,x"), "a dead slow"},
		{"a server without a remaining tool is left out", agent("*"), "", headers(exclude, "a:one,a:two"), "b dead slow"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, u := sampleBound(t)
			sel, _ := choose(t, b, tc.agent, tc.path, tc.header)
			var got []string
			for _, s := range u.Servers {
				if sel.HasServer(s.Name) {
					got = append(got, s.Name)
				}
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("servers = %q, want %q", got, tc.want)
			}
			if sel.HasServer("nope") || (toolset.Selection{}).HasServer(u.Servers[0].Name) {
				t.Error("a server that is not configured exists, or one is in the zero Selection")
			}
		})
	}
}

func TestSelectionServerToolsets(t *testing.T) {
	b, u := sampleBound(t)
	for _, tc := range []struct {
		name  string
		agent identity.Agent
		want  map[string][]string
	}{
		{"all", agent("*"), map[string][]string{"a": {"a", "mixed"}, "b": {"b", "mixed"}, "dead": {"dead"}, "slow": {"later", "slow"}}},
		{"within the agent's servers", agent("a"), map[string][]string{"a": {"a", "mixed"}}},
		{"within the agent's toolsets", agent("*", "b"), map[string][]string{"b": {"b", "mixed"}}},
		{"nothing", identity.Agent{}, map[string][]string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sel, _ := choose(t, b, tc.agent, "", nil)
			got := map[string][]string{}
			for _, s := range u.Servers {
				if names := sel.ServerToolsets(s.Name); names != nil {
					got[s.Name] = names
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("toolsets (-want +got):\n%s", diff)
			}
		})
	}
}

// The toolset of a server without tools exists, although it offers nothing.
func TestSelectEmptyServer(t *testing.T) {
	b := toolset.Compile(global{}.config(nil), toolset.Universe{Servers: []toolset.Server{{Name: "a", Loaded: true}}})
	if _, e := choose(t, b, everyone(), "/x/a", nil); e == nil || e.Message != "No tools left" {
		t.Errorf("Select = %+v", e)
	}
}

func TestSelectRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		name    string
		servers []toolset.Server
		want    time.Duration
	}{
		{"the shortest", []toolset.Server{{Name: "a", Transient: true, RetryAfter: 9 * time.Second}, {Name: "b", Transient: true, RetryAfter: 4 * time.Second}, {Name: "c", Transient: true}}, 4 * time.Second},
		{"not of one that stays down", []toolset.Server{{Name: "a", Transient: true, RetryAfter: 9 * time.Second}, {Name: "b", RetryAfter: time.Second}}, 9 * time.Second},
		{"never at once", []toolset.Server{{Name: "a", Transient: true, RetryAfter: time.Millisecond}}, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := toolset.Compile(global{}.config(nil), toolset.Universe{Servers: tc.servers})
			if _, e := choose(t, b, everyone(), "/x/all", nil); e == nil || e.RetryAfter != tc.want {
				t.Errorf("Select = %+v, want RetryAfter %v", e, tc.want)
			}
		})
	}
}
