package policy

// A Rule is one forbid statement of a policy, in a form that can be compared with rules of another
// policy.
type Rule struct {
	ID   string // value of the annotation @id, or "" without it
	Line int    // first line of the statement in the file
	Text string // in Cedar's own layout, with its annotations and without comments
}

// Rules returns the forbid statements in the order of the file. For a nil Policy, whose file could
// not be read, it returns nil.
func (p *Policy) Rules() []Rule {
	if p == nil {
		return nil
	}
	out := make([]Rule, len(p.forbids))
	for i, r := range p.forbids {
		out[i] = Rule{ID: r.denial.ID, Line: r.line, Text: string(r.policy.MarshalCedar())}
	}
	return out
}
