package signature

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// parameters returns the parameters of a tool, one text each. A schema that is not a plain
// object is one text: the type of all arguments together.
func (r *renderer) parameters() (required, optional []string) {
	s := r.root
	if !r.plain(s) {
		e := r.render(s, -1)
		if e.text == "object" || e.text == anything {
			return nil, nil
		}
		return []string{e.text}, nil
	}
	r.hideRules(s)
	for _, p := range r.properties(s) {
		if text := r.property(p, 0); p.required {
			required = append(required, text)
		} else {
			optional = append(optional, text)
		}
	}
	if extra := s.Get("additionalProperties"); extra.Object() && len(extra.Keys) > 0 {
		optional = append(optional, r.others(extra, 0))
	}
	return required, optional
}

// requiredNames returns only the names of the required parameters, or list if the schema's own
// keywords do not name all of them.
func (r *renderer) requiredNames(list []string) []string {
	if !r.plain(r.root) {
		return list
	}
	var names []string
	for _, p := range r.properties(r.root) {
		if p.required {
			names = append(names, r.name(p.name))
		}
	}
	return names
}

// plain reports whether an object's members are all in its own keywords. It ignores combinations
// that only restrict those, such as "one of these two is required".
func (r *renderer) plain(s *rawjson.Node) bool {
	if !s.Object() || s.Has("$ref", "const", "enum") {
		return false
	}
	for _, key := range combinations() {
		if list := s.Get(key); list != nil {
			if slices.ContainsFunc(list.Kids, shows) {
				return false
			}
			r.hide(true)
		}
	}
	return true
}

func (r *renderer) object(s *rawjson.Node, depth int) expr {
	properties := r.properties(s)
	extra := s.Get("additionalProperties")
	others := extra != nil && !extra.Is(false) // properties of any name
	switch {
	case len(properties) == 0 && (!others || extra.Is(true) || len(extra.Keys) == 0):
		return expr{text: "object"}
	case depth >= r.scale.depth || r.scale.members == 0:
		return r.needed(properties, depth)
	case len(properties) == 0:
		return expr{text: "Record<string," + r.render(extra, depth+1).text + ">"}
	}
	var list []string
	for _, p := range properties {
		if len(list) == r.scale.members {
			r.hide(p.required)
			list = append(list, more)
			break
		}
		list = append(list, r.property(p, depth+1))
	}
	if others && !extra.Is(true) {
		list = append(list, r.others(extra, depth+1))
	}
	return expr{text: "{" + strings.Join(list, ", ") + "}"}
}

// others returns the member for arbitrary names.
func (r *renderer) others(schema *rawjson.Node, depth int) string {
	r.optional++
	defer func() { r.optional-- }()
	return "[key:string]:" + r.render(schema, depth).text
}

// needed returns only the required members, if there is no room for all and the required ones are
// short.
func (r *renderer) needed(properties []property, depth int) expr {
	var list []string
	for _, p := range properties {
		if !p.required {
			list = append(list, more)
			break
		}
		if len(list) == maxLiteral/2 { // with their commas they are too long in any case
			return r.lose("object")
		}
		list = append(list, r.property(p, depth+1))
	}
	text := "{" + strings.Join(list, ", ") + "}"
	switch {
	case text == "{"+more+"}" || text == "{}":
		return expr{text: "object"}
	case utf8.RuneCountInString(text) > maxLiteral:
		return r.lose("object")
	}
	return expr{text: text}
}

// A property is one member of an object schema.
type property struct {
	name     string
	schema   *rawjson.Node
	required bool
}

func (r *renderer) property(p property, depth int) string {
	mark := ":"
	if !p.required {
		mark = "?:"
		r.optional++
		defer func() { r.optional-- }()
	}
	return r.name(p.name) + mark + r.render(p.schema, depth).text
}

// properties returns the properties of an object schema, the required ones first, each in the
// schema's order. A required property without a description may have any type.
func (r *renderer) properties(s *rawjson.Node) []property {
	list := s.List("required")
	r.steps += len(list) / wide
	described := map[string]bool{} // required names, and whether they are described
	for _, kid := range list {
		if kid.Kind == '"' {
			described[kid.Text] = false
		}
	}
	var required, optional []property
	if p := s.Get("properties"); p.Object() {
		r.steps += len(p.Keys) / wide
		for i, name := range p.Keys {
			if _, ok := described[name]; ok {
				described[name] = true
				required = append(required, property{name, p.Kids[i], true})
			} else {
				optional = append(optional, property{name, p.Kids[i], false})
			}
		}
	}
	for _, kid := range list {
		if known, ok := described[kid.Text]; ok && !known && kid.Kind == '"' {
			described[kid.Text] = true
			required = append(required, property{kid.Text, nil, true})
		}
	}
	return append(pair(required), pair(optional)...)
}
