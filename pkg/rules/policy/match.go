package policy

import (
	"slices"
	"strconv"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/eval"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Match is one operator rule and the items that it matches in a catalog, for all callers. A rule
// with neither Always nor Some matches nothing.
type Match struct {
	Rule   string    // JSON path of a list or of its entry, or policy.cedar:line and @id
	Allow  bool      // an entry of enabled_tools, which allows what it matches
	Always []tool.ID // matched for every agent
	Some   []tool.ID // matched for some agents, or unknown without an agent
}

// Matches returns the items that each rule matches, in the order of the files: each server's
// lists, the global list, then Cedar's forbids. It is for people, before a deployment; p may be
// nil.
func (p *Policy) Matches(cfg *config.Config, tools []Tool) []Match {
	var out []Match
	byServer := map[string][]tool.ID{}
	for _, t := range tools {
		byServer[t.ID.Server] = append(byServer[t.ID.Server], t.ID)
	}
	for _, s := range cfg.Servers {
		out = append(out, serverMatches(s, byServer[s.Name])...)
	}
	for i, text := range cfg.Tools.Disabled {
		entry := parseEntry(text)
		m := Match{Rule: "tools.disabled[" + strconv.Itoa(i) + "]"}
		for _, t := range tools {
			if entry.matches(t.ID) {
				m.Always = append(m.Always, t.ID)
			}
		}
		out = append(out, m)
	}
	if p == nil {
		return out
	}
	for _, r := range p.forbids {
		out = append(out, r.match(tools))
	}
	return out
}

// Exposed returns the enabled servers whose tools no rule denies to anybody. Every agent that may
// see such a server may call every tool that the server lists.
func Exposed(cfg *config.Config, tools []Tool, matches []Match) []string {
	denied := map[string]bool{}
	for _, m := range matches {
		for _, id := range slices.Concat(m.Always, m.Some) {
			denied[id.Server] = denied[id.Server] || !m.Allow && id.Kind == tool.Tool
		}
	}
	var names []string
	for _, s := range cfg.Servers {
		listed := slices.ContainsFunc(tools, func(t Tool) bool { return t.ID.Server == s.Name && t.ID.Kind == tool.Tool })
		if s.Enabled && listed && !denied[s.Name] {
			names = append(names, s.Name)
		}
	}
	return names
}

// serverMatches returns the items that the lists of one server match.
func serverMatches(s config.Server, ids []tool.ID) []Match {
	var out []Match
	some := func(rule string, kind tool.Kind, allow bool, matches func(id tool.ID) bool) {
		m := Match{Rule: rule, Allow: allow}
		for _, id := range ids {
			if id.Kind == kind && matches(id) {
				m.Always = append(m.Always, id)
			}
		}
		out = append(out, m)
	}
	enabled := serverPath(s.Name, "enabled_tools")
	if len(s.EnabledTools) > 0 {
		some(enabled, tool.Tool, false, func(id tool.ID) bool {
			return !slices.ContainsFunc(s.EnabledTools, func(glob string) bool { return tool.MatchGlob(glob, id.Name) })
		})
	}
	for i, glob := range s.EnabledTools {
		some(enabled+"["+strconv.Itoa(i)+"]", tool.Tool, true, func(id tool.ID) bool { return tool.MatchGlob(glob, id.Name) })
	}
	for _, kind := range []tool.Kind{tool.Tool, tool.Prompt, tool.Resource} {
		key, globs := disabledOf(&s, kind)
		for i, glob := range globs {
			some(serverPath(s.Name, key)+"["+strconv.Itoa(i)+"]", kind, false, func(id tool.ID) bool { return tool.MatchGlob(glob, id.Name) })
		}
	}
	return out
}

// match evaluates a rule on tools without an agent: parts that depend on the agent are unknown.
func (r rule) match(tools []Tool) Match {
	m := Match{Rule: r.where()}
	body := eval.PolicyToNode((*ast.Policy)(r.policy.AST())).AsIsNode()
	env := eval.Env{
		Principal: cedar.NewEntityUID(agentType, ""), // only its type is read
		Context:   cedar.NewRecord(nil),
	}
	for _, t := range tools {
		entity := toolEntity(t, nil)
		_, action := typeOf(t.ID.Kind)
		env.Action, env.Resource, env.Entities = action, entity.UID, &entities{tool: entity}
		switch evaluatePartly(body, env) {
		case lock.Yes:
			m.Always = append(m.Always, t.ID)
		case lock.Unknown:
			m.Some = append(m.Some, t.ID)
		}
	}
	return m
}

// evaluatePartly evaluates a condition with an unknown principal. A part that reads the principal,
// or that fails, is unknown. The known parts of "and", "or", "not" and "if" may still decide the
// result.
func evaluatePartly(n ast.IsNode, env eval.Env) lock.Fact {
	switch n := n.(type) {
	case ast.NodeTypeAnd:
		return both(evaluatePartly(n.Left, env), evaluatePartly(n.Right, env))
	case ast.NodeTypeOr:
		return both(evaluatePartly(n.Left, env).Not(), evaluatePartly(n.Right, env).Not()).Not()
	case ast.NodeTypeNot:
		return evaluatePartly(n.Arg, env).Not()
	case ast.NodeTypeIfThenElse:
		yes, no := evaluatePartly(n.Then, env), evaluatePartly(n.Else, env)
		switch cond := evaluatePartly(n.If, env); {
		case cond == lock.Yes || yes == no:
			return yes
		case cond == lock.No:
			return no
		}
		return lock.Unknown
	case ast.NodeTypeIs:
		if isVariable(n.Left, "principal") { // the same for every agent
			return evaluate(n, env)
		}
	}
	if readsPrincipal(n) {
		return lock.Unknown
	}
	return evaluate(n, env)
}

func evaluate(n ast.IsNode, env eval.Env) lock.Fact {
	v, err := eval.Eval(n, env)
	if b, ok := v.(cedar.Boolean); err == nil && ok {
		return lock.FactOf(bool(b))
	}
	return lock.Unknown
}

func readsPrincipal(n ast.IsNode) bool {
	found := false
	ast.Inspect(ast.NewNode(n), func(n ast.IsNode) bool {
		found = found || isVariable(n, "principal")
		return !found
	})
	return found
}

func both(a, b lock.Fact) lock.Fact {
	switch {
	case a == lock.No || b == lock.No:
		return lock.No
	case a == lock.Yes && b == lock.Yes:
		return lock.Yes
	}
	return lock.Unknown
}
