package signature

import (
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
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
	r.lossy = r.lossy || slices.ContainsFunc(s.Keys, restricts)
	for _, p := range r.properties(s) {
		if text := r.property(p, 0); p.required {
			required = append(required, text)
		} else {
			optional = append(optional, text)
		}
	}
	if extra := s.Get("additionalProperties"); extra.Object() && len(extra.Keys) > 0 {
		optional = append(optional, "[key:string]:"+r.render(extra, 0).text)
	}
	return required, optional
}

// requiredNames returns the names alone of the parameters that a caller must give; list if they are
// not all in the schema's own keywords.
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

// plain reports whether an object's members are all in its own keywords. Combinations
// that only restrict those, such as "one of these two is required", are left out.
func (r *renderer) plain(s *rawjson.Node) bool {
	if !s.Object() || s.Has("$ref", "const", "enum") {
		return false
	}
	for _, key := range combinations() {
		if list := s.Get(key); list != nil {
			if slices.ContainsFunc(list.Kids, shows) {
				return false
			}
			r.lossy = true
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
		return r.lose("object")
	case len(properties) == 0:
		return expr{text: "Record<string," + r.render(extra, depth+1).text + ">"}
	}
	var list []string
	for _, p := range properties {
		if len(list) == r.scale.members {
			list = append(list, r.lose(more).text)
			break
		}
		list = append(list, r.property(p, depth+1))
	}
	if others && !extra.Is(true) {
		list = append(list, "[key:string]:"+r.render(extra, depth+1).text)
	}
	return expr{text: "{" + strings.Join(list, ", ") + "}"}
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
	}
	return r.name(p.name) + mark + r.render(p.schema, depth).text
}

// properties returns the properties of an object schema, the required ones first. One that is
// required and not described may be anything.
func (r *renderer) properties(s *rawjson.Node) []property {
	list := s.List("required")
	r.steps += len(list) / wide
	described := map[string]bool{} // what is required, and whether it is described
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
	return append(required, optional...)
}
