// Package signature reads the JSON Schemas of a tool: it prints them as one line similar to
// TypeScript, and refuses schemas with a part at another address.
//
// An agent that sees twenty tools at the same time needs to know how to call each of them, but not
// their whole schemas, which it can request separately.
package signature

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// Longest signature, in characters: all parameters if each is shown; otherwise the required ones,
// or the first ones if none is required; and the result. Every agent pays for each search result,
// and most calls use only required parameters.
const (
	maxWhole    = 80
	maxRequired = 140
	maxFirst    = 50
	maxResult   = 60
)

// more replaces what is left out.
const more = "…"

// A scale limits how much of a schema is shown.
type scale struct {
	depth    int // of objects inside a parameter
	literals int // of one enum
	members  int // of one object
}

// scales returns the scales in the order in which they are tried until the text is short enough.
func scales() []scale {
	return []scale{{4, 16, 16}, {3, 8, 12}, {2, 6, 8}, {1, 4, 6}, {0, 3, 0}}
}

// worthRequired is the space for required parameters in full detail. Nobody can make a call without
// the details of a required object, but anybody can without an optional parameter.
const worthRequired = maxRequired * 2 / 3

// Render returns the signature of a tool, such as "(owner:string, labels?:string[]) →
// {url:string}", from its schemas; either may be nil. Required parameters come first; otherwise
// the order is that in the schema. The length is bounded for every schema.
//
// lossy reports that a call with only the required parameters, based on this text, can fail: a
// required object or its enum is cut off, a reference does not resolve inside the document (none
// is fetched), or a required value has a hidden rule, such as "not". The result contains only
// property names, enum literals and patterns of the schema's own text, never a description.
func Render(input, output json.RawMessage) (sig string, lossy bool) {
	sig, lossy = parameters(input)
	if output == nil {
		return sig, lossy
	}
	return sig + " → " + result(output), lossy
}

func parameters(schema json.RawMessage) (string, bool) {
	if schema == nil {
		return "()", false
	}
	root, err := rawjson.Parse(schema)
	if err != nil {
		return "(" + more + ")", true
	}
	var required, optional []string
	shown := false // required parameters, with enough detail
	lossy := false
	for _, s := range scales() {
		r := &renderer{root: root, scale: s}
		must, may := r.parameters()
		if !shown {
			required, lossy, shown = must, r.lossy, length(must) <= worthRequired
		}
		if !shown {
			continue
		}
		if optional = may; length(required)+length(optional) <= maxWhole-4 {
			return "(" + strings.Join(slices.Concat(required, optional), ", ") + ")", lossy
		}
	}
	switch {
	case len(required) == 0:
		return "(" + fit(optional, maxFirst-2) + ")", lossy
	case length(required) > maxRequired-5:
		required, lossy = (&renderer{root: root}).requiredNames(required), true
	}
	return "(" + fit(required, maxRequired-2) + ")", lossy
}

// length returns how many characters a list has.
func length(list []string) int { return utf8.RuneCountInString(strings.Join(list, ", ")) }

// fit joins the first texts of the list, as many as fit into room characters, and the sign "…".
func fit(list []string, room int) string {
	var out strings.Builder
	room -= utf8.RuneCountInString(more)
	for _, s := range list {
		if room -= utf8.RuneCountInString(s) + 2; room < 0 {
			break
		}
		out.WriteString(s + ", ")
	}
	return out.String() + more
}

func result(schema json.RawMessage) string {
	root, err := rawjson.Parse(schema)
	if err != nil {
		return anything
	}
	for _, s := range scales() {
		s.depth++                                         // the result is an object, too
		r := &renderer{root: root, scale: s, optional: 1} // no call provides it
		if text := r.render(root, 0).text; utf8.RuneCountInString(text) <= maxResult {
			return text
		}
	}
	return "object"
}
