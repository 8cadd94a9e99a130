package policy

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// BenchmarkVerdicts judges 10,000 tools of 100 servers for one agent, without a cache. It measures
// the cost after a change of policy, catalog or agent.
func BenchmarkVerdicts(b *testing.B) {
	var tools []Tool
	var names []string
	words := [][]string{nil, {"read"}, {"write", "closed"}, {"read", "closed"}}
	for s := range 100 {
		names = append(names, fmt.Sprintf("server-%02d", s))
		for i := range 100 {
			tools = append(tools, newTool(fmt.Sprintf("server-%02d:%s_thing_%d", s, []string{"get", "create", "delete", "deploy"}[i%4], i), words[i%4]...))
		}
	}
	cfg := servers(b, "", names...)
	var all strings.Builder
	for _, name := range mustReadDir(b, "testdata/policies") {
		if strings.HasSuffix(name, ".cedar") && !strings.HasPrefix(name, "10-") {
			src, err := os.ReadFile("testdata/policies/" + name)
			if err != nil {
				b.Fatal(err)
			}
			all.WriteString(strings.ReplaceAll(string(src), "@id(", "@was("))
		}
	}
	agent := identity.Agent{ID: "dev", Claims: map[string]any{"groups": []any{"developers"}, "data": "public", "clearance": 3.0}}
	for _, bb := range []struct{ name, src string }{
		{"no rules", ""},
		{"1 rule", `forbid(principal, action, resource) when { resource.name like "delete_*" };`},
		{"12 rules", all.String()},
		{"100 rules for others", strings.Repeat(`forbid(principal == Agent::"other", action, resource) unless { resource.readOnly };`, 100)},
	} {
		p := mustParse(b, bb.src)
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Verdicts(cfg, agent, tools)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	src, err := os.ReadFile("testdata/policies/08-conflicting-rules.cedar")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		mustParse(b, string(src))
	}
}
