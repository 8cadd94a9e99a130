package state

import (
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxSteps bounds the work on one URI for all templates to about ten milliseconds.
const maxSteps = 8 << 20

// Claims returns the offered resources whose URI is uri. If there are none, it returns the offered
// templates that match uri, in ascending order. All offered resources must be visible. Claims
// returns false if there are too many templates to check.
//
// If a server lists a resource, only the resource's own lock counts, even if the resource is not
// offered. So a request that selects only a template does not bypass the lock of a resource.
func (v *View) Claims(uri string, offered tool.Set) (numbers []int, all bool) {
	var listed map[string]bool // servers that list the URI
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

// Alike returns the items that a server may read if it gets a URI that it did not list. The locks
// of these items apply to the URI. The items are the server's resources with an equivalent
// spelling, and its templates that match such a spelling; see [tool.PlainURIs]. all has the meaning
// of [View.Claims].
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

// VerdictOn returns the verdict of the operator's rules on a resource that a visible server did not
// list. Such a resource matches a template, or is a link in a result.
func (v *View) VerdictOn(id tool.ID) policy.Verdict {
	if v.r == nil {
		return policy.Verdict{}
	}
	return v.r.policy.Verdicts(v.r.cfg, v.agent, []policy.Tool{{ID: id, Annotations: itemHints, Tier: tool.Read}})[0]
}
