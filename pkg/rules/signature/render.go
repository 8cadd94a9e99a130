package signature

import (
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

const (
	maxSteps = 400 // limit of visited schemas in one renderer: references can multiply them
	wide     = 64  // each group of so many members of a schema counts as one more schema
)

// A renderer writes one schema at one scale.
type renderer struct {
	root     *rawjson.Node
	scale    scale
	lossy    bool
	optional int // enclosing parts that a call may leave out
	steps    int
	refs     []*rawjson.Node // targets of the references that led to the current schema
}

// An expr is a rendered type. loose says that it needs parentheses next to an operator that binds
// more tightly.
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

// lose returns e for a schema that contains more than e shows.
func (r *renderer) lose(e string) expr {
	r.hide(true)
	return expr{text: e}
}

// hide notes that a call can fail because of a rule that the text does not show. Optional parts do
// not count, because a first call leaves them out.
func (r *renderer) hide(is bool) { r.lossy = r.lossy || is && r.optional == 0 }

// restricts reports whether a keyword may refuse a plain value of the shown type. For the bounds
// of texts and numbers see [renderer.text] and [renderer.number].
func restricts(key string) bool {
	switch key {
	case "contentEncoding", "minItems", "contains", "minProperties", "propertyNames",
		"dependentRequired", "dependentSchemas", "dependencies", "not", "if",
		"$dynamicRef", "$recursiveRef":
		return true
	}
	return false
}

// hideRules notes the keywords of s that refuse plain values.
func (r *renderer) hideRules(s *rawjson.Node) {
	for i, key := range s.Keys {
		isMet := strings.HasPrefix(key, "min") && (s.Kids[i].Text == "0" || s.Kids[i].Text == "1") // as a plain value does
		r.hide(restricts(key) && !isMet)
	}
}

// render returns the type that a schema describes. depth is the number of objects around it.
func (r *renderer) render(s *rawjson.Node, depth int) expr {
	r.steps++
	if s != nil {
		r.steps += len(s.Keys) / wide
	}
	switch {
	case s == nil || s.Is(true):
		return expr{text: anything}
	case s.Is(false):
		return expr{text: "never"}
	case !s.Object() || r.steps > maxSteps:
		return r.lose(anything)
	}
	r.hideRules(s)
	e := r.shape(s, depth)
	if s.Get("nullable").Is(true) {
		return join([]expr{e, {text: "null"}}, "|")
	}
	return e
}

// shape tries the keywords in the order of how much they say about a value, and uses the first.
func (r *renderer) shape(s *rawjson.Node, depth int) expr {
	switch {
	case s.Has("$ref"):
		return r.reference(s, depth)
	case s.Has("const"):
		return r.literals([]*rawjson.Node{s.Get("const")})
	case s.Get("enum").Array():
		return r.literals(s.List("enum"))
	}
	var parts []expr
	if s.Has("properties", "required") {
		parts = append(parts, r.object(s, depth))
	}
	for _, key := range combinations() {
		if e, ok := r.combination(s.List(key), key == "allOf", depth); ok {
			parts = append(parts, e)
		}
	}
	if len(parts) == 0 {
		return r.typed(s, depth)
	}
	return join(parts, "&")
}

func combinations() []string { return []string{"anyOf", "oneOf", "allOf"} }

// reference follows a "$ref" inside the document. It stops at a reference that leads back to
// itself.
func (r *renderer) reference(s *rawjson.Node, depth int) expr {
	target := r.root.Pointer(s.TextOf("$ref"))
	if target == nil || slices.Contains(r.refs, target) {
		return r.lose(anything)
	}
	if s.Has("type", "properties", "required", "enum", "const", "items", "anyOf", "oneOf", "allOf") {
		r.hide(true) // since JSON Schema 2020-12, these apply in addition to the target
	}
	r.refs = append(r.refs, target)
	defer func() { r.refs = r.refs[:len(r.refs)-1] }()
	return r.render(target, depth)
}

// combination renders the members of an allOf (if all is set), an anyOf or a oneOf. It returns
// false if no member describes a value's form, or if a member of anyOf or oneOf does not.
func (r *renderer) combination(list []*rawjson.Node, all bool, depth int) (expr, bool) {
	var parts []expr
	for _, kid := range list {
		if !shows(kid) {
			r.hide(true)
			continue
		}
		parts = append(parts, r.render(kid, depth))
	}
	switch {
	case len(parts) == 0, !all && len(parts) < len(list): // a member that is not shown may be anything
		return expr{}, false
	case all:
		return join(parts, "&"), true
	}
	return join(parts, "|"), true
}

// shows reports whether a schema describes a value's form.
func shows(s *rawjson.Node) bool {
	if !s.Object() {
		return s.Is(true) || s.Is(false)
	}
	return len(s.Keys) == 0 ||
		s.Has("$ref", "const", "enum", "type", "properties", "items", "anyOf", "oneOf", "allOf", "additionalProperties")
}

// typed uses "type", or the keywords that belong to one type.
func (r *renderer) typed(s *rawjson.Node, depth int) expr {
	var parts []expr
	switch t := s.Get("type"); {
	case t.Array():
		for _, kid := range t.Kids {
			parts = append(parts, r.named(kid, s, depth))
		}
	case t != nil:
		return r.named(t, s, depth)
	case s.Has("items", "prefixItems"):
		return r.array(s, depth)
	case s.Has("additionalProperties"):
		return r.object(s, depth)
	}
	return join(parts, "|")
}

// named renders the schema s for a type name in t.
func (r *renderer) named(t, s *rawjson.Node, depth int) expr {
	if t.Kind != '"' {
		return r.lose(anything)
	}
	switch t.Text {
	case "string":
		return expr{text: r.text(s)}
	case "number", "integer":
		return expr{text: r.number(t.Text, s)}
	case "boolean", "null":
		return expr{text: t.Text}
	case "array":
		return r.array(s, depth)
	case "object":
		return r.object(s, depth)
	}
	return r.lose(anything)
}

func (r *renderer) array(s *rawjson.Node, depth int) expr {
	first, rest := s.Get("prefixItems"), s.Get("items")
	if first == nil && rest.Array() {
		first, rest = rest, s.Get("additionalItems")
	}
	if !first.Array() {
		return expr{text: r.render(rest, depth).tight() + "[]"}
	}
	var list []string
	for _, kid := range first.Kids {
		if len(list) == max(1, r.scale.members) {
			list = append(list, r.lose(more).text)
			break
		}
		list = append(list, r.render(kid, depth).text)
	}
	if rest != nil && !rest.Is(false) {
		list = append(list, "..."+r.render(rest, depth).tight()+"[]")
	}
	return expr{text: "[" + strings.Join(list, ", ") + "]"}
}

// join joins types with "|" or "&", each once. Without types the result is any.
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
