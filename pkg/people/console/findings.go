package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/finding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A pointer is a finding with a link to its place.
type pointer struct {
	Message string
	Severe  bool
	Where   string // the text that has it, in words
	Link    string // to its place
	New     bool   // the approved definition lacks it
	View    string // the view that has its place
}

// pointersOf returns findings of a definition that is on no page, so without links.
func pointersOf(found []decide.Finding) (out []pointer) {
	for _, f := range found {
		out = append(out, pointer{Message: f.Message, Severe: f.Severe, Where: f.Where})
	}
	return out
}

// textIn returns the text that contains a finding, and the view that shows this text.
func textIn(kind tool.Kind, f decide.Finding) (text, view string) {
	text = f.Where
	if i := strings.IndexAny(text, ".["); i >= 0 {
		text = text[:i]
	}
	short := map[string]string{"inputSchema": "input", "outputSchema": "output", "uriTemplate": "uri"}
	text = cmp.Or(short[text], text)
	for _, v := range views[kind] {
		if slices.Contains(textNames[kind][v.View], text) {
			return text, v.View
		}
	}
	return "raw", "raw"
}

// isPlain reports whether the page shows a text as it is, and not as JSON.
func isPlain(text string) bool {
	return slices.Contains([]string{"title", "description", "uri", "name", "mimeType"}, text)
}

// anchor returns the element id of the place of a finding.
func (p *itemView) anchor(n int) string { return fmt.Sprintf("%sfinding-%d", p.anchors, n+1) }

// placesIn returns the places of the findings in a text on a page, in order.
func (p *itemView) placesIn(name, shown string) (out []place) {
	for n, f := range p.Tool.Findings {
		text, _ := textIn(p.kind, f)
		if text != name && name != "raw" || f.Code == finding.More {
			continue
		}
		from, to := f.From, f.To
		if !isPlain(name) || f.Name { // the text is a part of the JSON on the page
			from = strings.Index(shown, strings.TrimSuffix(f.Text, "…"))
			to = from + len(strings.TrimSuffix(f.Text, "…"))
		}
		if from < 0 || to > len(shown) || from >= to {
			continue
		}
		out = append(out, place{from, to, p.anchor(n)})
	}
	return inOrder(out)
}

// inOrder sorts places, and drops a place that begins inside another place.
func inOrder(all []place) (out []place) {
	slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(a.from, b.from) })
	for _, p := range all {
		if n := len(out); n == 0 || p.from >= out[n-1].to {
			out = append(out, p)
		}
	}
	return out
}
