package policy

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func ids(t *testing.T, list ...string) []tool.ID {
	t.Helper()
	var out []tool.ID
	for _, s := range list {
		id, err := tool.ParseID(s)
		require.OK(t, err)
		out = append(out, id)
	}
	return out
}

func TestMatches(t *testing.T) {
	cfg := parseConfig(t, `{"mcpServers": {
		"files": {"url": "https://files.example", "enabled_tools": ["get_*", "creat_*"], "disabled_tools": ["delete_*", "nope"]},
		"infra": {"url": "https://infra.example"},
		"payroll": {"url": "https://payroll.example", "enabled": false},
		"web": {"url": "https://web.example"}},
		"tools": {"disabled": ["web:*", "get_file", "infra:nope"]}}`)
	p := mustParse(t, `@id("prod") forbid(principal, action, resource) when { resource.name like "*prod*" } unless { principal == Agent::"x" || resource.readOnly };
forbid(principal is Agent, action == Action::"call", resource == Tool::"infra:gone");`)
	want := []Match{
		{Rule: "mcpServers.files.enabled_tools", Always: ids(t, "files:create_file", "files:delete_file")},
		{Rule: "mcpServers.files.enabled_tools[0]", Allow: true, Always: ids(t, "files:get_file")},
		{Rule: "mcpServers.files.enabled_tools[1]", Allow: true},
		{Rule: "mcpServers.files.disabled_tools[0]", Always: ids(t, "files:delete_file")},
		{Rule: "mcpServers.files.disabled_tools[1]"},
		{Rule: "tools.disabled[0]", Always: ids(t, "web:fetch")},
		{Rule: "tools.disabled[1]", Always: ids(t, "files:get_file")},
		{Rule: "tools.disabled[2]"},
		{Rule: "policy.cedar:1 prod", Some: ids(t, "infra:restart_prod_db")},
		{Rule: "policy.cedar:2"},
	}
	got := p.Matches(cfg, catalog())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("matches (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:8], (*Policy)(nil).Matches(cfg, catalog())); diff != "" {
		t.Errorf("matches without a policy (-want +got):\n%s", diff)
	}
}

func TestExposed(t *testing.T) {
	cfg := parseConfig(t, `{"mcpServers": {
		"empty": {"url": "https://empty.example"},
		"files": {"url": "https://files.example", "enabled_tools": ["*"], "disabled_tools": ["nope"]},
		"infra": {"url": "https://infra.example"},
		"payroll": {"url": "https://payroll.example", "enabled": false},
		"web": {"url": "https://web.example", "disabled_tools": ["fetch"]}}}`)
	p := mustParse(t, `forbid(principal == Agent::"x", action, resource == Tool::"infra:deploy_service");`)
	for _, tt := range []struct {
		name   string
		policy *Policy
		want   []string
	}{
		{"by lists", Empty(), []string{"files", "infra"}},
		{"by lists and Cedar", p, []string{"files"}},
	} {
		got := Exposed(cfg, catalog(), tt.policy.Matches(cfg, catalog()))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Matches gets no agent: its result must be true for every agent.
func TestMatchesAgreeWithVerdicts(t *testing.T) {
	cfg := servers(t, "", "files", "infra", "payroll", "web")
	sources := []string{
		`forbid(principal, action, resource) when { if principal.id like "c*" then resource.readOnly else !resource.readOnly };`,
		`forbid(principal, action, resource) when { if resource.openWorld then principal has data else resource.destructive };`,
		`forbid(principal, action, resource) when { if principal has data then resource.openWorld else resource.openWorld };`,
		`forbid(principal, action, resource) when { !(principal has data || resource.readOnly) && resource is Tool };`,
		`forbid(principal, action, resource) when { principal has clearance && principal.clearance > 3 || resource.server == "web" };`,
		`forbid(principal, action, resource) when { principal.clearance > 3 };`,
		`forbid(principal, action, resource) when { principal in [Agent::"dev"] };`,
	}
	for _, name := range mustReadDir(t, "testdata/policies") {
		if strings.HasSuffix(name, ".cedar") {
			b, err := os.ReadFile("testdata/policies/" + name)
			require.OK(t, err)
			sources = append(sources, string(b))
		}
	}
	for _, src := range sources {
		p := mustParse(t, src)
		always, some := map[string]bool{}, map[string]bool{}
		for _, m := range p.Matches(cfg, catalog()) {
			for _, id := range m.Always {
				always[id.String()] = true
			}
			for _, id := range m.Some {
				some[id.String()] = true
			}
		}
		for _, agent := range agents() {
			for i, v := range p.Verdicts(cfg, agent, catalog()) {
				id := catalog()[i].ID.String()
				if always[id] && v.Denied != lock.Yes {
					t.Errorf("%s is always matched, but for %s its verdict is %v:\n%s", id, agent.ID, v.Denied, src)
				}
				if !always[id] && !some[id] && v.Denied != lock.No {
					t.Errorf("%s is never matched, but for %s its verdict is %v:\n%s", id, agent.ID, v.Denied, src)
				}
			}
		}
	}
}
