package tool

import (
	"slices"
	"strings"
)

const (
	maxLiteral = 40  // characters of one literal or property name
	maxSteps   = 400 // schemas that one renderer looks at: references can multiply them
	wide       = 64  // members that make a schema count for one more
)

// A renderer writes one schema at one scale.
type renderer struct {
	root  *node
	scale scale
	lossy bool
	steps int
	open  []*node // targets of the references that are being followed
}

// A expr is a rendered type. loose says that it needs parentheses beside
// an operator that binds more tightly.
type expr struct {
	text  string
	loose bool
}

func (e expr) tight() string {
	if e.loose {
		return "(" + e.text + ")"
	}
	return e.text
}

const anything = "any"

// restricts reports whether a keyword refuses values of the type that is shown.
func restricts(key string) bool {
	switch key {
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
		"minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType",
		"minItems", "maxItems", "uniqueItems", "contains", "unevaluatedItems",
		"minProperties", "maxProperties", "propertyNames", "patternProperties", "unevaluatedProperties",
		"dependentRequired", "dependentSchemas", "dependencies", "not", "if",
		"$dynamicRef", "$recursiveRef":
		return true
	}
	return false
}

// render returns the type that a schema describes. depth counts the objects around it.
func (r *renderer) render(s *node, depth int) expr {
	r.steps++
	if s != nil {
		r.steps += len(s.keys) / wide
	}
	switch {
	case s == nil || s.is(true):
		return expr{text: anything}
	case s.is(false):
		return expr{text: "never"}
	case !s.object || r.steps > maxSteps:
		r.lossy = true
		return expr{text: anything}
	}
	r.lossy = r.lossy || slices.ContainsFunc(s.keys, restricts)
	e := r.shape(s, depth)
	if s.get("nullable").is(true) {
		return union([]expr{e, {text: "null"}})
	}
	return e
}

// shape goes by the first keyword that tells the most.
func (r *renderer) shape(s *node, depth int) expr {
	switch {
	case s.has("$ref"):
		return r.reference(s, depth)
	case s.has("const"):
		return r.literals([]*node{s.get("const")})
	case s.get("enum") != nil && s.get("enum").array:
		return r.literals(s.get("enum").kids)
	}
	var parts []expr
	if s.has("properties", "required") {
		parts = append(parts, r.object(s, depth))
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if e, ok := r.combination(s.get(key), key == "allOf", depth); ok {
			parts = append(parts, e)
		}
	}
	if len(parts) == 0 {
		return r.typed(s, depth)
	}
	return intersection(parts)
}

// reference follows a "$ref" inside the document. One that leads back into itself is
// cut off where it does.
func (r *renderer) reference(s *node, depth int) expr {
	target := r.root.pointer(s.get("$ref").text())
	if target == nil || slices.Contains(r.open, target) {
		r.lossy = true
		return expr{text: anything}
	}
	if s.has("type", "properties", "required", "enum", "const", "items", "anyOf", "oneOf", "allOf") {
		r.lossy = true // 2020-12 adds these to the target
	}
	r.open = append(r.open, target)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	return r.render(target, depth)
}

// combination renders anyOf and oneOf (any) and allOf (all). It returns false where there
// is none, or where its members only restrict what stands beside them.
func (r *renderer) combination(list *node, all bool, depth int) (expr, bool) {
	if list == nil || !list.array || len(list.kids) == 0 {
		return expr{}, false
	}
	var parts []expr
	for _, kid := range list.kids {
		if !shows(kid) {
			r.lossy = true
			continue
		}
		parts = append(parts, r.render(kid, depth))
	}
	switch {
	case all && len(parts) > 0:
		return intersection(parts), true
	case len(parts) < len(list.kids):
		return expr{}, false // one that is not shown may be anything
	}
	return union(parts), true
}

// shows reports whether a schema says what a value looks like.
func shows(s *node) bool {
	if s == nil || !s.object {
		return s.is(true) || s.is(false)
	}
	return len(s.keys) == 0 ||
		s.has("$ref", "const", "enum", "type", "properties", "items", "anyOf", "oneOf", "allOf", "additionalProperties")
}

// typed goes by "type", or by the keywords that belong to one type.
func (r *renderer) typed(s *node, depth int) expr {
	t := s.get("type")
	var names []string
	switch {
	case t == nil:
		switch {
		case s.has("items", "prefixItems"):
			names = []string{"array"}
		case s.has("additionalProperties"):
			names = []string{"object"}
		default:
			return expr{text: anything}
		}
	case t.array:
		for _, kid := range t.kids {
			names = append(names, kid.text())
		}
	default:
		names = []string{t.text()}
	}
	parts := make([]expr, 0, len(names))
	for _, name := range names {
		parts = append(parts, r.named(name, s, depth))
	}
	return union(parts)
}

func (r *renderer) named(name string, s *node, depth int) expr {
	switch name {
	case "string":
		r.lossy = r.lossy || s.has("format")
		return expr{text: name}
	case "number", "integer", "boolean", "null":
		return expr{text: name}
	case "array":
		return r.array(s, depth)
	case "object":
		return r.object(s, depth)
	}
	r.lossy = true
	return expr{text: anything}
}

func (r *renderer) array(s *node, depth int) expr {
	first, rest := s.get("prefixItems"), s.get("items")
	if first == nil && rest != nil && rest.array {
		first, rest = rest, s.get("additionalItems")
	}
	if first == nil || !first.array {
		return expr{text: r.render(rest, depth).tight() + "[]"}
	}
	var list []string
	for _, kid := range first.kids {
		if len(list) == max(1, r.scale.members) {
			r.lossy = true
			list = append(list, more)
			break
		}
		list = append(list, r.render(kid, depth).text)
	}
	if rest != nil && !rest.is(false) {
		list = append(list, "..."+r.render(rest, depth).tight()+"[]")
	}
	return expr{text: "[" + strings.Join(list, ", ") + "]"}
}

// union joins types with "|", each once.
func union(parts []expr) expr {
	return join(parts, "|")
}

// intersection joins types with "&".
func intersection(parts []expr) expr {
	return join(parts, "&")
}

func join(parts []expr, operator string) expr {
	var list []string
	var only expr
	for _, p := range parts {
		text := p.text
		if operator == "&" {
			text = p.tight()
		}
		if !slices.Contains(list, text) {
			list = append(list, text)
			only = p
		}
	}
	switch {
	case len(list) == 0:
		return expr{text: anything}
	case len(list) == 1:
		return only
	}
	return expr{text: strings.Join(list, operator), loose: true}
}
