package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
)

// VerdictWithoutClaims is the verdict on one tool for an agent whose claims are not known, by the lists
// and by the rules that read no claims. unsure says that others may deny it all the same.
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

// MayDeny names the rules that deny a tool to an agent or not, depending on its claims: file, line and
// @id, for people.
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

// Exempt returns the rules that deny a tool to an agent, each as it would let this agent call this very
// tool and change nothing else: to be put in their places in policy.cedar. With unsure they are also
// those that may deny it, depending on the agent's claims. "" says that no change of a rule would do, or
// that it would not be a rule any more.
//
// Agents of one id are one to a policy, for whichever person they act.
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

// denying returns the rules that deny a tool to an agent, and with unsure those that may.
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

// exempting returns the rule's text with one condition more. It comes first, so that nothing else of the
// rule can fail for this agent, and on a line of its own, since a comment may stand after the scope.
func (r rule) exempting(agent, item cedar.EntityUID) string {
	text := r.source
	if all := statements(text); len(all) > 0 {
		text = text[:all[0].to]
	}
	at := scopeEnd(text)
	return text[:at] + "\nunless { principal == " + agent.String() + " && resource == " + item.String() + " }" + text[at:]
}
