package state_test

import (
	"fmt"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy/policytest"
)

// BenchmarkPolicy10000 computes the statuses of 10,000 tools, for a new agent and for a known
// agent.
func BenchmarkPolicy10000(b *testing.B) {
	for _, bb := range []struct{ name, rules string }{{"no rules", ""}, {"real rules", policytest.Rules(b)}} {
		h := withMany(b, 10000)
		var open []string
		for n := range 10 {
			open = append(open, fmt.Sprintf(`s%d ,"approval":"off"`, n))
		}
		h.configure(open...) // no list denies, so Cedar decides about every tool
		h.Put(policy.Key, bb.rules)
		s := h.States.Load(b.Context())
		agent := anyone()
		agent.Claims = map[string]any{"groups": []any{"operators"}, "data": "public", "clearance": 4.0}
		look := func() {
			if s.View(agent).Callable().Len() == 0 {
				b.Fatal("no tool is callable")
			}
		}
		b.Run(bb.name+"/cold", func(b *testing.B) {
			before, n := s.Policy.Evaluations(), 0
			for b.Loop() {
				n++
				agent.ID = fmt.Sprint("agent-", b.N, "-", n)
				look()
			}
			b.ReportMetric(float64(s.Policy.Evaluations()-before)/float64(n), "evaluations/op")
		})
		b.Run(bb.name+"/warm", func(b *testing.B) {
			look()
			before, n := s.Policy.Evaluations(), 0
			for b.Loop() {
				n++
				look()
			}
			b.ReportMetric(float64(s.Policy.Evaluations()-before)/float64(n), "evaluations/op")
		})
	}
}
