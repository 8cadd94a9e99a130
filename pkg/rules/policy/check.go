package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A checker checks rules against the schema.
type checker struct{ schema *resolved.Schema }

// newChecker returns a checker with the schema of schema.cedarschema, written as Go, because a
// parser of the file would add 0.04 MB to each function's zip. A test compares the two schemas.
func newChecker() *checker {
	text := resolved.Attribute{Type: resolved.StringType{}}
	flag := resolved.Attribute{Type: resolved.BoolType{}}
	item := resolved.RecordType{
		"server": text, "name": text, "tier": text,
		"readOnly": flag, "destructive": flag, "idempotent": flag, "openWorld": flag,
	}
	agent := resolved.Entity{Name: agentType, Shape: resolved.RecordType{"id": text, "kind": text}}
	s := &resolved.Schema{
		Entities: map[cedar.EntityType]resolved.Entity{agentType: agent},
		Actions:  map[cedar.EntityUID]resolved.Action{},
	}
	for _, kind := range kinds {
		t, action := typeOf(kind)
		s.Entities[t] = resolved.Entity{Name: t, Shape: item}
		s.Actions[action] = resolved.Action{
			Entity: cedar.Entity{UID: action},
			AppliesTo: &resolved.AppliesTo{
				Principals: []cedar.EntityType{agentType}, Resources: []cedar.EntityType{t},
				Context: resolved.RecordType{},
			},
		}
	}
	return &checker{s}
}

// annotations checks a rule's annotations. ids maps each used @id to the line of its rule.
func (c *checker) annotations(r rule, ids map[string]int) config.Faults {
	var faults config.Faults
	for _, a := range []struct {
		name, text string
		limit      int
	}{{"id", r.denial.ID, maxID}, {"reason", r.denial.Reason, maxReason}, {"contact", r.denial.Contact, maxContact}} {
		if n := utf8.RuneCountInString(a.text); n > a.limit {
			faults = append(faults, r.faultAt("@"+a.name, fmt.Sprintf("@%s has %d characters, at most %d are allowed", a.name, n, a.limit)))
		}
	}
	if line, ok := ids[r.denial.ID]; ok && r.denial.ID != "" {
		faults = append(faults, r.faultAt("@id", fmt.Sprintf("the rule in line %d has this @id already", line)))
	}
	ids[r.denial.ID] = r.line
	return faults
}

// rule checks a rule's names and types. The schema does not contain the claims that the rule
// reads; the checker assumes types that make the rule valid, if there are any.
func (c *checker) rule(r rule) (faults, warnings config.Faults) {
	policy := (*ast.Policy)(r.policy.AST())
	faults = c.checkLiterals(r, policy)
	claims := claimsOf(policy, c.schema.Entities[agentType].Shape)
	types, problems := c.claimTypes(policy, claims)
	for _, problem := range problems {
		if len(problems) > 1 && isEcho(problem) {
			continue // a consequence of the other problem
		}
		if strings.HasPrefix(problem, "unrecognized action") {
			problem += "; there is " + c.actions()
		}
		const limit = 300 // characters; the type of a nested expression can be as long as the rule
		faults = append(faults, r.faultAt(quoted(problem), "not what the schema says: "+text.Clip(problem, limit)))
	}
	if len(faults) > 0 {
		return faults, nil
	}
	if r.policy.Effect() == cedar.Forbid && len(c.validate(policy, claims, types, true)) > 0 {
		var names []string
		for _, claim := range claims {
			names = append(names, "principal."+claim[0])
		}
		slices.Sort(names)
		warnings = append(warnings, r.fault("reads "+strings.Join(slices.Compact(names), ", ")+
			" without has; an agent without the claim finds everything locked that the rule could match"))
	}
	return nil, warnings
}

// actions returns the names of every action of the schema, as rules write them.
func (c *checker) actions() string {
	var names []string
	for action := range c.schema.Actions {
		names = append(names, action.String())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// ways are the values of principal.kind.
var ways = []string{identity.WayJWT, identity.WayToken, identity.WayIAM, identity.WayNone}

// checkLiterals finds types, tools, tiers and kinds that do not exist and would never match.
// Cedar's validator accepts them.
func (c *checker) checkLiterals(r rule, policy *ast.Policy) config.Faults {
	l := literals{c: c, r: r}
	if uid, ok := entityOf(policy.Resource); ok {
		l.entity(uid)
	}
	inspect(policy, l.node)
	return l.faults
}

// literals collects the faults of a rule's literals.
type literals struct {
	c      *checker
	r      rule
	faults config.Faults
}

func (l *literals) fault(literal, format string, args ...any) {
	l.faults = append(l.faults, l.r.faultAt(literal, fmt.Sprintf(format, args...)))
}

func (l *literals) node(n ast.IsNode) {
	switch n := n.(type) {
	case ast.NodeValue:
		if uid, ok := n.Value.(cedar.EntityUID); ok {
			l.entity(uid)
		}
	case ast.NodeTypeIs:
		l.kind(n.EntityType)
	case ast.NodeTypeIsIn:
		l.kind(n.EntityType)
	case ast.NodeTypeEquals:
		l.compare(n.Left, n.Right)
		l.compare(n.Right, n.Left)
	case ast.NodeTypeNotEquals:
		l.compare(n.Left, n.Right)
		l.compare(n.Right, n.Left)
	case ast.NodeTypeContains:
		if set, ok := n.Left.(ast.NodeTypeSet); ok {
			for _, elem := range set.Elements {
				l.compare(n.Right, elem)
			}
		}
	}
}

func (l *literals) entity(uid cedar.EntityUID) {
	id, err := tool.ParseID(string(uid.ID))
	for kind, form := range map[tool.Kind]string{tool.Tool: "tool", tool.Prompt: "prompt:name", tool.Resource: "resource:uri"} {
		if t, _ := typeOf(kind); uid.Type == t && (err != nil || id.Kind != kind) {
			l.fault(string(uid.ID), "a %v is written %s::\"server:%s\", not %s::%q", kind, t, form, t, uid.ID)
		}
	}
}

func (l *literals) kind(t cedar.EntityType) {
	if _, ok := l.c.schema.Entities[t]; !ok {
		l.fault(string(t), "there is no entity type %s, only Agent, Tool, Prompt and Resource", t)
	}
}

// compare checks the literal in a comparison, if a is a known attribute and b a literal.
func (l *literals) compare(a, b ast.IsNode) {
	access, _ := a.(ast.NodeTypeAccess)
	literal, _ := b.(ast.NodeValue)
	s, ok := literal.Value.(cedar.String)
	switch {
	case !ok:
	case access.Value == "tier" && isVariable(access.Arg, "resource"):
		if _, err := tool.ParseTier(string(s)); err != nil {
			l.fault(string(s), "%s", err.Error())
		}
	case access.Value == "kind" && isVariable(access.Arg, "principal") && !slices.Contains(ways, string(s)):
		l.fault(string(s), "%q is no kind of agent: want one of %s", s, strings.Join(ways, ", "))
	}
}

// quoted returns the text between the first backquotes of a problem, so that the caller can find it
// in the rule. If the text is a path, it returns only the last name.
func quoted(problem string) string {
	m := regexp.MustCompile("`([^`]+)`").FindStringSubmatch(problem)
	if m == nil {
		return ""
	}
	if strings.Contains(m[1], `"`) {
		return m[1]
	}
	return m[1][strings.LastIndexByte(m[1], '.')+1:]
}

// everything reports whether a rule has neither a scope nor a condition.
func everything(p *cedar.Policy) bool {
	policy := (*ast.Policy)(p.AST())
	return len(policy.Conditions) == 0 && policy.Principal == ast.Scope{}.All() && policy.Action == ast.Scope{}.All() && policy.Resource == ast.Scope{}.All()
}

// inspect calls see for every node of the policy's conditions.
func inspect(policy *ast.Policy, see func(ast.IsNode)) {
	for _, c := range policy.Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			see(n)
			return true
		})
	}
}

func isVariable(n ast.IsNode, name cedar.String) bool {
	v, ok := n.(ast.NodeTypeVariable)
	return ok && v.Name == name
}
