package policy

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// syntaxFaults returns the fault of each statement that does not parse; whole
// is the parser's error on the whole text.
func syntaxFaults(text string, whole error) config.Faults {
	var faults config.Faults
	for _, s := range statements(text) {
		// White space replaces the text before the statement, so that its positions stay right.
		line, col := place(text, s.from)
		padded := strings.Repeat("\n", line-1) + strings.Repeat(" ", col-1) + text[s.from:s.to]
		if _, err := cedar.NewPolicyListFromBytes("", []byte(padded)); err != nil {
			f := syntaxFault(padded, err)
			if f.Line == 0 {
				begin := strings.TrimLeftFunc(text[s.from:s.to], unicode.IsSpace)
				f.Line, f.Col = place(text, s.to-len(begin))
			}
			faults = append(faults, f)
		}
	}
	if len(faults) == 0 { // the parser splits the statements at other places
		faults = config.Faults{syntaxFault(text, whole)}
	}
	return faults
}

// place returns the line and the column of the byte at offset. Both start at 1, and the column
// counts characters.
func place(text string, offset int) (line, col int) {
	before := text[:offset]
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
}

// parserError matches the errors of the Cedar parser: the position, and in most of them the next
// token.
const parserError = `^(?:parser error: )?(?:parse error at )?(?:<input>:|:)?(\d+):(\d+)(?: ("(?:[^"\\]|\\.)*"))?: (.*)$`

// syntaxFault reads line and column from the parser's error, which is text only. The parser has
// usually read one token too far when it fails, so syntaxFault moves the position back to the
// faulty token.
func syntaxFault(text string, err error) config.Fault {
	m := regexp.MustCompile(parserError).FindStringSubmatch(err.Error())
	if m == nil {
		return config.Fault{Message: notCedar + strings.TrimPrefix(err.Error(), "parser error: ")}
	}
	line, _ := strconv.Atoi(m[1]) // the pattern matches digits only
	col, _ := strconv.Atoi(m[2])
	message, at := m[4], offset(text, line, col)
	found, want, exact := strings.Cut(strings.TrimPrefix(message, "exact got "), " want ")
	switch {
	case m[3] == "" || strings.HasPrefix(message, "got "): // the position is right
	case exact && found == "":
		message = "found the end, want " + want
	case exact:
		message = "found " + found + ", want " + want
		at = max(0, strings.LastIndex(text[:at], found))
	case message == "invalid primary", message == "unexpected token":
		var token string
		at, token = tokenBefore(text, at)
		message = "unexpected " + token
	default:
		at, _ = tokenBefore(text, at)
	}
	f := config.Fault{Message: notCedar + message}
	f.Line, f.Col = place(text, at)
	return f
}

const notCedar = "not Cedar: "

// offset is the inverse of place: it returns the offset of the byte at a line and column.
func offset(text string, line, col int) int {
	at := 0
	for ; line > 1; line-- {
		at += strings.IndexByte(text[at:], '\n') + 1
	}
	for i := range text[at:] {
		if col--; col == 0 {
			return at + i
		}
	}
	return len(text)
}

// tokenBefore returns the offset and the text of the last token in text[:at].
func tokenBefore(text string, at int) (int, string) {
	end := len(strings.TrimRightFunc(text[:at], unicode.IsSpace))
	word := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	from := len(strings.TrimRightFunc(text[:end], word))
	if from == end && end > 0 {
		_, size := utf8.DecodeLastRuneInString(text[:end])
		from = end - size
	}
	if open := strings.LastIndexByte(text[:from], '"'); from < end && text[from] == '"' && open >= 0 {
		from = open
	}
	return from, text[from:end]
}

// A span is a part of the text, in bytes.
type span struct{ from, to int }

// statements splits the text after each semicolon that is in neither a string nor a comment.
func statements(text string) []span {
	var out []span
	from := 0
	for i := 0; i < len(text); i++ {
		if end := quotedEnd(text, i); end != i {
			i = end
		} else if text[i] == ';' {
			out = append(out, span{from, i + 1})
			from = i + 1
		}
	}
	return append(out, span{min(from, len(text)), len(text)})
}

// quotedEnd returns the offset of the last byte of the comment or the string that begins at i. If a
// string has no end, the result can be len(text). If no comment or string begins at i, or a comment
// with /* has no end, the result is i.
func quotedEnd(text string, i int) int {
	switch {
	case strings.HasPrefix(text[i:], "//"):
		for i+1 < len(text) && text[i+1] != '\n' {
			i++
		}
	case strings.HasPrefix(text[i:], "/*"):
		if end := strings.Index(text[i+2:], "*/"); end >= 0 {
			i += 2 + end + 1
		}
	case text[i] == '"':
		// The end of the line ends a string too. So a string without a closing quote makes only
		// one statement faulty.
		for i++; i < len(text) && text[i] != '"' && text[i] != '\n'; i++ {
			if text[i] == '\\' {
				i++
			}
		}
	}
	return i
}

// scopeEnd returns the offset after the parenthesis that closes the scope of a forbid; 0 if there
// is no such scope.
func scopeEnd(text string) int {
	const effect = "forbid"
	depth, began := 0, false
	for i := 0; i < len(text); i++ {
		if end := quotedEnd(text, i); end != i {
			i = end
			continue
		}
		switch {
		case text[i] == '(':
			depth++
		case text[i] == ')':
			if depth--; began && depth == 0 {
				return i + 1
			}
		case strings.HasPrefix(text[i:], effect) && depth == 0:
			began = !partOfWord(text[:i], text[i+len(effect):]) && !strings.HasSuffix(strings.TrimSpace(text[:i]), "@")
		}
	}
	return 0
}
