package state

import (
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxSteps bounds the work on one URI, whatever templates servers list: some ten milliseconds.
const maxSteps = 8 << 20

// Claims returns the numbers of those of the offered resources that a URI is read from: those that have
// it, or else the templates that it matches, in order. Offered resources are visible ones. It reports
// false if there are so many templates that could match that it did not look at all of them.
//
// What a server lists itself is under its own lock alone, also if it is not offered: a request that
// selects nothing but a template does not get past the lock of a resource.
func (v *View) Claims(uri string, offered tool.Set) (numbers []int, all bool) {
	var listed map[string]bool // servers that have it
	for _, s := range v.servers {
		i, ok := v.Find(tool.ID{Server: s.Config.Name, Name: uri, Kind: tool.Resource})
		if !ok || v.Tool(i).Definition.Template {
			continue
		}
		if listed == nil {
			listed = map[string]bool{}
		}
		if listed[s.Config.Name] = true; offered.Has(i) {
			numbers = append(numbers, i)
		}
	}
	if v.r == nil || len(numbers) > 0 {
		return numbers, true
	}
	spent := 0
	for _, i := range v.r.inventory.templates() {
		if !offered.Has(i) || listed != nil && listed[v.ID(i).Server] {
			continue
		}
		if spent > maxSteps {
			return numbers, false
		}
		matches, steps := tool.MatchTemplate(v.ID(i).Name, uri)
		if spent += steps; matches {
			numbers = append(numbers, i)
		}
	}
	return numbers, true
}

// Alike returns the numbers of what else a server may take a URI for that it has not listed itself: its
// resources of which that is another spelling, and its templates that another spelling matches; see
// [tool.PlainURIs]. What they are locked for counts for the URI. all is that of [View.Claims].
func (v *View) Alike(server, uri string) (numbers []int, all bool) {
	if v.r == nil {
		return nil, true
	}
	spellings := tool.PlainURIs(uri)
	for _, plain := range append([]string{uri}, spellings...) {
		numbers = append(numbers, v.r.inventory.plain()[tool.ID{Server: server, Name: plain, Kind: tool.Resource}]...)
	}
	spent := 0
	for _, i := range v.r.inventory.templates() {
		id := v.ID(i)
		if id.Server != server {
			continue
		}
		for _, plain := range spellings {
			if spent > maxSteps {
				return numbers, false
			}
			matches, steps := tool.MatchTemplate(id.Name, plain)
			if spent += steps; matches {
				numbers = append(numbers, i)
			}
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), true
}

// VerdictOn returns what the operator's rules say of a resource of a visible server that the server
// did not list itself: one that a template stands for, or a link in a result.
func (v *View) VerdictOn(id tool.ID) policy.Verdict {
	if v.r == nil {
		return policy.Verdict{}
	}
	return v.r.policy.Verdicts(v.r.cfg, v.agent, []policy.Tool{{ID: id, Annotations: itemHints, Tier: tool.Read}})[0]
}
