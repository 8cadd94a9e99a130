package policy

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// Longest annotations of a rule, in characters. Agents get them with each tool that the rule
// denies, and pay for every word.
const (
	maxID      = 128
	maxReason  = 500
	maxContact = 200
)

const (
	maxFile = 1 << 20 // bytes
	maxRule = 1 << 15 // bytes; the Cedar parser's stack grows with the nesting, which a rule's length bounds
)

// Parse reads policy.cedar and checks every rule against schema.cedarschema. A file with any fault
// yields no policy; the error is then [config.Faults], in which a fault's path is the rule's @id,
// if it has one. Empty data gives the empty policy.
//
// Permit rules are allowed and change nothing, since the gateway permits everything that no forbid
// matches. A permit with a scope or a condition gets a warning. Parse refuses a file with such
// permits and without any forbid: its author expects that the gateway denies everything else.
func Parse(data []byte) (*Policy, error) {
	if len(data) > maxFile {
		return nil, config.Faults{{Message: "the file is larger than 1 MiB"}}
	}
	list, faults := read(string(data))
	if len(faults) > 0 {
		return nil, faults
	}
	p := &Policy{reads: map[cedar.String]bool{}}
	var narrow []rule // permits with a scope or a condition
	ids := map[string]int{}
	check := newChecker()
	for _, r := range list {
		faults = append(faults, check.annotations(r, ids)...)
		bad, warnings := check.rule(r)
		faults, p.warnings = append(faults, bad...), append(p.warnings, warnings...)
		switch {
		case r.policy.Effect() == cedar.Forbid:
			r.claims = len(claimsOf((*ast.Policy)(r.policy.AST()), check.schema.Entities[agentType].Shape)) > 0
			p.forbids = append(p.forbids, r)
			attributes((*ast.Policy)(r.policy.AST()), p.reads)
		case !everything(r.policy):
			narrow = append(narrow, r)
		}
	}
	for _, r := range narrow {
		const what = "grants nothing: everything that no forbid matches is permitted"
		if len(p.forbids) == 0 {
			faults = append(faults, r.fault("this permit "+what+"; write a forbid for what shall be denied"))
		} else {
			p.warnings = append(p.warnings, r.fault("this permit "+what+"; write an exception from a forbid as its unless clause"))
		}
	}
	if len(faults) > 0 {
		return nil, inOrder(faults)
	}
	p.warnings = inOrder(p.warnings)
	return p, nil
}

// attributes adds the name of every attribute that a rule reads, of any entity, to the set names.
func attributes(policy *ast.Policy, names map[cedar.String]bool) {
	inspect(policy, func(n ast.IsNode) {
		switch n := n.(type) {
		case ast.NodeTypeAccess:
			names[n.Value] = true
		case ast.NodeTypeHas:
			names[n.Value] = true
		}
	})
}

func inOrder(faults config.Faults) config.Faults {
	slices.SortStableFunc(faults, func(a, b config.Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return faults
}

// fault returns a fault at the start of the rule.
func (r rule) fault(message string) config.Fault {
	pos := r.policy.Position()
	return config.Fault{Path: r.denial.ID, Line: pos.Line, Col: pos.Column, Message: message}
}

// faultAt returns a fault at the first occurrence of word in the rule, or at the start of the
// rule. The Cedar validator reports what is wrong, but not where.
func (r rule) faultAt(word, message string) config.Fault {
	f := r.fault(message)
	for from := 0; word != ""; {
		i := strings.Index(r.source[from:], word)
		if i < 0 {
			break
		}
		i += from
		from = i + len(word)
		if !partOfWord(r.source[:i], r.source[from:]) {
			line, col := place(r.source, i)
			if line == 1 {
				col += f.Col - 1
			}
			f.Line, f.Col = f.Line+line-1, col
			break
		}
	}
	return f
}

// partOfWord reports whether the text between before and after is only a part of a longer word.
func partOfWord(before, after string) bool {
	word := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	return word(last) || word(first)
}

// read parses the Cedar text. The parser stops at the first fault, so read parses a faulty text
// again, statement by statement, to find all faults.
func read(source string) ([]rule, config.Faults) {
	if !utf8.ValidString(source) {
		return nil, config.Faults{{Message: "the file is not UTF-8"}}
	}
	var faults config.Faults
	for _, s := range statements(source) {
		if s.to-s.from > maxRule {
			line, col := place(source, s.from)
			faults = append(faults, config.Fault{Line: line, Col: col, Message: "this rule is longer than 32 KiB"})
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	policies, err := cedar.NewPolicyListFromBytes("", []byte(source))
	if err != nil {
		return nil, syntaxFaults(source, err)
	}
	rules := make([]rule, len(policies))
	for i, p := range policies {
		end := len(source)
		if i+1 < len(policies) {
			end = policies[i+1].Position().Offset
		}
		said := func(name types.AnnotationKey) string { return text.Line(string(p.Annotations()[name])) }
		rules[i] = rule{
			policy: p,
			denial: Denial{said("id"), said("reason"), said("contact")},
			line:   p.Position().Line,
			source: source[p.Position().Offset:end],
		}
	}
	return rules, nil
}
