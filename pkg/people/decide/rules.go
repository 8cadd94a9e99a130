package decide

import (
	"context"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Config says which of the operator's files are in use, what is wrong with the stored files, and
// what the rules do.
type Config struct {
	Status   state.Condition `json:"status" enum:"ok,degraded,failing"`
	Reasons  []state.Reason  `json:"reasons" nullable:"false" doc:"all problems of the gateway, the worst first"`
	State    Freshness       `json:"state"`
	Rules    []Rule          `json:"rules" nullable:"false" doc:"in the order of the files, for every caller"`
	Exposed  []string        `json:"exposed" nullable:"false" doc:"enabled servers for which no rule denies any tool to anybody"`
	Restored int             `json:"restored,omitempty" doc:"number of approval records that the store lost and that nobody has settled yet"`
}

// A Rule is one rule of the operator, and what it matches in the catalog.
type Rule struct {
	Rule   string   `json:"rule" doc:"where the rule is: a path of mcp_config.json, or policy.cedar with line and @id"`
	Allow  bool     `json:"allow,omitempty" doc:"the rule allows what it matches; absent: it denies"`
	Always int      `json:"always" doc:"number of tools, prompts and resources that it matches for every agent"`
	Some   int      `json:"some,omitempty" doc:"number of items that it matches for some agents, or whose match is not known without an agent"`
	Kind   string   `json:"kind,omitempty" enum:"tool,prompt,resource" doc:"kind of these items, if all have the same"`
	Server string   `json:"server,omitempty" doc:"server of these items, if all have the same"`
	Tools  []string `json:"tools,omitempty" doc:"ids of the first of these items"`
}

// maxRuleTools limits the items that a [Rule] lists.
const maxRuleTools = 20

// rules are the results of the operator's rules for one config, policy and catalog.
type rules struct {
	cfg    *config.Config
	policy *policy.Policy
	snap   *catalog.Snapshot

	all     []Rule
	exposed []string
}

// Config returns what is in use, and what is wrong with the stored files.
func (d *Service) Config(ctx context.Context) Config {
	st := d.states.Load(ctx)
	r := d.rulesOf(st)
	condition, reasons := d.allReasons(ctx, st)
	return Config{
		Status: condition, Reasons: reasons, State: freshnessOf(st),
		Rules: append([]Rule{}, r.all...), Exposed: append([]string{}, r.exposed...), Restored: st.Health.Restored,
	}
}

// rulesOf returns what the rules of st do. It keeps the result, because computing it for ten
// thousand tools takes a while.
func (d *Service) rulesOf(st *state.State) *rules {
	if st.Config == nil || st.Catalog == nil {
		return &rules{}
	}
	d.rules.Lock()
	defer d.rules.Unlock()
	if r := d.rules.last; r != nil && r.cfg == st.Config && r.policy == st.Policy && sameTools(r.snap, st.Catalog) {
		return r
	}
	r := &rules{cfg: st.Config, policy: st.Policy, snap: st.Catalog}
	tools, _ := state.Inventory(st.Config, st.Catalog)
	matches := st.Policy.Matches(st.Config, tools)
	for _, m := range matches {
		r.all = append(r.all, ruleOf(m))
	}
	r.exposed = policy.Exposed(st.Config, tools, matches)
	d.rules.last = r
	return r
}

func ruleOf(m policy.Match) Rule {
	out := Rule{Rule: m.Rule, Allow: m.Allow, Always: len(m.Always), Some: len(m.Some)}
	all := slices.Concat(m.Always, m.Some)
	if len(all) > 0 && !slices.ContainsFunc(all, func(id tool.ID) bool { return id.Server != all[0].Server }) {
		out.Server = all[0].Server
	}
	if len(all) > 0 && !slices.ContainsFunc(all, func(id tool.ID) bool { return id.Kind != all[0].Kind }) {
		out.Kind = all[0].Kind.String()
	}
	for _, id := range all[:min(len(all), maxRuleTools)] {
		out.Tools = append(out.Tools, id.String())
	}
	return out
}
