package difference_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/difference"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// files returns a valid config and policy; an empty config means none.
func files(t *testing.T, cfg, rules string) (f difference.Files) {
	t.Helper()
	var err error
	if cfg != "" {
		f.Config, err = config.Parse([]byte(cfg))
		require.OK(t, err)
		f.ConfigData = []byte(cfg)
	}
	f.Policy, err = policy.Parse([]byte(rules))
	require.OK(t, err)
	return f
}

// snapshot returns a catalog of tools, as "server:tool".
func snapshot(t *testing.T, ids ...string) *catalog.Snapshot {
	t.Helper()
	servers := map[string]*catalog.ServerInput{}
	in := catalog.Input{}
	for _, id := range ids {
		server, name, _ := strings.Cut(id, ":")
		if servers[server] == nil {
			servers[server] = &catalog.ServerInput{Name: server, Enabled: true}
		}
		raw := json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object"}}`)
		d, err := tool.ParseItem(tool.Tool, raw)
		require.OK(t, err)
		servers[server].Tools = append(servers[server].Tools, catalog.ToolInput{Definition: d})
	}
	for _, s := range servers {
		in.Servers = append(in.Servers, *s)
	}
	snap, err := catalog.Build(in)
	require.OK(t, err)
	return snap
}

const (
	one = `{"mcpServers": {
	  "files": {"url": "https://files.example/mcp?key=s3cr3t", "headers": {"Authorization": "Bearer s3cr3t"}, "disabled_tools": ["zip"], "timeout": "5s"},
	  "old": {"url": "https://old.example/mcp"}},
	  "notify": [{"type": "slack", "url": "https://hooks.slack.com/services/s3cr3t"}]}`
	two = `{"mcpServers": {
	  "files": {"url": "https://files2.example/mcp?key=s3cr3t2", "headers": {"Authorization": "Bearer s3cr3t2", "X-Team": "s3cr3t3"}, "disabled_tools": ["delete", "zip"], "required": true},
	  "new": {"url": "https://new.example/mcp", "headers": {"Authorization": "Bearer s3cr3t4"}}},
	  "tools": {"confirm": ["new:*"]},
	  "notify": [{"type": "slack", "url": "https://hooks.slack.com/services/s3cr3t5"}]}`
	ruleA = `@id("a") forbid (principal, action, resource) when { resource.name like "get*" };`
	ruleB = `@id("b") forbid (principal == Agent::"ci", action, resource == Tool::"files:list");`
)

func TestBetween(t *testing.T) {
	snap := snapshot(t, "files:delete", "files:get", "files:list", "files:zip", "old:x")
	d := difference.Between(files(t, one, ruleA), files(t, two, ruleB), snap)
	got, err := json.MarshalIndent(d, "", "  ")
	require.OK(t, err)
	golden.Check(t, "testdata/between.json", string(got)+"\n")
	if strings.Contains(string(got), "s3cr3t") {
		t.Error("the output contains a secret")
	}
}

func TestNothingChanges(t *testing.T) {
	snap := snapshot(t, "files:get", "old:x")
	spaced := strings.ReplaceAll(one, "{", "{ ")
	moved := "// A comment.\n\n" + strings.Replace(ruleA, "forbid", "\nforbid", 1)
	if d := difference.Between(files(t, one, ruleA), files(t, spaced, moved), snap); !d.Empty() {
		t.Errorf("%+v", d)
	}
}

func TestNothingWasThere(t *testing.T) {
	d := difference.Between(difference.Files{}, files(t, one, ruleA), nil)
	if len(d.Servers.Added) != 2 || len(d.Rules.Added) != 1 || d.Tools != nil || d.Empty() {
		t.Errorf("%+v", d)
	}
}

// The order of overrides matters. All other orders in a config do not.
func TestOverridesChangePlaces(t *testing.T) {
	cfg := func(annotations string) string {
		return `{"mcpServers": {"files": {"url": "https://files.example/mcp", "annotations": {` + annotations + `}}}}`
	}
	a, b := `"*": {"readOnlyHint": true}`, `"x*": {"readOnlyHint": false}`
	d := difference.Between(files(t, cfg(a+", "+b), ""), files(t, cfg(b+", "+a), ""), snapshot(t, "files:x"))
	if len(d.Members) != 1 || d.Members[0].Path != "mcpServers.files.annotations" {
		t.Errorf("%+v", d)
	}
}

func TestRulesWithoutID(t *testing.T) {
	rule := func(tool string) string {
		return `forbid (principal, action, resource == Tool::"` + tool + `");` + "\n"
	}
	d := difference.Between(files(t, one, rule("files:a")+rule("files:b")), files(t, one, rule("files:b")+rule("files:c")), nil)
	if len(d.Rules.Added) != 1 || d.Rules.Added[0] != "at line 2" || len(d.Rules.Removed) != 1 || d.Rules.Removed[0] != "at line 1" || len(d.Rules.Changed) != 0 {
		t.Errorf("%+v", d.Rules)
	}
}
