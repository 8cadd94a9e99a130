// Package policy decides what the operator denies: first by the lists of
// mcp_config.json, then by the Cedar rules of policy.cedar.
//
// It is a deny policy. A tool that no rule forbids is permitted, so that an
// operator without a policy file has a working gateway, and approvals, scopes
// and tiers still stand. A rule that cannot be evaluated permits nothing: the
// tool's verdict is then unknown, which locks it.
package policy

import (
	"errors"
	"sync/atomic"

	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// Key is where the object store holds the policy.
const Key = "config/policy.cedar"

// A Policy is a parsed, checked policy.cedar. It is immutable and safe for
// concurrent use. A nil Policy stands for one that could not be read.
type Policy struct {
	evaluations atomic.Int64
}

// A Tool is what a rule can know of a tool. Annotations and Tier are the
// effective ones, after the operator's overrides.
type Tool struct {
	ID          tool.ID
	Annotations tool.Annotations
	Tier        tool.Tier
}

// A Denial is what a rule's author has to say to the agent. All may be empty.
type Denial struct {
	ID      string // @id
	Reason  string // @reason
	Contact string // @contact
}

// A Verdict is what the operator's rules say of one tool for one agent. The
// zero Verdict is unknown.
type Verdict struct {
	Denied lock.Fact
	Denial Denial   // set only if Denied is Yes, and only by Cedar rules
	Rules  []string // where the deciding or failed rules stand; for people, never for agents
}

// Empty returns the policy of a gateway without a policy file: it forbids nothing.
func Empty() *Policy { return &Policy{} }

// Parse reads and checks policy.cedar. A file with anything wrong in it yields
// no policy; the error is then [config.Faults]. No data is the empty policy.
func Parse(data []byte) (*Policy, error) { return nil, errors.New("not written yet") }

// Warnings are rules that are allowed and look wrong. They do not keep the policy from being used.
func (p *Policy) Warnings() config.Faults { return nil }

// Evaluations returns how many tools Cedar has judged since the policy was parsed.
func (p *Policy) Evaluations() int64 {
	if p == nil {
		return 0
	}
	return p.evaluations.Load()
}

// Note returns what reaches the agent, in one line; "" if the rule's author said nothing.
func (d Denial) Note() string { return d.Reason }

// Verdicts judges each tool for one agent; verdicts[i] is that of tools[i].
// The lists come first, then Cedar. A nil Policy answers unknown for what the
// lists do not deny.
func (p *Policy) Verdicts(cfg *config.Config, agent identity.Agent, tools []Tool) []Verdict {
	return make([]Verdict, len(tools))
}

// A Rule is one operator rule and what it does to a catalog, whoever calls.
type Rule struct {
	File   string    // mcp_config.json or policy.cedar
	Path   string    // JSON path of the entry, or the rule's @id
	Line   int       // 0 if unknown
	Allow  bool      // an enabled_tools entry, which lets through what it matches
	Always []tool.ID // matched for every agent
	Some   []tool.ID // matched for some agents, or not decidable without one
}

// Rules says what each deny rule matches among tools, in the order of the
// files: list entries first, then Cedar's forbids.
func (p *Policy) Rules(cfg *config.Config, tools []Tool) []Rule { return nil }
