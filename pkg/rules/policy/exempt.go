package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
)

// VerdictWithoutClaims returns the verdict on one tool for an agent with unknown claims, by the
// lists and by the rules that read no claims. unsure says that other rules may still deny the
// tool.
func (p *Policy) VerdictWithoutClaims(cfg *config.Config, agent identity.Agent, t Tool) (v Verdict, unsure bool) {
	if p == nil {
		return p.Verdicts(cfg, agent, []Tool{t})[0], false
	}
	known := &Policy{reads: p.reads}
	for _, r := range p.forbids {
		if !r.claims {
			known.forbids = append(known.forbids, r)
		}
	}
	v = known.Verdicts(cfg, agent, []Tool{t})[0]
	return v, v.Denied != lock.Yes && len(p.mayDeny(agent, t)) > 0
}

// MayDeny returns the rules that may deny a tool to an agent, depending on its claims: file, line
// and @id, for people.
func (p *Policy) MayDeny(agent identity.Agent, t Tool) (names []string) {
	for _, r := range p.mayDeny(agent, t) {
		names = append(names, r.where())
	}
	return names
}

func (p *Policy) mayDeny(agent identity.Agent, t Tool) (out rules) {
	if p == nil {
		return nil
	}
	for _, r := range p.forbids.about(agentEntity(agent).UID) {
		if m := r.match([]Tool{t}); r.claims && len(m.Always)+len(m.Some) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// Exempt returns the rules that deny a tool to an agent, each with an exemption for this agent and
// this tool that changes nothing else. They replace the rules in policy.cedar. If unsure is set,
// Exempt also returns the rules that may deny the tool, depending on the agent's claims. It
// returns "" if no change of a rule would help, or if the result would not be a valid rule.
//
// A policy does not distinguish the users of one agent id.
func (p *Policy) Exempt(agent identity.Agent, t Tool, unsure bool) string {
	var texts []string
	for _, r := range p.denying(agent, t, unsure) {
		texts = append(texts, r.exempting(agentEntity(agent).UID, toolEntity(t, nil).UID))
	}
	text := strings.Join(texts, "\n\n")
	changed, err := Parse([]byte(text))
	if err != nil || len(texts) == 0 || changed.judge(agent).verdict(t).Denied != lock.No {
		return ""
	}
	return text
}

// denying returns the rules that deny a tool to an agent, and with unsure also the rules that may
// deny it.
func (p *Policy) denying(agent identity.Agent, t Tool, unsure bool) (out rules) {
	if p == nil {
		return nil
	}
	if unsure {
		out = p.mayDeny(agent, t)
	}
	for _, r := range p.forbids.about(agentEntity(agent).UID) {
		one := &Policy{forbids: rules{r}, reads: p.reads}
		if (!unsure || !r.claims) && one.judge(agent).verdict(t).Denied == lock.Yes {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b rule) int { return a.line - b.line })
	return out
}

// exempting returns the rule's text with one more condition. The condition comes first, so that no
// other part of the rule can fail for this agent. It has its own line, because a comment may
// follow the scope.
func (r rule) exempting(agent, item cedar.EntityUID) string {
	text := r.source
	if all := statements(text); len(all) > 0 {
		text = text[:all[0].to]
	}
	at := scopeEnd(text)
	return text[:at] + "\nunless { principal == " + agent.String() + " && resource == " + item.String() + " }" + text[at:]
}
