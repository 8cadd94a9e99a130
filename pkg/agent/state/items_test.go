package state_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// withItems returns a gateway after a first sync. Its two servers list tools and resources, and one
// of them also lists prompts.
func withItems(t *testing.T, settings map[string]string, rest ...string) *gatewaytest.Gateway {
	g := gatewaytest.New(t)
	g.ConfigureOnly(settings, rest...)
	fs := g.Serve("fs", "read", "write")
	fs.Prompts = []string{gatewaytest.Prompt("read", "Asks."), gatewaytest.Prompt("plan", "Plans.")}
	fs.Resources = []string{gatewaytest.Resource("file:///a", "A."), gatewaytest.Resource("file:///{+path}", "All.")}
	git := g.Serve("git", "log")
	git.Resources = []string{gatewaytest.Resource("repo://x", "X."), gatewaytest.Resource("file:///b", "B."), gatewaytest.Resource("repo://{name}", "R.")}
	g.Sync()
	return g
}

// locks returns the statuses of the locked prompts and resources.
func locks(g *gatewaytest.Gateway) map[string]lock.Status {
	v := g.States.Load(g.T.Context()).View(anyone())
	out := map[string]lock.Status{}
	for i := range v.Items().All() {
		if s := v.Status(i); s != lock.None {
			out[v.ID(i).String()] = s
		}
	}
	return out
}

var everyItem = []string{
	"fs:prompt:plan", "fs:prompt:read", "fs:resource:file:///a", "fs:resource:file:///{+path}",
	"git:resource:file:///b", "git:resource:repo://x", "git:resource:repo://{name}",
}

func TestItems(t *testing.T) {
	g := withItems(t, map[string]string{"fs": "", "git": ""})
	st := g.States.Load(t.Context())
	v := st.View(anyone())
	var tools, items []string
	for i := range v.Tools().All() {
		tools = append(tools, v.ID(i).String())
	}
	for i := range v.Items().All() {
		items = append(items, v.ID(i).String())
		if at, ok := v.Find(v.ID(i)); !ok || at != i || v.Tier(i) != tool.Read || v.ReadOnly().Has(i) || v.Callable().Has(i) {
			t.Errorf("%s: Find = %d, %v; tier %v; want its own number, true and read; it must not be callable or a read-only tool", v.ID(i), at, ok, v.Tier(i))
		}
		if v.Server(i).Config.Name != v.ID(i).Server || v.Record(i) == nil {
			t.Errorf("%s is of %s, its record is %v", v.ID(i), v.Server(i).Config.Name, v.Record(i))
		}
		if v.Description(i, lock.None) == "" || v.Description(i, lock.DisabledUnknown) != "" {
			t.Errorf("the description of %s is %q", v.ID(i), v.Description(i, lock.None))
		}
	}
	same(t, "tools", []string{"fs:read", "fs:write", "git:log"}, tools)
	same(t, "prompts and resources", everyItem, items)
	fs := st.Servers()[0]
	if fs.Tools != 2 || fs.Items != 4 {
		t.Errorf("fs has %d tools and %d other items", fs.Tools, fs.Items)
	}
	scoped := g.States.Load(t.Context()).View(identity.Agent{ID: "b", Servers: []string{"git"}})
	if _, ok := scoped.Find(gatewaytest.ID(t, "fs:prompt:read")); ok || scoped.Items().Len() != 3 {
		t.Errorf("an agent of git sees %d prompts and resources, fs:prompt:read %v", scoped.Items().Len(), ok)
	}
}

func TestItemLocks(t *testing.T) {
	waits := map[string]lock.Status{}
	for _, id := range everyItem[:4] {
		waits[id] = lock.PendingApproval
	}
	for _, tt := range []struct {
		name    string
		servers map[string]string
		tools   string
		policy  string
		decide  []string // id and decision
		want    map[string]lock.Status
	}{
		{
			name:    "all items of a server wait",
			servers: map[string]string{"fs": `"resources": "manual"`}, want: waits,
		},
		{name: "tools wait", servers: map[string]string{"fs": `"approval": "manual", "resources": "off"`}, want: nil},
		{name: "denied prompts", servers: map[string]string{"fs": `"disabled_prompts": ["pl*"]`}, want: map[string]lock.Status{"fs:prompt:plan": lock.DisabledByConfig}},
		{name: "denied tools", servers: map[string]string{"fs": `"disabled_tools": ["*"]`}, tools: `"fs:*"`, want: nil},
		{name: "a rule of the policy", policy: `forbid(principal, action == Action::"read", resource) when { resource.name like "file:*" };`, want: map[string]lock.Status{
			"fs:resource:file:///a": lock.DisabledByConfig, "fs:resource:file:///{+path}": lock.DisabledByConfig, "git:resource:file:///b": lock.DisabledByConfig,
		}},
		{name: "a rule of the policy that fails", policy: `forbid(principal, action == Action::"get", resource) when { principal.team == "x" };`, want: map[string]lock.Status{
			"fs:prompt:plan": lock.DisabledUnknown, "fs:prompt:read": lock.DisabledUnknown,
		}},
		{name: "disabled by a person", decide: []string{"fs:prompt:read disable", "git:resource:repo://{name} disable"}, want: map[string]lock.Status{
			"fs:prompt:read": lock.DisabledByUser, "git:resource:repo://{name}": lock.DisabledByUser,
		}},
		{name: "approved by a person", servers: map[string]string{"fs": `"resources": "manual"`}, decide: []string{
			"fs:prompt:plan approve", "fs:prompt:read approve", "fs:resource:file:///a approve", "fs:resource:file:///{+path} approve",
		}, want: nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			servers := map[string]string{"fs": tt.servers["fs"], "git": ""}
			g := withItems(t, servers, `"tools": {"disabled": [`+tt.tools+`]}`)
			if tt.policy != "" {
				g.Forbid(tt.policy)
			}
			for _, d := range tt.decide {
				id, decision, _ := strings.Cut(d, " ")
				g.Decide(id, decision)
			}
			g.Restart()
			for _, when := range []string{"locks", "locks after another sync"} {
				if diff := cmp.Diff(tt.want, locks(g), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", when, diff)
				}
				g.Sync()
				g.Restart()
			}
		})
	}
}

func TestClaims(t *testing.T) {
	g := withItems(t, map[string]string{"fs": "", "git": ""})
	v := g.States.Load(t.Context()).View(anyone())
	only := func(ids ...string) tool.Set {
		set := tool.NewSet(100)
		for _, id := range ids {
			i, ok := v.Find(gatewaytest.ID(t, id))
			if !ok {
				t.Fatalf("no %s", id)
			}
			set.Add(i)
		}
		return set
	}
	all := only(everyItem[2:]...)
	for _, tt := range []struct {
		name, uri string
		offered   tool.Set
		want      []string
	}{
		{"listed", "file:///a", all, []string{"fs:resource:file:///a"}},
		{"listed by one server, matched by another's template", "file:///b", all, []string{"git:resource:file:///b"}},
		{"matched by a template", "file:///c/d", all, []string{"fs:resource:file:///{+path}"}},
		{"matched by another server's template", "repo://y", all, []string{"git:resource:repo://{name}"}},
		{"matched by no item", "repo://y/z", all, nil},
		{"the text of a template", "repo://{name}", all, []string{"git:resource:repo://{name}"}},
		{"only a template is offered", "file:///c", only("fs:resource:file:///{+path}"), []string{"fs:resource:file:///{+path}"}},
		{"listed but not offered", "file:///a", only("fs:resource:file:///{+path}"), nil},
		{"listed by another server but not offered", "file:///b", only("fs:resource:file:///{+path}"), []string{"fs:resource:file:///{+path}"}},
	} {
		numbers, whole := v.Claims(tt.uri, tt.offered)
		var got []string
		for _, i := range numbers {
			got = append(got, v.ID(i).String())
		}
		if !slices.Equal(got, tt.want) || !whole {
			t.Errorf("%s: %s is claimed by %v, want %v", tt.name, tt.uri, got, tt.want)
		}
	}
}
