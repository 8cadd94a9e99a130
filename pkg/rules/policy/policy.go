// Package policy decides what the operator denies: first by the lists of mcp_config.json, then by
// the Cedar rules of policy.cedar.
//
// It is a deny policy. A tool that no rule forbids is permitted, so that an operator without a
// policy file has a working gateway; approvals, scopes and tiers apply in addition. A rule that
// cannot be evaluated permits nothing: the tool's verdict is then unknown, which locks it.
package policy

import (
	"iter"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Key is the policy's key in the object store.
const Key = "config/policy.cedar"

// A Policy is a parsed, checked policy.cedar. It is immutable and safe for concurrent use. A nil
// Policy means that the file could not be read.
type Policy struct {
	forbids     rules
	reads       map[cedar.String]bool // names of the attributes that any forbid reads
	warnings    config.Faults
	evaluations atomic.Int64
}

// A rule is one forbid.
type rule struct {
	policy *cedar.Policy
	denial Denial
	line   int
	source string // the text from this rule up to the next
	claims bool   // it reads claims of the agent: attributes that the schema does not declare
}

// where returns the file, line and @id of a rule, for people.
func (r rule) where() string {
	return strings.TrimSpace(cedarRule + strconv.Itoa(r.line) + " " + r.denial.ID)
}

// rules are the forbids of a file, in its order.
type rules []rule

// All yields the rules to the Cedar authorizer; there, the id of a rule is its index.
func (rs rules) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for i, r := range rs {
			if !yield(cedar.PolicyID(strconv.Itoa(i)), r.policy) {
				return
			}
		}
	}
}

// about returns the rules whose scope does not name another agent. Scopes are evaluated first and
// cannot fail, so the other rules would neither match nor fail.
func (rs rules) about(agent cedar.EntityUID) rules {
	var out rules
	for _, r := range rs {
		if named, ok := entityOf((*ast.Policy)(r.policy.AST()).Principal); !ok || named == agent {
			out = append(out, r)
		}
	}
	return out
}

// entityOf returns the entity in a scope. "in" means the same as "==": agents and tools have no
// parents.
func entityOf(scope any) (cedar.EntityUID, bool) {
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		return s.Entity, true
	case ast.ScopeTypeIn:
		return s.Entity, true
	case ast.ScopeTypeIsIn:
		return s.Entity, true
	}
	return cedar.EntityUID{}, false
}

// A Tool has the properties of a tool or another item that rules can use. Annotations and Tier are
// the effective ones, after the operator's overrides.
type Tool struct {
	ID          tool.ID
	Annotations tool.Annotations
	Tier        tool.Tier
}

// A Denial has the texts of the deciding rules for the agent. All may be empty; they have no
// control characters.
type Denial struct {
	ID      string `json:"id,omitempty"`      // @id
	Reason  string `json:"reason,omitempty"`  // @reason
	Contact string `json:"contact,omitempty"` // @contact
}

// Note returns the text for the agent, in one line; "" if the rules have none.
func (d Denial) Note() string {
	var more []string
	if d.ID != "" {
		more = append(more, "rule "+d.ID)
	}
	if d.Contact != "" {
		more = append(more, "contact "+d.Contact)
	}
	switch {
	case len(more) == 0:
		return d.Reason
	case d.Reason == "":
		return strings.Join(more, ", ")
	}
	return d.Reason + " (" + strings.Join(more, ", ") + ")"
}

// A Verdict is the result of the operator's rules for one tool and one agent. The zero Verdict is
// unknown.
type Verdict struct {
	Denied lock.Fact
	Denial Denial   // of the Cedar rules that decided; zero if a list did
	Rules  []string // file and line of the rules that decided or failed; for people, never for agents; do not modify
	Err    string   // why a rule failed, if Denied is Unknown; for the log, never for agents
}

// Empty returns the policy of a gateway without a policy file: it forbids nothing.
func Empty() *Policy { return &Policy{} }

// Warnings returns rules that are allowed and look wrong. The policy can still be used.
func (p *Policy) Warnings() config.Faults {
	if p == nil {
		return nil
	}
	return p.warnings
}

// Evaluations returns how many tools Cedar has evaluated since the policy was parsed.
func (p *Policy) Evaluations() int64 {
	if p == nil {
		return 0
	}
	return p.evaluations.Load()
}
