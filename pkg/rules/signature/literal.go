package signature

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// maxLiteral is how many characters of one literal or property name are shown.
const maxLiteral = 40

// examples is how many literals are shown of an enum that is too long: enough to see their form.
const examples = 3

// literals renders an enum.
func (r *renderer) literals(values []*rawjson.Node) expr {
	if len(values) == 0 {
		return expr{text: "never"}
	}
	cut := len(values) > r.scale.literals+1
	if cut {
		values = values[:min(examples, r.scale.literals)]
	}
	var list []expr
	for _, v := range values {
		list = append(list, r.literal(v))
	}
	if cut {
		list = append(list, r.lose(more))
	}
	return join(list, "|")
}

func (r *renderer) literal(v *rawjson.Node) expr {
	switch v.Kind {
	case '"':
		return expr{text: r.quote(v.Text)}
	case '0':
		if len(v.Text) > maxLiteral {
			return r.lose("number")
		}
		return expr{text: v.Text}
	case '[':
		return r.lose("any[]")
	case '{':
		return r.lose("object")
	case 't', 'f', 'n':
		return expr{text: v.Kind.String()}
	}
	return r.lose(anything)
}

// name renders a property name, with quotes if it is not an identifier.
func (r *renderer) name(s string) string {
	for i, c := range s {
		if c != '_' && c != '$' && !unicode.IsLetter(c) && (i == 0 || !unicode.IsDigit(c)) {
			return r.quote(s)
		}
	}
	if s == "" || utf8.RuneCountInString(s) > maxLiteral {
		return r.quote(s)
	}
	return s
}

// quote renders a string in single quotes, which JSON need not escape again.
func (r *renderer) quote(s string) string {
	var out strings.Builder
	out.WriteByte('\'')
	n := 0
	for _, c := range s {
		if n++; n > maxLiteral {
			out.WriteString(r.lose(more).text)
			break
		}
		switch {
		case c == '\'' || c == '\\':
			out.WriteByte('\\')
			out.WriteRune(c)
		case !unicode.IsPrint(c):
			r.hide(true) // control and other invisible characters
			out.WriteRune(utf8.RuneError)
		default:
			out.WriteRune(c)
		}
	}
	out.WriteByte('\'')
	return out.String()
}
