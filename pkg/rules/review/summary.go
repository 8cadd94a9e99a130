package review

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Change is the computed difference between two definitions.
type Change struct {
	Items []Item // at most 200; items with a risk come before others
	More  int    // items that were left out
}

// An Item is one difference. Its texts are data of the server, shortened to one line.
type Item struct {
	Op   string // "+", "-" or "~": added, removed, changed
	What string // parameter, result, argument, required, type, enum, default, bounds, description, tier, …
	Path string // of the parameter, result or argument, such as "filter.tags[].name"; "": the whole definition
	Text string // the old and the new value, or the new one
	Risk string // how it gives the tool, or its caller, more power; "": it does not
}

// The risks of a change, for the person who approves it.
const (
	riskNew     = "new power"           // a parameter more
	riskOmitted = "may be left out now" // a parameter is no longer required
	riskMore    = "takes more values"   // a wider type, enum or bound
	riskDefault = "acts differently by default"
	riskTier    = "higher tier"
	riskOpen    = "reaches the outside world"
	riskRepeat  = "acts again when repeated"
	riskUnknown = "not judged" // it may be wider; only a reader can decide
)

const (
	maxItems = 200
	maxQuote = 60  // characters of one text of the server
	maxName  = 40  // characters of one name in a path
	maxPath  = 120 // characters of a path
	maxLine  = 80  // usual length of a line in characters
)

// Summarize returns the differences between two definitions. Every difference in canonical form
// gives at least one item. An empty before means that there was none.
func Summarize(before, now tool.Definition) Change {
	w := &walk{}
	p := pair{root(before.Raw), root(now.Raw)}
	if !p.differ() {
		return Change{}
	}
	if a, b := before.Annotations.Tier(), now.Annotations.Tier(); a != b && before.Raw != nil {
		w.add("~", "tier", "", a.String()+" → "+b.String(), risk(b < a, riskTier))
	}
	do := func(key string, p pair) {
		switch {
		case key == "inputSchema":
			w.input = true
			w.top(key, p)
			w.input = false
		case key == "outputSchema":
			w.top(key, p)
		case key == "arguments" && cmp.Or(now.Kind, before.Kind) == tool.Prompt && w.arguments(p):
		case key == "description" && w.words(key, "", p):
		case key == "annotations" && p.a.Object() && p.b.Object():
			w.each(p, w.annotation)
		default:
			w.value(key, "", p, "")
		}
	}
	first := []string{"inputSchema", "arguments", "description", "title", "annotations"} // then the other members, by name
	for _, key := range first {
		if member := (pair{p.a.Get(key), p.b.Get(key)}); member.differ() {
			do(key, member)
		}
	}
	w.each(p, func(key string, p pair) {
		if !slices.Contains(first, key) {
			do(key, p)
		}
	})
	if w.count == 0 { // one definition is too large to be read
		w.input = true
		w.value("definition", "", p, riskUnknown)
	}
	return w.change()
}

// Line returns the change as one short line: "+parameter run_as, description +1 word".
func (c Change) Line() string {
	var line string
	for i, item := range c.Items {
		part := item.line()
		if i > 0 && utf8.RuneCountInString(line+part) > maxLine {
			return line + " and " + text.Count(len(c.Items)-i+c.More, "change") + " more"
		}
		if i > 0 {
			line += ", "
		}
		line += part
	}
	if line == "" {
		return "no change"
	}
	return line
}

func (i Item) line() string {
	var parts []string
	for _, s := range []string{strings.TrimPrefix(i.Op, "~") + i.What, i.Path} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if i.Path == "" && i.Op == "~" && (i.What == "description" || i.What == "tier") {
		parts = append(parts, i.Text)
	}
	return text.Clip(strings.Join(parts, " "), maxLine)
}

// A pair is the old and the new value; nil: none.
type pair struct{ a, b *rawjson.Node }

// maxNodes is how many values of a definition are compared one by one. Definitions by people have
// fewer values, because 10,240 values of 11 bytes take 110 KB.
const maxNodes = 10 << 10

// root reads a definition in canonical form, in which equal parts have equal bytes.
func root(raw json.RawMessage) *rawjson.Node {
	if len(raw) > tool.MaxDefinition {
		return &rawjson.Node{Raw: raw}
	}
	raw = canonical(raw)
	n, err := rawjson.ParseBounded(raw, maxNodes)
	if err != nil && len(raw) > 0 { // only damage causes this: the definition was parsed before
		return &rawjson.Node{Raw: raw}
	}
	return n
}

func (p pair) differ() bool {
	if p.a == nil || p.b == nil {
		return p.a != p.b
	}
	return !bytes.Equal(p.a.Raw, p.b.Raw)
}

// op returns the sign of a difference.
func (p pair) op() string {
	switch {
	case p.a == nil:
		return "+"
	case p.b == nil:
		return "-"
	}
	return "~"
}

// objects reports whether each value that exists is an object.
func (p pair) objects() bool {
	return (p.a == nil || p.a.Object()) && (p.b == nil || p.b.Object())
}

// arrays reports whether each value that exists is an array.
func (p pair) arrays() bool {
	return (p.a == nil || p.a.Array()) && (p.b == nil || p.b.Array())
}

// A walk collects items.
type walk struct {
	items []Item // the first items, at most maxItems
	risky []Item // items with a risk that no longer fit into items, at most maxItems
	count int    // number of items
	input bool   // this part is the tool's input, where more is more power
	depth int
}

func (w *walk) add(op, what, path, text, risk string) {
	item := Item{op, what, path, text, risk}
	w.count++
	switch {
	case len(w.items) < maxItems:
		w.items = append(w.items, item)
	case risk != "" && len(w.risky) < maxItems:
		w.risky = append(w.risky, item)
	}
}

// risk returns r, or "" if the condition does not hold.
func risk(holds bool, r string) string {
	if holds {
		return r
	}
	return ""
}

// risk returns r if the condition holds and the part is the tool's input; otherwise "".
func (w *walk) risk(holds bool, r string) string { return risk(holds && w.input, r) }

// each calls the function do for each member that differs between two objects, sorted by name.
func (w *walk) each(p pair, do func(key string, p pair)) {
	a, b := p.a.Members(), p.b.Members()
	keys := make([]string, 0, len(a)+len(b))
	for key := range a {
		keys = append(keys, key)
	}
	for key := range b {
		if a[key] == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		if member := (pair{a[key], b[key]}); member.differ() {
			do(key, member)
		}
	}
}

// change returns the collected items.
func (w *walk) change() Change {
	c := Change{Items: w.items, More: w.count - len(w.items)}
	if c.More > 0 {
		c.Items = slices.Concat(w.items, w.risky)
		slices.SortStableFunc(c.Items, func(a, b Item) int { return -cmp.Compare(min(len(a.Risk), 1), min(len(b.Risk), 1)) })
		c.Items = c.Items[:maxItems:maxItems]
	}
	return c
}
