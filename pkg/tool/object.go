package tool

import (
	"slices"
	"strings"
)

// parameters returns the parameters of a tool, one text each: those that must be given and
// those that may. A schema that is not a plain object is one text: the type of all
// arguments together.
func (r *renderer) parameters() (must, may []string) {
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
			must = append(must, text)
		} else {
			may = append(may, text)
		}
	}
	if extra := s.get("additionalProperties"); extra != nil && extra.object && len(extra.keys) > 0 {
		may = append(may, "[key: string]: "+r.render(extra, 0).text)
	}
	return must, may
}

// plain reports whether an object's members are all in its own keywords. Combinations
// that only restrict those, such as "one of these two is required", are left out.
func (r *renderer) plain(s *node) bool {
	if !s.object || s.has("$ref", "const", "enum") {
		return false
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		list := s.get(key)
		if list == nil {
			continue
		}
		if slices.ContainsFunc(list.kids, shows) {
			return false
		}
		r.lossy = true
	}
	return true
}

func (r *renderer) object(s *node, depth int) expr {
	properties := r.properties(s)
	extra := s.get("additionalProperties")
	open := extra != nil && !extra.is(false)
	switch {
	case len(properties) == 0 && !open:
		return expr{text: "object"}
	case len(properties) == 0 && (extra.is(true) || len(extra.keys) == 0):
		return expr{text: "object"}
	case depth >= r.scale.depth || r.scale.members == 0:
		r.lossy = true
		return expr{text: "object"}
	case len(properties) == 0:
		return expr{text: "Record<string, " + r.render(extra, depth+1).text + ">"}
	}
	var list []string
	for _, p := range properties {
		if len(list) == r.scale.members {
			r.lossy = true
			list = append(list, more)
			break
		}
		list = append(list, r.property(p, depth+1))
	}
	if open && !extra.is(true) {
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
	required := map[string]bool{}
	var names []string
	if list := s.get("required"); list != nil && list.array {
		r.steps += len(list.kids) / wide
		for _, kid := range list.kids {
			if name, ok := kid.scalar.(string); ok && !required[name] {
				required[name] = true
				names = append(names, name)
			}
		}
	}
	var must, may []property
	described := map[string]bool{}
	if list := s.get("properties"); list != nil && list.object {
		r.steps += len(list.keys) / wide
		for i, name := range list.keys {
			described[name] = true
			if p := (property{name, list.kids[i], required[name]}); p.required {
				must = append(must, p)
			} else {
				may = append(may, p)
			}
		}
	}
	for _, name := range names {
		if !described[name] {
			must = append(must, property{name, nil, true})
		}
	}
	return append(must, may...)
}
