package gateway_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/policy/policytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// ofTheRules returns the parts of a policy that only its authors may see: comments, scopes,
// conditions, patterns and line numbers.
func ofTheRules(src string) []string {
	out := []string{"principal", "resource", "unless", "forbid", "permit", "Action::", "Agent::", "Tool::", "does not have the attribute"}
	for n, line := range strings.Split(src, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "@") {
			continue
		}
		out = append(out, fmt.Sprintf("policy.cedar:%d", n+1))
		if len(line) > 2 {
			out = append(out, line)
		}
	}
	return append(out, regexp.MustCompile(`"[^"]*\*[^"]*"`).FindAllString(src, -1)...)
}

// Agents get no text of a policy except reasons, contacts and ids of rules. The policies are
// realistic. Package policy tests which tools they deny.
func TestPolicyIsNotShown(t *testing.T) {
	gw := newFixture(t)
	ids := []string{
		"files:create_file", "files:delete_file", "files:get_file", "infra:deploy_service",
		"infra:restart_prod_db", "payroll:get_salary", "payroll:set_salary", "web:fetch",
	}
	for _, id := range ids {
		server, name, _ := strings.Cut(id, ":")
		s := gw.Server(server)
		s.Tools = append(s.Tools, def(name, "Do it.", readOnly))
	}
	gw.load(nil)
	src := policytest.Rules(t)
	gw.Forbid(src)
	gw.Clock.Wait(30e9)
	names, err := json.Marshal(map[string]any{"names": ids})
	require.OK(t, err)
	var all strings.Builder
	for _, claims := range []map[string]any{
		{"clearance": 1.0}, {"clearance": 4.0, "data": "public"},
		{"groups": []any{"developers", "operators"}},
	} {
		gw.Agent.ID, gw.Agent.Claims = "payroll-bot", claims
		all.WriteString(gw.search(`{"query":"do it","include_disabled":true,"detail":"full"}`).Raw)
		all.WriteString(gw.Call("describe_tools", string(names)).Raw)
		all.WriteString(gw.Call("upstream_servers", `{}`).Raw)
		for _, id := range ids {
			all.WriteString(gw.Call("call_tool_destructive", fmt.Sprintf(`{"name":%q}`, id)).Raw)
		}
	}
	for _, want := range []string{"disabled_by_config", "disabled_unknown", "platform@example.com"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no answer has %s", want)
		}
	}
	for _, fragment := range ofTheRules(src) {
		if strings.Contains(all.String(), fragment) {
			t.Errorf("the policy's text reaches an agent: %s", fragment)
		}
	}
}

// The reason of one rule is not used for another rule, nor for a tool that a list denies.
func TestDenialNote(t *testing.T) {
	tools := []string{def("a", "", ""), def("b", "", ""), def("c", "", ""), def("d", "", "")}
	gw := serving(t, `"disabled_tools":["d"]`, "", tools...)
	gw.Forbid(`
@id("one") @reason("Reason one.") @contact("one@example.com")
forbid (principal, action, resource == Tool::"s:a");
@id("two") @reason("Reason two.")
forbid (principal, action, resource == Tool::"s:b");
forbid (principal, action, resource == Tool::"s:c");
@id("list") @reason("Lists speak for themselves.")
forbid (principal, action, resource == Tool::"s:d");`)
	gw.Clock.Wait(30e9)
	for id, want := range map[string]string{
		"s:a": "Reason one. (rule one, contact one@example.com)", "s:b": "Reason two. (rule two)",
		"s:c": "", "s:d": "",
	} {
		r := gw.Call("call_tool_read", fmt.Sprintf(`{"name":%q}`, id))
		l := require.JSON[struct{ Status, Note string }](t, r.Meta["dev.portcullis/lock"])
		if l.Note != want || l.Status != "disabled_by_config" {
			t.Errorf("%s is %s: %q, want %q", id, l.Status, l.Note, want)
		}
	}
}
