package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxDenials is the number of denying rules that the agent learns. More rules would not change what
// the agent can do.
const maxDenials = 3

// cedarRule starts the position of a rule of the policy; a list's entry has a JSON path.
const cedarRule = "policy.cedar:"

// ByList reports whether a list of mcp_config.json denies; the policy was not evaluated then.
func (v Verdict) ByList() bool {
	return len(v.Rules) > 0 && !strings.HasPrefix(v.Rules[0], cedarRule)
}

// Verdicts returns the verdict on each tool for one agent, as [Judge.Verdict] does; verdicts[i] is
// the verdict on tools[i].
func (p *Policy) Verdicts(cfg *config.Config, agent identity.Agent, tools []Tool) []Verdict {
	verdicts := make([]Verdict, len(tools))
	judge := p.Judge(cfg, agent)
	for i, t := range tools {
		verdicts[i] = judge.Verdict(t)
	}
	return verdicts
}

// A Judge applies one config and policy to tools for one agent. It is not safe for concurrent use.
type Judge struct {
	*judge
	lists lists
	last  *config.Server // of the previous tool: tools of a server mostly follow each other
}

// Judge returns the judge of an agent's tools. With a nil Policy, a verdict is unknown unless the
// lists deny.
func (p *Policy) Judge(cfg *config.Config, agent identity.Agent) *Judge {
	return &Judge{judge: p.judge(agent), lists: compileLists(cfg)}
}

// Verdict returns the verdict on a tool. The lists come first, then Cedar: only a tool that no
// list denies costs an evaluation. Prompts and resources count as tools, with their own action.
// The verdict is unknown for a tool whose server is not in the config.
//
// If several forbids match a tool, the verdict quotes the first three in the file. A forbid that
// fails makes the verdict unknown, unless another one denies.
func (j *Judge) Verdict(t Tool) Verdict {
	if j.last == nil || j.last.Name != t.ID.Server {
		if j.last = j.lists.servers[t.ID.Server]; j.last == nil {
			return Verdict{}
		}
	}
	if rule := j.lists.denies(j.last, t.ID); rule != "" {
		return Verdict{Denied: lock.Yes, Rules: []string{rule}}
	}
	if j.policy == nil {
		return Verdict{}
	}
	return j.verdict(t)
}

// A judge has the data that all verdicts for one agent share.
type judge struct {
	policy   *Policy
	rules    rules // that can be about the agent
	entities entities
	request  cedar.Request
	known    map[string]Verdict // by the rules that decided
}

func (p *Policy) judge(agent identity.Agent) *judge {
	j := &judge{policy: p, entities: entities{agent: agentEntity(agent)}, known: map[string]Verdict{}}
	if p != nil {
		j.rules = p.forbids.about(j.entities.agent.UID)
	}
	j.request = cedar.Request{
		Principal: j.entities.agent.UID,
		Context:   cedar.NewRecord(nil),
	}
	return j
}

// verdict evaluates the rules. All are forbids, so any match denies; without a match the tool is
// permitted.
func (j *judge) verdict(t Tool) Verdict {
	j.policy.evaluations.Add(1)
	if len(j.rules) == 0 {
		return Verdict{Denied: lock.No}
	}
	j.entities.tool = toolEntity(t, j.policy.reads)
	_, j.request.Action = typeOf(t.ID.Kind)
	j.request.Resource = j.entities.tool.UID
	_, found := cedar.Authorize(j.rules, &j.entities, j.request)
	switch {
	case len(found.Reasons) > 0:
		var key strings.Builder
		for _, r := range found.Reasons {
			key.WriteString(string(r.PolicyID) + " ")
		}
		return j.memo(key.String(), func() Verdict { return j.denied(found.Reasons) })
	case len(found.Errors) > 0:
		return j.failed(found.Errors)
	}
	return Verdict{Denied: lock.No}
}

func (j *judge) memo(key string, make func() Verdict) Verdict {
	v, ok := j.known[key]
	if !ok {
		v = make()
		j.known[key] = v
	}
	return v
}

// rule returns the rule that has this id in the authorizer.
func (j *judge) rule(id cedar.PolicyID) rule {
	i, err := strconv.Atoi(string(id))
	if err != nil {
		panic("policy: the authorizer made up the rule " + string(id))
	}
	return j.rules[i]
}

// denied joins the annotations of the matching rules, in the order of the file.
func (j *judge) denied(reasons []cedar.DiagnosticReason) Verdict {
	v := Verdict{Denied: lock.Yes}
	var ids, texts, contacts []string
	for i, reason := range reasons {
		r := j.rule(reason.PolicyID)
		v.Rules = append(v.Rules, r.where())
		if i < maxDenials {
			ids, texts, contacts = add(ids, r.denial.ID), add(texts, r.denial.Reason), add(contacts, r.denial.Contact)
		}
	}
	v.Denial = Denial{strings.Join(ids, ", "), sentences(texts), strings.Join(contacts, ", ")}
	return v
}

// sentences joins reasons: with a semicolon, unless the previous one ends with a stop.
func sentences(texts []string) string {
	var b strings.Builder
	for i, text := range texts {
		if i > 0 && !strings.ContainsAny(texts[i-1][len(texts[i-1])-1:], ".!?;") {
			b.WriteByte(';')
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(text)
	}
	return b.String()
}

// add appends s unless it is empty or already in list.
func add(list []string, s string) []string {
	if s == "" || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func (j *judge) failed(errors []cedar.DiagnosticError) Verdict {
	v := Verdict{Denied: lock.Unknown, Err: errors[0].Message}
	for _, e := range errors {
		v.Rules = append(v.Rules, j.rule(e.PolicyID).where())
	}
	return v
}

// lists are the deny lists of a config, by server.
type lists struct {
	servers  map[string]*config.Server
	disabled []entry // the global list
}

func compileLists(cfg *config.Config) lists {
	l := lists{servers: map[string]*config.Server{}}
	if cfg == nil {
		return l
	}
	for i := range cfg.Servers {
		l.servers[cfg.Servers[i].Name] = &cfg.Servers[i]
	}
	for _, s := range cfg.Tools.Disabled {
		l.disabled = append(l.disabled, parseEntry(s))
	}
	return l
}

// denies returns the JSON path of the list entry that denies an item, or "".
func (l lists) denies(s *config.Server, id tool.ID) string {
	matches := func(glob string) bool { return tool.MatchGlob(glob, id.Name) }
	key, globs := disabledOf(s, id.Kind)
	if i := slices.IndexFunc(globs, matches); i >= 0 {
		return serverPath(s.Name, key) + "[" + strconv.Itoa(i) + "]"
	}
	if id.Kind == tool.Tool && len(s.EnabledTools) > 0 && !slices.ContainsFunc(s.EnabledTools, matches) {
		return serverPath(s.Name, "enabled_tools")
	}
	if i := slices.IndexFunc(l.disabled, func(e entry) bool { return e.matches(id) }); i >= 0 {
		return "tools.disabled[" + strconv.Itoa(i) + "]"
	}
	return ""
}

// disabledOf returns the server's deny list for items of a kind, and the list's key.
func disabledOf(s *config.Server, k tool.Kind) (key string, globs []string) {
	switch k {
	case tool.Prompt:
		return "disabled_prompts", s.DisabledPrompts
	case tool.Resource:
		return "disabled_resources", s.DisabledResources
	default:
		return "disabled_tools", s.DisabledTools
	}
}

// serverPath returns the JSON path of a server's list.
func serverPath(server, list string) string {
	return config.JoinPath("mcpServers", server) + "." + list
}

// An entry is an entry of the global list. An entry without a server matches tools of that name on
// every server: in a deny list, the wider reading is the safe one.
type entry struct {
	id   tool.ID
	bare bool
}

func parseEntry(s string) entry {
	id, err := tool.ParseID(s)
	if err != nil {
		return entry{tool.ID{Name: s}, true}
	}
	return entry{id: id}
}

// matches reports whether the entry names the item.
func (e entry) matches(id tool.ID) bool {
	switch {
	case e.id.Kind != id.Kind || !e.bare && e.id.Server != id.Server:
		return false
	case !e.bare && e.id.IsGlob():
		return tool.MatchGlob(e.id.Name, id.Name)
	}
	return e.id.Name == id.Name
}
