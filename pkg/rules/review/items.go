package review

import (
	"cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// arguments walks the named arguments of a prompt. It returns false if it found nothing
// to report, for example if only the order of the arguments differs.
func (w *walk) arguments(p pair) bool {
	before, ok := argumentsOf(p.a)
	now, also := argumentsOf(p.b)
	if !ok || !also {
		return false
	}
	n := w.count
	w.input = true
	w.each(pair{before, now}, func(name string, argument pair) {
		at := join("", name)
		switch {
		case argument.a == nil:
			w.add("+", "argument", at, argumentText(argument.b), riskNew)
		case argument.b == nil:
			w.add("-", "argument", at, argumentText(argument.a), "")
		default:
			w.each(argument, func(key string, member pair) { w.argument(key, at, member) })
		}
	})
	w.input = false
	return w.count > n
}

// argument reports the difference in one member of an argument.
func (w *walk) argument(key, path string, p pair) {
	switch {
	case key == "required" && p.b.Is(true):
		w.add("+", "required", path, "required now", "")
	case key == "required" && p.a.Is(true):
		w.add("-", "required", path, "optional now", riskOmitted)
	case (key == "title" || key == "description") && w.words(key, path, p):
	default:
		w.value(key, path, p, riskUnknown)
	}
}

// argumentsOf returns a list of arguments as an object with a member for each; nil: there are
// none. ok is false if the list does not have the form of a prompt's arguments.
func argumentsOf(list *rawjson.Node) (byName *rawjson.Node, ok bool) {
	if list == nil {
		return nil, true
	}
	if _, err := tool.ReadArguments(list.Raw); err != nil {
		return nil, false
	}
	o := rawjson.Object{}
	for _, kid := range list.Kids {
		o = append(o, rawjson.Member{Name: kid.TextOf("name"), Value: kid.Raw})
	}
	byName, err := rawjson.Parse(o.Bytes())
	return byName, err == nil
}

// argumentText returns an argument in a few words.
func argumentText(n *rawjson.Node) string {
	s := "optional"
	if n.Get("required").Is(true) {
		s = "required"
	}
	if d := n.TextOf("description"); d != "" {
		s += ", " + text.Quote(text.Line(Readable(d)), maxQuote)
	}
	return s
}

// Outline returns a new definition in a few words: the input of a tool or a prompt, such as "1
// parameter", or the type of a resource.
func Outline(now tool.Definition) string {
	switch now.Kind {
	case tool.Prompt:
		return text.Count(rawjson.Len(now.Arguments), "argument")
	case tool.Resource:
		return cmp.Or(clip(now.MIMEType, maxName), "of no stated type")
	}
	return text.Count(rawjson.Len(rawjson.Get(now.InputSchema, "properties")), "parameter")
}
