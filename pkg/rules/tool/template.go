package tool

import (
	"fmt"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// maxExpressions is how many expressions a URI template may have. A template with more
// expressions matches nothing.
const maxExpressions = 32

// MatchTemplate reports whether a URI matches a URI template (RFC 6570), and how many steps this
// took: for every template, at most the product of both lengths.
//
// Servers differ in what an expression matches. MatchTemplate matches what any common library
// matches, so that the lock of a template covers everything that its server would answer: {x}
// matches any text without a slash, {x*} and {+x} match any text, and all other expressions match
// any text that begins with their operator. A template that is malformed or has more than 32
// expressions matches nothing.
func MatchTemplate(template, uri string) (matches bool, steps int) {
	if open := strings.IndexByte(template, '{'); open < 0 {
		return template == uri, 1
	} else if !strings.HasPrefix(uri, template[:open]) {
		return false, 1
	}
	if end := strings.LastIndexByte(template, '}'); !strings.HasSuffix(uri, template[end+1:]) {
		return false, 1
	}
	// at holds the positions in uri up to which the template can match so far.
	at, next := make([]bool, len(uri)+1), make([]bool, len(uri)+1)
	at[0] = true
	for n := 0; template != ""; n++ {
		literal, rest, ok := strings.Cut(template, "{")
		steps += len(at) + afterLiteral(at, next, uri, literal)
		at, next = next, at
		if !ok {
			break
		}
		expression, rest, closed := strings.Cut(rest, "}")
		e, valid := readExpression(expression)
		if !closed || !valid || n == maxExpressions {
			return false, steps
		}
		e.after(at, next, uri)
		at, next = next, at
		steps += len(at)
		template = rest
	}
	return at[len(uri)], steps
}

// compared is how many bytes can be compared in about the time of one step.
const compared = 16

// afterLiteral sets the positions in next that follow the literal at one of the positions in at.
// It returns how many steps the comparison took.
func afterLiteral(at, next []bool, uri, literal string) (steps int) {
	clear(next)
	for i, here := range at {
		if !here {
			continue
		}
		if steps++; strings.HasPrefix(uri[i:], literal) {
			next[i+len(literal)] = true
			steps += len(literal) / compared
		}
	}
	return steps
}

// validTemplate returns an error if s is not a URI template that [MatchTemplate] can match.
func validTemplate(s string) error {
	rest, n := s, 0
	for {
		literal, after, ok := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return fmt.Errorf("URI template %s has a } without a {", text.Quote(s, 64))
		}
		if !ok {
			return nil
		}
		inside, after, closed := strings.Cut(after, "}")
		if _, valid := readExpression(inside); !closed || !valid {
			return fmt.Errorf("URI template %s has an invalid expression", text.Quote(s, 64))
		}
		if n++; n > maxExpressions {
			return fmt.Errorf("URI template %s has more than %d expressions", text.Quote(s, 64), maxExpressions)
		}
		rest = after
	}
}

// An expression describes the texts that match one expression of a template.
type expression struct {
	lead     byte   // first byte of the text; 0: any
	without  string // bytes that the text does not contain
	nonempty bool
}

func readExpression(s string) (e expression, ok bool) {
	if s == "" || strings.ContainsAny(s, "{}") {
		return e, false
	}
	names := s[1:]
	switch s[0] {
	case '+':
	case '#':
		e = expression{lead: '#'}
	case '.':
		e = expression{lead: '.', without: "/"}
	case '/':
		e = expression{lead: '/', without: "?#"}
	case ';':
		e = expression{lead: ';', without: "/?#"}
	case '?', '&':
		e = expression{lead: s[0], without: "#"}
	default:
		names = s
		if e = (expression{nonempty: true, without: "/"}); strings.Contains(s, "*") {
			e.without = ""
		}
	}
	return e, names != ""
}

// after sets the positions in next where the expression can end if it begins at one of the
// positions in at.
func (e expression) after(at, next []bool, uri string) {
	inside := false
	for i, here := range at {
		next[i] = inside || here && !e.nonempty
		if i == len(uri) {
			break
		}
		switch c := uri[i]; {
		case here && (e.lead == 0 || c == e.lead):
			inside = e.lead != 0 || strings.IndexByte(e.without, c) < 0
		case inside:
			inside = strings.IndexByte(e.without, c) < 0
		}
	}
}
