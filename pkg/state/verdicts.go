package state

import (
	"slices"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// verdicts are what one policy says of the items of one inventory, for one agent.
type verdicts struct {
	inventory *inventory
	policy    *policy.Policy // nil: unknown
	agent     identity.Agent
	items     tool.Set // that the agent sees, tools among them

	mu  sync.Mutex
	all []policy.Verdict // by number; nil: not all are worked out yet
	one map[int]policy.Verdict
}

// list returns the verdicts of all visible items, by number.
func (v *verdicts) list() []policy.Verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all != nil {
		return v.all
	}
	inv := v.inventory
	v.all = make([]policy.Verdict, len(inv.rows))
	tools, numbers := make([]policy.Tool, 0, v.items.Len()), slices.Collect(v.items.All())
	for _, i := range numbers {
		tools = append(tools, inv.policyTool(i))
	}
	for n, verdict := range v.policy.Verdicts(inv.cfg, v.agent, tools) {
		v.all[numbers[n]] = verdict
	}
	v.one = nil
	return v.all
}

// at returns the verdict of the visible item i. The first call of a tool in a
// new process does not wait for the verdicts of ten thousand others.
func (v *verdicts) at(i int) policy.Verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all != nil {
		return v.all[i]
	}
	if verdict, ok := v.one[i]; ok {
		return verdict
	}
	inv := v.inventory
	verdict := v.policy.Verdicts(inv.cfg, v.agent, []policy.Tool{inv.policyTool(i)})[0]
	if v.one == nil {
		v.one = map[int]policy.Verdict{}
	}
	v.one[i] = verdict
	return verdict
}
