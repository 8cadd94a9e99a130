package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// governed returns a gateway with the tools and the agents of the ten policies.
func governed(t *testing.T) *fixture {
	const (
		closed  = `"inputSchema":{"type":"object"},"annotations":{"openWorldHint":false}`
		reads   = `"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"openWorldHint":false}`
		writes  = `"inputSchema":{"type":"object"},"annotations":{"destructiveHint":false,"openWorldHint":false}`
		browses = `"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}`
	)
	gw := newFixture(t)
	gw.Serve("files", def("create_file", "Create a file.", writes), def("delete_file", "Delete a file.", closed), def("get_file", "Get a file.", reads))
	gw.Serve("infra", def("deploy_service", "Deploy a service.", ""), def("restart_prod_db", "Restart the database.", ""), def("show_prod_db", "Show the database.", browses))
	gw.Serve("payroll", def("get_salary", "Get a salary.", reads), def("set_salary", "Set a salary.", closed))
	gw.Serve("web", def("fetch", "Fetch a page.", browses))
	gw.Configure(nil)
	gw.Sync()
	return gw
}

func governedAgents() []identity.Agent {
	agents := []identity.Agent{
		{ID: "ci-build", Claims: map[string]any{"clearance": 1.0}},
		{ID: "dev", Claims: map[string]any{"groups": []any{"developers", "operators"}, "data": "confidential"}},
		{ID: "payroll-bot", Claims: map[string]any{"clearance": 4.0, "data": "public"}},
		{ID: "release-bot", Claims: map[string]any{"groups": []any{"bots"}}},
	}
	for i := range agents {
		agents[i].Servers, agents[i].Tiers = []string{"*"}, []tool.Tier{tool.Read, tool.Write, tool.Destructive}
	}
	return agents
}

// A lockedView contains one agent's texts about one locked tool, by their source.
type lockedView struct {
	search, describe, call json.RawMessage
	status, note, text     string // of the call
}

// agentView calls everything that an agent can call, and compares the answers.
func agentView(t *testing.T, gw *fixture) (text string, locked map[string]lockedView) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", gw.Agent.ID)
	r := gw.Call("retrieve_tools", `{"query":"create delete get file deploy service restart show database salary set fetch page","limit":50,"include_disabled":true}`)
	found := require.JSON[struct {
		Tools []struct {
			Name     string
			CallWith string `json:"call_with"`
		}
		Disabled    []json.RawMessage
		Remediation map[string]string
	}](t, r.Text)
	var callable []string
	for _, x := range found.Tools {
		callable = append(callable, x.Name)
		if c := gw.Call(x.CallWith, fmt.Sprintf(`{"name":%q}`, x.Name)); c.IsError {
			t.Errorf("%s: search lists %s as callable, but the call returned %s",
				gw.Agent.ID, x.Name, c.Text)
		}
	}
	slices.Sort(callable)
	fmt.Fprintf(&b, "callable: %s\n", strings.Join(callable, ", "))
	locked = map[string]lockedView{}
	for _, raw := range found.Disabled {
		d := require.JSON[struct{ Name, Status, Note string }](t, raw)
		v := gw.lockedView(d.Name)
		v.search = raw
		if v.status != d.Status || v.note != d.Note || found.Remediation[d.Status] == "" {
			t.Errorf("%s: search lists %s as %s, but the call returned %s (%s)", gw.Agent.ID, d.Name, raw, v.status, v.note)
		}
		locked[d.Name] = v
	}
	if len(callable)+len(locked) != 9 || len(found.Remediation) > len(locked) {
		t.Errorf("%s: %d tools are callable, %d locked, with %d remediations", gw.Agent.ID, len(callable), len(locked), len(found.Remediation))
	}
	shown := map[string]bool{} // one tool for each reason
	for _, name := range slices.Sorted(maps.Keys(locked)) {
		v := locked[name]
		fmt.Fprintf(&b, "locked: %s\n", v.search)
		if reason := v.status + v.note; !shown[reason] {
			shown[reason] = true
			fmt.Fprintf(&b, "  described: %s\n  called: %s\n", v.describe, v.call)
		}
	}
	for _, status := range slices.Sorted(maps.Keys(found.Remediation)) {
		fmt.Fprintf(&b, "remediation: %s: %s\n", status, found.Remediation[status])
	}
	fmt.Fprintf(&b, "servers: %s\n", gw.Call("upstream_servers", `{}`).Text)
	return b.String(), locked
}

// lockedView describes and calls a locked tool.
func (gw *fixture) lockedView(name string) lockedView {
	gw.T.Helper()
	var d struct {
		Tools []json.RawMessage
	}
	if err := json.Unmarshal([]byte(gw.Call("describe_tools", fmt.Sprintf(`{"names":[%q]}`, name)).Text), &d); err != nil || len(d.Tools) != 1 {
		gw.T.Fatalf("describe %s: %v", name, err)
	}
	r := gw.Call("call_tool_read", fmt.Sprintf(`{"name":%q}`, name))
	var l struct{ Status, Note string }
	if err := json.Unmarshal(r.Meta["dev.portcullis/lock"], &l); err != nil || !r.IsError {
		gw.T.Fatalf("call of %s: %s", name, r.Raw)
	}
	return lockedView{describe: d.Tools[0], call: json.RawMessage(r.Raw), status: l.Status, note: l.Note, text: r.Text}
}

// Ten policies from real needs, as four agents see them. Agents get the reason and the contact, but
// no text of the policy and no way to bypass it.
func TestTenPolicies(t *testing.T) {
	files, err := filepath.Glob("../../rules/policy/testdata/policies/*.cedar")
	if err != nil || len(files) != 10 {
		t.Fatalf("found %d policies (%v), want 10", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".cedar")
		t.Run(name, func(t *testing.T) {
			src, err := os.ReadFile(file)
			require.OK(t, err)
			gw := governed(t)
			gw.Forbid(string(src))
			gw.Clock.Wait(30e9)
			var all strings.Builder
			for _, gw.Agent = range governedAgents() {
				text, locked := agentView(t, gw)
				all.WriteString(text + "\n")
				checkRemedies(t, gw.Agent.ID, locked)
			}
			for _, fragment := range ofTheRules(string(src)) {
				if strings.Contains(all.String(), fragment) {
					t.Errorf("the policy's text reaches an agent: %s", fragment)
				}
			}
			golden.Check(t, filepath.Join("testdata", "policies", name+".golden"), all.String())
		})
	}
}

// checkRemedies compares the texts about locked tools with their statuses.
func checkRemedies(t *testing.T, agent string, locked map[string]lockedView) {
	t.Helper()
	users := regexp.MustCompile(`(?i)ask the user|portcullis page|/admin/|"link"|re-?enable|approve|review`)
	for name, v := range locked {
		for where, text := range map[string]string{"search": string(v.search), "describe": string(v.describe), "call": string(v.call)} {
			if hit := users.FindString(text); hit != "" && v.status == "disabled_by_config" {
				t.Errorf("%s: %s says %q about %s, which the operator denies: %s", agent, where, hit, name, text)
			}
		}
		if denied := strings.Contains(v.text, "operator policy"); denied != (v.status == "disabled_by_config") {
			t.Errorf("%s: %s is %s, but the call returned %s", agent, name, v.status, v.text)
		}
	}
}

// ofTheRules returns the parts of a policy that only its authors may see: comments, scopes,
// conditions, patterns and places.
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

// The reason of one rule is not used for another rule, nor for a tool that a list denies.
func TestDenialNote(t *testing.T) {
	gw := governed(t)
	gw.Configure(map[string]string{"web": `"disabled_tools":["*"]`})
	gw.Forbid(`
@id("one") @reason("Reason one.") @contact("one@example.com")
forbid (principal, action, resource == Tool::"files:get_file");
@id("two") @reason("Reason two.")
forbid (principal, action, resource == Tool::"files:delete_file");
forbid (principal, action, resource == Tool::"files:create_file");
@id("list") @reason("Lists speak for themselves.")
forbid (principal, action, resource == Tool::"web:fetch");`)
	gw.Clock.Wait(30e9)
	for id, want := range map[string]string{
		"files:get_file":    "Reason one. (rule one, contact one@example.com)",
		"files:delete_file": "Reason two. (rule two)",
		"files:create_file": "",
		"web:fetch":         "",
	} {
		if v := gw.lockedView(id); v.note != want || v.status != "disabled_by_config" {
			t.Errorf("%s is %s: %q, want %q", id, v.status, v.note, want)
		}
	}
}

// Every request of an agent, with any method, reuses the verdicts of the agent's first request.
func TestVerdictsAreShared(t *testing.T) {
	gw := governed(t)
	gw.Forbid(`forbid (principal, action, resource) when { resource.name like "delete_*" };`)
	gw.Clock.Wait(30e9)
	evaluations := func() int64 { return gw.States.Load(t.Context()).Policy.Evaluations() }
	everything := func() {
		agentView(t, gw)
		gw.Decide("files:get_file", "disable")
		gw.Clock.Wait(3 * time.Second)
		agentView(t, gw)
		gw.Decide("files:get_file", "enable")
		gw.Clock.Wait(3 * time.Second)
		gw.Header = http.Header{"X-Mcp-Toolsets": {"files"}}
		gw.search(`{"query":"file"}`)
		gw.Header = nil
	}
	for n, agent := range governedAgents() {
		gw.Agent = agent
		for range 2 {
			everything()
			if got, want := evaluations(), int64(9*(n+1)); got != want {
				t.Errorf("after agent %d: %d evaluations of 9 tools, want %d", n+1, got, want)
			}
		}
	}
}
