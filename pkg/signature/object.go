package signature

import (
	"slices"
	"strings"
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
	r.lossy = r.lossy || slices.ContainsFunc(s.keys, restricts)
	for _, p := range r.properties(s) {
		if text := r.property(p, 0); p.required {
			required = append(required, text)
		} else {
			optional = append(optional, text)
		}
	}
	if extra := s.get("additionalProperties"); extra.object() && len(extra.keys) > 0 {
		optional = append(optional, "[key: string]: "+r.render(extra, 0).text)
	}
	return required, optional
}

// plain reports whether an object's members are all in its own keywords. Combinations
// that only restrict those, such as "one of these two is required", are left out.
func (r *renderer) plain(s *node) bool {
	if !s.object() || s.has("$ref", "const", "enum") {
		return false
	}
	for _, key := range combinations() {
		if list := s.get(key); list != nil {
			if slices.ContainsFunc(list.kids, shows) {
				return false
			}
			r.lossy = true
		}
	}
	return true
}

func (r *renderer) object(s *node, depth int) expr {
	properties := r.properties(s)
	extra := s.get("additionalProperties")
	others := extra != nil && !extra.is(false) // properties of any name
	switch {
	case len(properties) == 0 && (!others || extra.is(true) || len(extra.keys) == 0):
		return expr{text: "object"}
	case depth >= r.scale.depth || r.scale.members == 0:
		return r.lose("object")
	case len(properties) == 0:
		return expr{text: "Record<string, " + r.render(extra, depth+1).text + ">"}
	}
	var list []string
	for _, p := range properties {
		if len(list) == r.scale.members {
			list = append(list, r.lose(more).text)
			break
		}
		list = append(list, r.property(p, depth+1))
	}
	if others && !extra.is(true) {
		list = append(list, "[key: string]: "+r.render(extra, depth+1).text)
	}
	return expr{text: "{" + strings.Join(list, ", ") + "}"}
}

// A property is one member of an object schema.
type property struct {
	name     string
	schema   *node
	required bool
}

func (r *renderer) property(p property, depth int) string {
	mark := ": "
	if !p.required {
		mark = "?: "
	}
	return r.name(p.name) + mark + r.render(p.schema, depth).text
}

// properties returns the properties of an object schema, the required ones first. One that is
// required and not described may be anything.
func (r *renderer) properties(s *node) []property {
	list := s.list("required")
	r.steps += len(list) / wide
	described := map[string]bool{} // what is required, and whether it is described
	for _, kid := range list {
		if kid.kind == '"' {
			described[kid.text] = false
		}
	}
	var required, optional []property
	if p := s.get("properties"); p.object() {
		r.steps += len(p.keys) / wide
		for i, name := range p.keys {
			if _, ok := described[name]; ok {
				described[name] = true
				required = append(required, property{name, p.kids[i], true})
			} else {
				optional = append(optional, property{name, p.kids[i], false})
			}
		}
	}
	for _, kid := range list {
		if known, ok := described[kid.text]; ok && !known && kid.kind == '"' {
			described[kid.text] = true
			required = append(required, property{kid.text, nil, true})
		}
	}
	return append(required, optional...)
}
