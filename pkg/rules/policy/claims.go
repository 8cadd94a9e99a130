package policy

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// claimTypes returns types for the claims with which the policy is valid. If there are no such
// types, it returns the faults of the policy.
func (c *checker) claimTypes(policy *ast.Policy, claims [][]string) (types []resolved.IsType, problems []string) {
	candidates := []resolved.IsType{
		resolved.StringType{}, resolved.SetType{Element: resolved.StringType{}}, resolved.LongType{}, resolved.BoolType{},
	}
	// If a rule has more than five claims, the claims after the fifth count as strings. So the
	// search needs at most 4^5 tries.
	const searched = 5
	types = slices.Repeat([]resolved.IsType{candidates[0]}, len(claims))
	problems = c.validate(policy, claims, types, false)
	for try := 1; len(problems) > 0 && try < 1<<(2*min(len(claims), searched)); try++ {
		for i := range min(len(claims), searched) {
			types[i] = candidates[try>>(2*i)&3]
		}
		if len(c.validate(policy, claims, types, false)) == 0 {
			return types, nil
		}
	}
	return types, problems
}

// validate runs Cedar's validator with the claims added to the schema. It
// validates the rule for each kind of item, tools, prompts and resources, to which the rule's scope
// applies.
//
// A condition such as resource == Tool::"a:b" is a type error for a prompt, and false when the rule
// is evaluated. The scope of a rule about tools need not say that the rule is about tools. So a
// comparison has to be valid for only one of the three kinds.
func (c *checker) validate(policy *ast.Policy, claims [][]string, types []resolved.IsType, optional bool) []string {
	agent := c.schema.Entities[agentType]
	agent.Shape = maps.Clone(agent.Shape)
	for i, claim := range claims {
		declare(agent.Shape, claim, types[i], optional)
	}
	entities := maps.Clone(c.schema.Entities)
	entities[agentType] = agent
	var problems, compared, unmet []string
	seen := map[string]bool{}
	met, fits := false, false
	for _, kind := range kinds {
		s := *c.schema
		s.Entities, s.Actions = entities, c.actionsOn(kind)
		found := problemsOf(validate.New(&s).Policy("", policy))
		if slices.ContainsFunc(found, isEcho) {
			unmet = append(unmet, found...)
			continue
		}
		met = true
		before := len(compared)
		for _, problem := range found {
			switch same := anyKind(problem); {
			case incompatible.MatchString(problem):
				compared = append(compared, problem)
			case !seen[same]:
				seen[same] = true
				problems = append(problems, problem)
			}
		}
		fits = fits || len(compared) == before
	}
	switch {
	case !met:
		problems = unmet
	case !fits:
		problems = append(problems, compared...)
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

var (
	kinds = []tool.Kind{tool.Tool, tool.Prompt, tool.Resource}

	// incompatible matches the validator's message about a comparison of entities of two types.
	incompatible = regexp.MustCompile("^the types (Tool|Prompt|Resource) and (Tool|Prompt|Resource) are not compatible$")
)

// isEcho reports whether a problem only says that no action applies. This follows from another
// problem, or from a scope that excludes the kind.
func isEcho(problem string) bool {
	return strings.HasPrefix(problem, "unable to find an applicable action")
}

// anyKind returns a problem about a prompt or a resource in the words of the same problem about a
// tool.
func anyKind(problem string) string {
	return strings.NewReplacer("`Prompt`", "`Tool`", "`Resource`", "`Tool`", `"get"`, `"call"`, `"read"`, `"call"`).Replace(problem)
}

// actionsOn returns all actions, but only the action on items of the kind applies to any type.
func (c *checker) actionsOn(kind tool.Kind) map[cedar.EntityUID]resolved.Action {
	_, only := typeOf(kind)
	actions := maps.Clone(c.schema.Actions)
	for uid, action := range actions {
		if uid != only {
			action.AppliesTo = nil
			actions[uid] = action
		}
	}
	return actions
}

func problemsOf(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// declare adds the attribute at path, with the records around it.
func declare(shape resolved.RecordType, path []string, t resolved.IsType, optional bool) {
	name := cedar.String(path[0])
	if len(path) > 1 {
		inner, ok := shape[name].Type.(resolved.RecordType)
		if !ok {
			inner = resolved.RecordType{}
		}
		declare(inner, path[1:], t, optional)
		t = inner
	}
	shape[name] = resolved.Attribute{Type: t, Optional: optional}
}

// claimsOf returns the paths of the principal's attributes that a policy reads and the schema does
// not declare, such as team or org.unit. It leaves out a path that is the start of another path.
func claimsOf(policy *ast.Policy, declared resolved.RecordType) [][]string {
	found := map[string][]string{}
	see := func(n ast.StrOpNode) {
		if path := principalPath(n); path != nil {
			if _, ok := declared[cedar.String(path[0])]; !ok {
				found[strings.Join(path, "\x00")] = path
			}
		}
	}
	inspect(policy, func(n ast.IsNode) {
		switch n := n.(type) {
		case ast.NodeTypeAccess:
			see(n.StrOpNode)
		case ast.NodeTypeHas:
			see(n.StrOpNode)
		}
	})
	var paths [][]string
	keys := slices.Sorted(maps.Keys(found))
	for _, key := range keys {
		if !slices.ContainsFunc(keys, func(other string) bool { return strings.HasPrefix(other, key+"\x00") }) {
			paths = append(paths, found[key])
		}
	}
	return paths
}

// principalPath returns the attribute path of an access that begins at the principal, or nil.
func principalPath(n ast.StrOpNode) []string {
	if isVariable(n.Arg, "principal") {
		return []string{string(n.Value)}
	}
	if inner, ok := n.Arg.(ast.NodeTypeAccess); ok {
		if path := principalPath(inner.StrOpNode); path != nil {
			return append(path, string(n.Value))
		}
	}
	return nil
}
