package review

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// maxDepth is how deep schemas are walked. A deeper part is reported as a
// whole.
const maxDepth = 64

// top walks the schema of all parameters, or of the result.
func (w *walk) top(key string, p pair) {
	n := w.count
	if p.objects() {
		w.each(p, func(keyword string, member pair) { w.keyword(keyword, "", member, p) })
	}
	if w.count == n {
		w.value(key, "", p, "")
	}
}

// schema walks the schema at path.
func (w *walk) schema(path string, p pair) {
	if !p.differ() {
		return
	}
	if p.a.Object() && p.b.Object() && w.depth < maxDepth {
		w.depth++
		w.each(p, func(keyword string, member pair) { w.keyword(keyword, path, member, p) })
		w.depth--
		return
	}
	w.value(w.noun(), path, p, riskUnknown)
}

// noun returns the word for a property.
func (w *walk) noun() string {
	if w.input {
		return "parameter"
	}
	return "result"
}

// keyword reports the difference in one keyword of the schema at path. It has special words for
// the known forms of the keyword.
func (w *walk) keyword(key, path string, p, schema pair) {
	known := false
	switch key {
	case "properties":
		known = w.properties(path, p, schema)
	case "required":
		known = w.required(path, p, schema)
	case "type":
		known = w.types(path, p)
	case "enum":
		known = w.enum(path, p)
	case "title", "description", "$comment":
		known = w.words(key, path, p)
	case "items", "additionalItems":
		if known = p.a.Object() && p.b.Object(); known {
			w.schema(path+"[]", p)
		}
	case "prefixItems", "anyOf", "oneOf", "allOf":
		known = w.list(key, path, p)
	case "$defs", "definitions", "patternProperties", "dependentSchemas":
		known = w.named(key, path, p)
	case "additionalProperties", "unevaluatedProperties":
		w.others(key, path, p)
		known = true
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains":
		known = w.bound(key, path, p, 1)
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains":
		known = w.bound(key, path, p, -1)
	case "pattern", "multipleOf", "uniqueItems":
		known = w.rule(key, path, p)
	case "default":
		w.value(key, path, p, riskDefault)
		known = true
	case "format", "examples", "example", "deprecated", "$schema", "$id":
		w.value(key, path, p, "")
		known = true
	}
	if !known {
		w.value(key, path, p, riskUnknown)
	}
}

// value reports a difference with both values.
func (w *walk) value(what, path string, p pair, why string) {
	w.add(p.op(), clip(what, maxName), path, values(p), w.risk(why != "", why))
}

// words reports the difference between two texts as a number of words.
func (w *walk) words(key, path string, p pair) bool {
	if p.a != nil && p.a.Kind != '"' || p.b != nil && p.b.Kind != '"' {
		return false
	}
	var before, now string
	if p.a != nil {
		before = p.a.Text
	}
	if p.b != nil {
		now = p.b.Text
	}
	if key == "title" {
		w.value(key, path, p, "")
		return true
	}
	w.add(p.op(), key, path, countWords(Words(before, now)), "")
	return true
}

// countWords returns how many words were inserted and deleted, as a text such as "+3 −1 word".
func countWords(runs []Run) string {
	var n [Insert + 1]int
	for _, r := range runs {
		for w := range words(r.Text) {
			if first, _ := utf8.DecodeRuneInString(w); kindOf(first) == word || unicode.IsLetter(first) {
				n[r.Op]++
			}
		}
	}
	switch added, removed := n[Insert], n[Delete]; {
	case added+removed == 0:
		return "no words, only characters between them"
	case removed == 0:
		return "+" + text.Count(added, "word")
	case added == 0:
		return "−" + text.Count(removed, "word")
	default:
		return fmt.Sprintf("+%d −%s", added, text.Count(removed, "word"))
	}
}

func (w *walk) properties(path string, p, schema pair) bool {
	if !p.objects() {
		return false
	}
	before, now := listed(schema.a.Get("required")), listed(schema.b.Get("required"))
	w.each(p, func(name string, member pair) {
		at := join(path, name)
		switch {
		case member.a == nil:
			w.add("+", w.noun(), at, outline(member.b, now[name]), w.risk(true, riskNew))
		case member.b == nil:
			w.add("-", w.noun(), at, outline(member.a, before[name]), "")
		default:
			w.schema(at, member)
		}
	})
	return p.a != nil && p.b != nil || len(p.a.Members())+len(p.b.Members()) > 0 // otherwise {} was added or removed
}

// required reports which remaining properties became required or optional.
func (w *walk) required(path string, p, schema pair) bool {
	if !p.arrays() {
		return false
	}
	before, now := schema.a.Get("properties").Members(), schema.b.Get("properties").Members()
	a, b := listed(p.a), listed(p.b)
	known := false
	each := func(list *rawjson.Node, other map[string]bool, do func(name string)) {
		if list == nil {
			return
		}
		for _, kid := range list.Kids {
			if kid.Kind != '"' || other[kid.Text] {
				continue
			}
			known = true
			if (before[kid.Text] == nil) == (now[kid.Text] == nil) { // otherwise the outline of the property says it
				do(kid.Text)
			}
		}
	}
	each(p.a, b, func(name string) { w.add("-", "required", join(path, name), "optional now", w.risk(true, riskOmitted)) })
	each(p.b, a, func(name string) { w.add("+", "required", join(path, name), "required now", "") })
	return known
}

// listed returns the strings of an array.
func listed(array *rawjson.Node) map[string]bool {
	names := map[string]bool{}
	if array.Array() {
		for _, kid := range array.Kids {
			if kid.Kind == '"' {
				names[kid.Text] = true
			}
		}
	}
	return names
}

func (w *walk) types(path string, p pair) bool {
	list := func(n *rawjson.Node) map[string]bool {
		if n != nil && n.Kind == '"' {
			return map[string]bool{n.Text: true}
		}
		return listed(n)
	}
	a, b := list(p.a), list(p.b)
	wider := p.b == nil
	for t := range b {
		wider = wider || p.a != nil && !a[t] && (t != "integer" || !a["number"])
	}
	w.value("type", path, p, risk(wider, riskMore))
	return true
}

func (w *walk) enum(path string, p pair) bool {
	if !p.arrays() {
		return false
	}
	if p.a == nil || p.b == nil {
		w.value("enum", path, p, risk(p.b == nil, riskMore))
		return true
	}
	added, removed := missing(p.b, p.a), missing(p.a, p.b)
	if len(added) > 0 {
		w.add("+", "enum", path, some(added), w.risk(true, riskMore))
	}
	if len(removed) > 0 {
		w.add("-", "enum", path, some(removed), "")
	}
	if len(added)+len(removed) == 0 {
		w.add("~", "enum", path, "in another order, or one value twice", "")
	}
	return true
}

// missing returns the elements of list that other lacks.
func missing(list, other *rawjson.Node) (out []*rawjson.Node) {
	has := map[string]bool{}
	for _, kid := range other.Kids {
		has[string(kid.Raw)] = true
	}
	for _, kid := range list.Kids {
		if !has[string(kid.Raw)] {
			out = append(out, kid)
		}
	}
	return out
}

// list walks two lists of schemas side by side.
func (w *walk) list(key, path string, p pair) bool {
	if !p.a.Array() || !p.b.Array() || len(p.a.Kids) != len(p.b.Kids) {
		return false
	}
	for i := range p.a.Kids {
		w.schema(join(path, key)+"["+strconv.Itoa(i)+"]", pair{p.a.Kids[i], p.b.Kids[i]})
	}
	return true
}

// named walks schemas with arbitrary names.
func (w *walk) named(key, path string, p pair) bool {
	if !p.a.Object() || !p.b.Object() {
		return false
	}
	w.each(p, func(name string, member pair) {
		at := join(join(path, key), name)
		if member.a == nil || member.b == nil {
			w.value(key, at, member, riskUnknown)
			return
		}
		w.schema(at, member)
	})
	return true
}

// others reports a change of the rule for members that the schema does not name.
func (w *walk) others(key, path string, p pair) {
	if p.a.Object() && p.b.Object() {
		w.schema(join(path, "*"), p)
		return
	}
	w.value(key, path, p, risk(!p.b.Is(false), riskMore))
}

// bound reports a changed limit. sign is 1 for a minimum, -1 for a maximum.
func (w *walk) bound(key, path string, p pair, sign float64) bool {
	why := ""
	if p.b == nil {
		why = riskMore
	} else if p.a != nil {
		a, errA := strconv.ParseFloat(p.a.Text, 64)
		b, errB := strconv.ParseFloat(p.b.Text, 64)
		switch {
		case errA != nil || errB != nil || a == b: // not comparable, or different texts for the same number
			why = riskUnknown
		case (b-a)*sign < 0:
			why = riskMore
		}
	}
	w.add(p.op(), "bounds", path, key+" "+values(p), w.risk(why != "", why))
	return true
}

// rule reports a change of a keyword such as pattern: it restricts values, but a program cannot
// compare how strict two of its values are.
func (w *walk) rule(key, path string, p pair) bool {
	why := riskUnknown
	switch {
	case p.a == nil:
		why = ""
	case p.b == nil || key == "uniqueItems":
		why = risk(!p.b.Is(true), riskMore)
	}
	w.add(p.op(), "bounds", path, key+" "+values(p), w.risk(why != "", why))
	return true
}

// annotation reports a hint about the tool. An absent hint has the default value of the
// protocol.
func (w *walk) annotation(key string, p pair) {
	why := ""
	switch key {
	case "title":
		w.value("title", "annotations", p, "")
		return
	case "openWorldHint":
		why = risk(p.a.Is(false), riskOpen)
	case "idempotentHint":
		why = risk(p.a.Is(true), riskRepeat)
	}
	w.add(p.op(), "annotation", clip(key, maxName), values(p), why)
}

// join returns the path of a member.
func join(path, name string) string {
	name = clip(name, maxName)
	if name == "" || strings.ContainsAny(name, ".[] \"") {
		name = strconv.Quote(name)
	}
	if path == "" {
		return name
	}
	return clip(path+"."+name, maxPath)
}

// clip returns s in readable form, shortened to at most n characters. It reads only the part of s
// that it needs.
func clip(s string, n int) string { return text.Clip(Readable(begin(s, n)), n) }

// begin returns a prefix of s. If s has more than n characters, the prefix has more than n, too.
func begin[T string | json.RawMessage](s T, n int) string {
	return string(s[:min(len(s), (n+1)*utf8.UTFMax)])
}

// outline returns a schema in a few words, such as: string, optional, "where to look".
func outline(n *rawjson.Node, required bool) string {
	parts := []string{kinds(n), "optional"}
	if required {
		parts[1] = "required"
	}
	if d := n.TextOf("description"); d != "" {
		parts = append(parts, text.Quote(text.Line(Readable(d)), maxQuote))
	}
	return strings.Join(parts, ", ")
}

// kinds returns the types of values that a schema accepts, in a word or two.
func kinds(n *rawjson.Node) string {
	t := n.Get("type")
	switch list := n.List("enum"); {
	case len(list) > 0:
		return "one of " + some(list)
	case n.Get("const") != nil:
		return quoted(n.Get("const"))
	case t != nil && t.Kind == '"':
		return clip(t.Text, maxName)
	case len(n.List("type")) > 0:
		return some(n.List("type"))
	case n.Has("$ref", "anyOf", "oneOf", "allOf"):
		return "of a combined type"
	}
	return "of any type"
}

// some returns the first of the values, and the number of the others.
func some(list []*rawjson.Node) string {
	const most = 5
	names := make([]string, len(list))
	for i, n := range list[:min(most, len(list))] {
		names[i] = quoted(n)
	}
	return text.List(names, most)
}

// values returns the two values, or the only one.
func values(p pair) string {
	switch {
	case p.a == nil:
		return quoted(p.b)
	case p.b == nil:
		return quoted(p.a)
	}
	return quoted(p.a) + " → " + quoted(p.b)
}

// quoted returns a value in one line, shortened.
func quoted(n *rawjson.Node) string {
	if n.Kind == '"' {
		return text.Quote(Readable(begin(n.Text, maxQuote)), maxQuote)
	}
	return clip(begin(n.Raw, maxQuote), maxQuote)
}
