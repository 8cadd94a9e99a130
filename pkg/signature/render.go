package signature

import (
	"slices"
	"strings"
)

const (
	maxSteps = 400 // schemas that one renderer looks at: references can multiply them
	wide     = 64  // members that make a schema count for one more
)

// A renderer writes one schema at one scale.
type renderer struct {
	root  *node
	scale scale
	lossy bool
	steps int
	refs  []*node // targets of the references that are being followed
}

// An expr is a rendered type. loose says that it needs parentheses beside
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

// lose returns e as all that can be said of a schema that says more.
func (r *renderer) lose(e string) expr {
	r.lossy = true
	return expr{text: e}
}

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
	case !s.object() || r.steps > maxSteps:
		return r.lose(anything)
	}
	r.lossy = r.lossy || slices.ContainsFunc(s.keys, restricts)
	e := r.shape(s, depth)
	if s.get("nullable").is(true) {
		return join([]expr{e, {text: "null"}}, "|")
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
	case s.get("enum").array():
		return r.literals(s.list("enum"))
	}
	var parts []expr
	if s.has("properties", "required") {
		parts = append(parts, r.object(s, depth))
	}
	for _, key := range combinations() {
		if e, ok := r.combination(s.list(key), key == "allOf", depth); ok {
			parts = append(parts, e)
		}
	}
	if len(parts) == 0 {
		return r.typed(s, depth)
	}
	return join(parts, "&")
}

func combinations() []string { return []string{"anyOf", "oneOf", "allOf"} }

// reference follows a "$ref" inside the document. One that leads back into itself is
// cut off where it does.
func (r *renderer) reference(s *node, depth int) expr {
	target := r.root.pointer(s.string("$ref"))
	if target == nil || slices.Contains(r.refs, target) {
		return r.lose(anything)
	}
	if s.has("type", "properties", "required", "enum", "const", "items", "anyOf", "oneOf", "allOf") {
		r.lossy = true // 2020-12 adds these to the target
	}
	r.refs = append(r.refs, target)
	defer func() { r.refs = r.refs[:len(r.refs)-1] }()
	return r.render(target, depth)
}

// combination renders anyOf and oneOf (any) and allOf (all). It returns false where there
// is none, or where its members only restrict what stands beside them.
func (r *renderer) combination(list []*node, all bool, depth int) (expr, bool) {
	var parts []expr
	for _, kid := range list {
		if !shows(kid) {
			r.lossy = true
			continue
		}
		parts = append(parts, r.render(kid, depth))
	}
	switch {
	case len(parts) == 0, !all && len(parts) < len(list): // one that is not shown may be anything
		return expr{}, false
	case all:
		return join(parts, "&"), true
	}
	return join(parts, "|"), true
}

// shows reports whether a schema says what a value looks like.
func shows(s *node) bool {
	if !s.object() {
		return s.is(true) || s.is(false)
	}
	return len(s.keys) == 0 ||
		s.has("$ref", "const", "enum", "type", "properties", "items", "anyOf", "oneOf", "allOf", "additionalProperties")
}

// typed goes by "type", or by the keywords that belong to one type.
func (r *renderer) typed(s *node, depth int) expr {
	var parts []expr
	switch t := s.get("type"); {
	case t.array():
		for _, kid := range t.kids {
			parts = append(parts, r.named(kid, s, depth))
		}
	case t != nil:
		return r.named(t, s, depth)
	case s.has("items", "prefixItems"):
		return r.array(s, depth)
	case s.has("additionalProperties"):
		return r.object(s, depth)
	}
	return join(parts, "|")
}

// named renders a schema of which t names the type.
func (r *renderer) named(t, s *node, depth int) expr {
	if t.kind != '"' {
		return r.lose(anything)
	}
	switch t.text {
	case "string":
		r.lossy = r.lossy || s.has("format")
		return expr{text: t.text}
	case "number", "integer", "boolean", "null":
		return expr{text: t.text}
	case "array":
		return r.array(s, depth)
	case "object":
		return r.object(s, depth)
	}
	return r.lose(anything)
}

func (r *renderer) array(s *node, depth int) expr {
	first, rest := s.get("prefixItems"), s.get("items")
	if first == nil && rest.array() {
		first, rest = rest, s.get("additionalItems")
	}
	if !first.array() {
		return expr{text: r.render(rest, depth).tight() + "[]"}
	}
	var list []string
	for _, kid := range first.kids {
		if len(list) == max(1, r.scale.members) {
			list = append(list, r.lose(more).text)
			break
		}
		list = append(list, r.render(kid, depth).text)
	}
	if rest != nil && !rest.is(false) {
		list = append(list, "..."+r.render(rest, depth).tight()+"[]")
	}
	return expr{text: "[" + strings.Join(list, ", ") + "]"}
}

// join joins types with "|" or "&", each once. No type at all is any.
func join(parts []expr, operator string) expr {
	var list []string
	only := expr{text: anything}
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
	if len(list) > 1 {
		return expr{text: strings.Join(list, operator), loose: true}
	}
	return only
}
