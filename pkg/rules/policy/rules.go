package policy

// A Rule is one forbid of a policy, in a form that can be compared with another policy's rules.
type Rule struct {
	ID   string // @id; "": it has none
	Line int    // where it begins
	Text string // in Cedar's own layout, with its annotations and without comments
}

// Rules returns the forbids of the file, in its order. A nil Policy has none, because its file
// could not be read.
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
