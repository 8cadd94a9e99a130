package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy/policytest"
)

// manyRules returns the rules of the ten example policies, except rules that deny everything, and a
// hundred rules that match nothing.
func manyRules(b *testing.B) string {
	b.Helper()
	var all strings.Builder
	all.WriteString(policytest.Rules(b))
	for i := range 100 {
		fmt.Fprintf(&all, "forbid (principal, action, resource) when { resource.name like \"no_such_%d_*\" };\n", i)
	}
	return all.String()
}

// A search with warm caches: without rules, with 110 rules, and for an agent without cached
// verdicts.
func BenchmarkRetrieveUnderPolicy(b *testing.B) {
	for _, size := range []int{527, 10_000} {
		gw := realTools(b, size)
		gw.Agent.Claims = map[string]any{"groups": []any{"operators"}, "data": "public", "clearance": 4.0}
		var params []mcp.Request
		for _, q := range queries {
			params = append(params, parse(b, fmt.Sprintf(`{"name":"retrieve_tools","arguments":{"query":%q}}`, q)))
		}
		for _, bb := range []struct {
			name, rules string
			fresh       bool
		}{{"no rules", " ", false}, {"110 rules", manyRules(b), false}, {"110 rules, new agent", manyRules(b), true}} {
			gw.Forbid(bb.rules)
			gw.States.Refresh(b.Context())
			gw.Open()
			b.Run(fmt.Sprintf("%d tools/%s", size, bb.name), func(b *testing.B) {
				n := 0
				for b.Loop() {
					if n++; bb.fresh {
						gw.Agent.ID = fmt.Sprint("agent-", b.N, "-", n)
					}
					if _, err := gw.Open().CallTool(b.Context(), params[n%len(params)], mcp.Client{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
