package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// newTool returns a tool whose hints are among the words: read, write, closed.
func newTool(id string, words ...string) Tool {
	yes, no := true, false
	parsed, err := tool.ParseID(id)
	if err != nil {
		panic(err)
	}
	t := Tool{ID: parsed}
	for _, w := range words {
		switch w {
		case "read":
			t.Annotations.ReadOnlyHint = &yes
		case "write":
			t.Annotations.DestructiveHint = &no
		case "closed":
			t.Annotations.OpenWorldHint = &no
		default:
			panic(w)
		}
	}
	t.Tier = t.Annotations.Tier()
	return t
}

// catalog returns the tools about which the tests evaluate the ten policies.
func catalog() []Tool {
	return []Tool{
		newTool("files:create_file", "write", "closed"),
		newTool("files:delete_file", "closed"),
		newTool("files:get_file", "read", "closed"),
		newTool("infra:deploy_service"),
		newTool("infra:restart_prod_db"),
		newTool("infra:show_prod_db", "read"),
		newTool("payroll:get_salary", "read", "closed"),
		newTool("payroll:set_salary", "closed"),
		newTool("web:fetch", "read"),
	}
}

func agents() []identity.Agent {
	return []identity.Agent{
		{ID: "ci-build", Claims: map[string]any{"clearance": 1.0}},
		{ID: "dev", Claims: map[string]any{"groups": []any{"developers", "operators"}, "data": "confidential"}},
		{ID: "payroll-bot", Claims: map[string]any{"clearance": 4.0, "data": "public"}},
		{ID: "release-bot", Claims: map[string]any{"groups": []any{"bots"}}},
	}
}

// servers returns a config with enabled servers of these names, and more keys after them.
func servers(t testing.TB, rest string, names ...string) *config.Config {
	t.Helper()
	var members []string
	for _, name := range names {
		members = append(members, fmt.Sprintf(`%q: {"url": "https://%s.example/mcp"}`, name, name))
	}
	return parseConfig(t, `{"mcpServers": {`+strings.Join(members, ", ")+`}`+rest+`}`)
}

func parseConfig(t testing.TB, src string) *config.Config {
	t.Helper()
	cfg, err := config.Parse([]byte(src))
	require.OK(t, err)
	return cfg
}

func mustParse(t testing.TB, src string) *Policy {
	t.Helper()
	p, err := Parse([]byte(src))
	require.OK(t, err)
	return p
}

// view prints the text for each agent about each tool, the matches of each rule, and the warnings.
func view(t *testing.T, p *Policy) string {
	t.Helper()
	cfg := servers(t, "", "files", "infra", "payroll", "web")
	tools := catalog()
	var b strings.Builder
	for _, agent := range agents() {
		fmt.Fprintf(&b, "%s\n", agent.ID)
		for i, v := range p.Verdicts(cfg, agent, tools) {
			word := map[lock.Fact]string{lock.Yes: "denied   " + v.Denial.Note(), lock.No: "permitted", lock.Unknown: "unknown  " + v.Denial.Note()}[v.Denied]
			fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%-22s %s", tools[i].ID, word)))
		}
		b.WriteString("\n")
	}
	matches := p.Matches(cfg, tools)
	for _, m := range matches {
		fmt.Fprintf(&b, "%s\n  always %v\n  some %v\n", m.Rule, m.Always, m.Some)
	}
	fmt.Fprintf(&b, "exposed %v\n", Exposed(cfg, tools, matches))
	for _, w := range p.Warnings() {
		fmt.Fprintf(&b, "warning %s\n", w)
	}
	return b.String()
}

func TestPolicies(t *testing.T) {
	files, err := filepath.Glob("testdata/policies/*.cedar")
	if err != nil || len(files) != 10 {
		t.Fatalf("found %d policies (%v), want 10", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			require.OK(t, err)
			got := view(t, mustParse(t, string(src)))
			golden.Check(t, strings.TrimSuffix(file, "cedar")+"golden", got)
		})
	}
}
