package decide

import (
	"math/bits"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/finding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Finding is one thing in a definition that a reviewer should look at.
type Finding struct {
	finding.Finding
	Message string `json:"message" doc:"what it is, in one sentence"`
	New     bool   `json:"new,omitempty" doc:"another definition is approved, and it does not have this finding"`
}

// The values of [Filter.Finding] that are not codes of findings.
const (
	findingAny    = "any"
	findingSevere = "severe"
	findingNone   = "none"
)

// Findings returns the values of [Filter.Finding].
func Findings() []string {
	return append([]string{findingSevere, findingAny, findingNone}, finding.Codes()...)
}

// A findingSet is the set of an item's findings: one bit for each code, and the bits below.
type findingSet uint64

const (
	foundSevere findingSet = 1 << 63
	foundAny    findingSet = 1 << 62
	foundNone   findingSet = 1 << 61
)

// has reports whether a filter with this bit selects the item. Bit 0 selects every item.
func (f findingSet) has(bit findingSet) bool { return bit == 0 || f&bit != 0 }

// count returns how many kinds of findings the set has.
func (f findingSet) count() int {
	return bits.OnesCount64(uint64(f &^ (foundSevere | foundAny | foundNone)))
}

// bitOf returns the bit of a filter's value; 0 for "".
func bitOf(value string) findingSet {
	switch value {
	case "":
		return 0
	case findingAny:
		return foundAny
	case findingSevere:
		return foundSevere
	case findingNone:
		return foundNone
	}
	return 1 << slices.Index(finding.Codes(), value)
}

// findingSetOf returns the findings of item i.
func findingSetOf(v *state.View, i int, codes []string) findingSet {
	list := v.Findings(i)
	if len(list) == 0 {
		return foundNone
	}
	out := foundAny
	for _, f := range list {
		if f.Severe {
			out |= foundSevere
		}
		if n := slices.Index(codes, f.Code); n >= 0 {
			out |= 1 << n
		}
	}
	return out
}

// findingsOf returns the findings in the record's current definition. If the catalog does not have
// this definition, because it is newer or no longer listed, findingsOf scans the definition.
func findingsOf(v *state.View, r *approval.Record) []finding.Finding {
	kind := r.Kind
	if i, ok := v.Find(r.ID()); ok && v.Tool(i).Definition.Hash == r.CurrentHash {
		return v.Findings(i)
	}
	var before *tool.Definition
	if len(r.Approved) > 0 && r.ApprovedHash != r.CurrentHash {
		d := tool.KeptItem(kind, r.Approved)
		before = &d
	}
	return finding.Scan(tool.KeptItem(kind, r.Current), before, namesIn(v).For(r.Server))
}

// namesIn returns the names of all tools.
func namesIn(v *state.View) finding.Names {
	return finding.NewNames(func(yield func(tool.ID) bool) {
		for i := range v.Tools().All() {
			if !yield(v.ID(i)) {
				return
			}
		}
	})
}

// shownFindings returns the findings in the record's current definition with their messages. If
// another definition was approved, findings that the approved definition does not have come first.
func shownFindings(v *state.View, r *approval.Record) (out []Finding) {
	changed := len(r.Approved) > 0 && r.ApprovedHash != r.CurrentHash
	for _, f := range findingsOf(v, r) {
		out = append(out, Finding{f, f.Message(), changed})
	}
	if !changed || len(out) == 0 {
		return out
	}
	for _, old := range finding.Scan(tool.KeptItem(r.Kind, r.Approved), nil, namesIn(v).For(r.Server)) {
		same := func(f Finding) bool {
			return f.New && f.Code != finding.More && f.Code == old.Code && f.Where == old.Where && f.Text == old.Text && f.Name == old.Name
		}
		if n := slices.IndexFunc(out, same); n >= 0 {
			out[n].New = false
		}
	}
	known := slices.DeleteFunc(slices.Clone(out), func(f Finding) bool { return f.New })
	return append(slices.DeleteFunc(out, func(f Finding) bool { return !f.New }), known...)
}
