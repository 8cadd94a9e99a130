package state

import (
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// verdicts are the verdicts of one policy on the items of one inventory, for one agent.
type verdicts struct {
	inventory *inventory
	policy    *policy.Policy // nil: unknown
	agent     identity.Agent
	items     tool.Set // the items that the agent sees, including tools

	mu    sync.Mutex
	all   []policy.Verdict // by number; nil: not all are computed
	one   map[int]policy.Verdict
	judge *policy.Judge // nil: not started, or finished
}

// judgeIt returns the judge. The caller holds mu.
func (v *verdicts) judgeIt() *policy.Judge {
	if v.judge == nil {
		v.judge = v.policy.Judge(v.inventory.cfg, v.agent)
	}
	return v.judge
}

// list returns the verdicts of all visible items, by number.
func (v *verdicts) list() []policy.Verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all != nil {
		return v.all
	}
	all, judge := make([]policy.Verdict, len(v.inventory.rows)), v.judgeIt()
	for i := range v.items.All() {
		all[i] = judge.Verdict(v.inventory.policyTool(i))
	}
	v.all, v.one, v.judge = all, nil, nil
	return v.all
}

// at returns the verdict of the visible item i. It does not compute the verdicts of all other
// tools, so the first call in a new process is fast.
func (v *verdicts) at(i int) policy.Verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all != nil {
		return v.all[i]
	}
	if verdict, ok := v.one[i]; ok {
		return verdict
	}
	verdict := v.judgeIt().Verdict(v.inventory.policyTool(i))
	if v.one == nil {
		v.one = map[int]policy.Verdict{}
	}
	v.one[i] = verdict
	return verdict
}
