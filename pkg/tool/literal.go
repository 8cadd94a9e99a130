package tool

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// literals renders an enum.
func (r *renderer) literals(values []*node) expr {
	var list []expr
	for i, v := range values {
		if i == r.scale.literals && len(values) > i+1 {
			r.lossy = true
			list = append(list, expr{text: more})
			break
		}
		list = append(list, expr{text: r.literal(v)})
	}
	if len(list) == 0 {
		return expr{text: "never"}
	}
	return union(list)
}

func (r *renderer) literal(v *node) string {
	switch x := v.scalar.(type) {
	case string:
		return r.quote(x)
	case json.Number:
		if len(x) > maxLiteral {
			r.lossy = true
			return "number"
		}
		return x.String()
	case bool:
		if x {
			return "true"
		}
		return "false"
	}
	switch {
	case v.array:
		r.lossy = true
		return "any[]"
	case v.object:
		r.lossy = true
		return "object"
	case v.cut:
		r.lossy = true
		return anything
	}
	return "null"
}

// name renders a property name, in quotes if it is no identifier.
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
			r.lossy = true
			out.WriteString(more)
			break
		}
		switch {
		case c == '\'' || c == '\\':
			out.WriteByte('\\')
			out.WriteRune(c)
		case !unicode.IsPrint(c):
			r.lossy = true // control and other invisible characters
			out.WriteRune(utf8.RuneError)
		default:
			out.WriteRune(c)
		}
	}
	out.WriteByte('\'')
	return out.String()
}
