// Package signature reads the JSON Schemas of a tool: it prints them as one line in the
// manner of TypeScript, and refuses those of which a part lies elsewhere.
//
// An agent that sees twenty tools at once needs to know how each is called, not what
// all their schemas say; the whole schema is one request away.
package signature

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// How long a signature may be, in characters: all parameters if each is shown; the required ones,
// or the first ones where none is required, if not; and what is returned. Every agent pays for each
// result of a search, and most tools are called with what is required.
const (
	maxWhole    = 80
	maxRequired = 140
	maxFirst    = 50
	maxResult   = 60
)

// more stands where something was left out.
const more = "…"

// A scale says how much of a schema is shown.
type scale struct {
	depth    int // of objects inside a parameter
	literals int // of one enum
	members  int // of one object
}

// scales returns the scales that are tried in turn until the text is short enough.
func scales() []scale {
	return []scale{{4, 16, 16}, {3, 8, 12}, {2, 6, 8}, {1, 4, 6}, {0, 3, 0}}
}

// worthRequired is the room in which what a caller must give is shown in all detail: with a required
// object that is not shown nobody can call, without an optional parameter anybody can.
const worthRequired = maxRequired * 2 / 3

// Of returns how a tool is called, such as "(owner:string, labels?:string[]) → {url:string}",
// from its schemas; either may be nil. Required parameters come first, else the order is that of
// the schema. The length is bounded, whatever the schema.
//
// lossy reports that a call with the required parameters alone, made from this text, can fail: a
// required object or its enum is cut off, a reference does not resolve inside the document (none is
// fetched), or a required value has a rule that is not shown, such as "not". Of the schema's own text
// only property names, enum literals and patterns come out, never a description.
func Of(input, output json.RawMessage) (sig string, lossy bool) {
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
	shown := false // what is required, with enough detail
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

// fit joins as many of the list's first texts as have room, and more.
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
		s.depth++                                         // the result is an object itself
		r := &renderer{root: root, scale: s, optional: 1} // no call gives any of it
		if text := r.render(root, 0).text; utf8.RuneCountInString(text) <= maxResult {
			return text
		}
	}
	return "object"
}
