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

	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
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
// lossy reports that it does not say everything: an enum, object or list that is cut off,
// a reference that does not resolve inside the document (none is fetched), or a rule that
// has no form here, such as a maximum. Of the schema's own text only property names
// and enum literals come out, never a description.
func Of(input, output json.RawMessage) (sig string, lossy bool) {
	sig, lossy = parameters(input)
	if output == nil {
		return sig, lossy
	}
	out, cut := result(output)
	return sig + " → " + out, lossy || cut
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
	for _, s := range scales() {
		r := &renderer{root: root, scale: s}
		must, may := r.parameters()
		if !shown {
			required, shown = must, length(must) <= worthRequired
		}
		if !shown {
			continue
		}
		if optional = may; length(required)+length(optional) <= maxWhole-4 {
			return "(" + strings.Join(slices.Concat(required, optional), ", ") + ")", r.lossy
		}
	}
	switch {
	case len(required) == 0:
		return "(" + fit(optional, maxFirst-2) + ")", true
	case length(required) > maxRequired-5:
		required = (&renderer{root: root}).requiredNames(required)
	}
	return "(" + fit(required, maxRequired-2) + ")", true
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

func result(schema json.RawMessage) (string, bool) {
	root, err := rawjson.Parse(schema)
	if err != nil {
		return anything, true
	}
	for _, s := range scales() {
		s.depth++ // the result is an object itself
		r := &renderer{root: root, scale: s}
		if text := r.render(root, 0).text; utf8.RuneCountInString(text) <= maxResult {
			return text, r.lossy
		}
	}
	return "object", true
}
