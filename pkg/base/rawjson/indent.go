package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
)

// maxExpanded is the number of levels that Indent writes with one member a line. Deeper levels stay
// in one line.
const maxExpanded = 256

// leastBlanks is how many bytes of white space Indent may always write.
const leastBlanks = 4 << 10

// Indent formats JSON for people: one member a line, one more unit of indentation for each level,
// and the prefix before each line except the first. It keeps the order of members and every byte
// that is not white space. It returns text that is not JSON unchanged.
//
// The white space uses at most twice the size of raw, or 4 KB if that is more. Indentation would
// otherwise grow with the square of the depth: 20 KB of nested arrays would become 180 MB. The
// first level that would exceed this limit, and all deeper levels, stay in one line. The result
// depends only on the arguments, so that two texts can be compared by lines.
func Indent(raw []byte, prefix, unit string) string {
	if !json.Valid(raw) {
		return string(raw)
	}
	var levels [maxExpanded]level
	size := 0
	scan(raw, func(token []byte, depth int, empty bool) {
		size += len(token)
		if depth > maxExpanded || depth == 0 || empty {
			return
		}
		switch l := &levels[depth-1]; token[0] {
		case '{', '[':
			l.lines++
		case '}', ']':
			l.ends++
		case ',':
			l.lines++
		case ':':
			l.colons++
		}
	})
	expanded := 0
	for most := max(2*len(raw), leastBlanks); expanded < maxExpanded && levels[expanded].lines > 0; expanded++ {
		blanks := levels[expanded].blanks(expanded, len(prefix), len(unit))
		if most -= blanks; most < 0 {
			break
		}
		size += blanks
	}
	w := indenter{prefix: prefix, unit: unit}
	w.out.Grow(size)
	scan(raw, func(token []byte, depth int, empty bool) { w.token(token, depth, depth > expanded || empty) })
	return w.out.String()
}

// A level counts the tokens at one depth of a document.
type level struct{ lines, ends, colons int }

// blanks returns how many bytes of white space the level uses. The outermost level has depth 0.
func (l level) blanks(depth, prefix, unit int) int {
	return l.lines*(1+prefix+(depth+1)*unit) + l.ends*(1+prefix+depth*unit) + l.colons
}

// An indenter writes tokens.
type indenter struct {
	out          strings.Builder
	prefix, unit string
}

// token writes one token. depth is the number of objects and arrays around it, including itself.
func (w *indenter) token(token []byte, depth int, inline bool) {
	c := token[0]
	if !inline && (c == '}' || c == ']') {
		w.line(depth - 1)
	}
	_, _ = w.out.Write(token) // a Builder never fails
	switch {
	case inline:
	case c == '{', c == '[', c == ',':
		w.line(depth)
	case c == ':':
		w.out.WriteString(" ")
	}
}

func (w *indenter) line(depth int) {
	w.out.WriteString("\n")
	w.out.WriteString(w.prefix)
	for range depth {
		w.out.WriteString(w.unit)
	}
}

// scan calls the function do with each token of a valid document: a bracket, a comma, a colon, or a
// whole string, number or word. If empty is true, the token
// has no members: a bracket of an empty object or array, a string, a number or a word.
func scan(raw []byte, do func(token []byte, depth int, empty bool)) {
	depth, opened := 0, false // opened: the last token was an opening bracket
	for i := 0; i < len(raw); {
		from := i
		switch c := raw[i]; c {
		case ' ', '\t', '\r', '\n':
			i++
			continue
		case '{', '[':
			i++
			depth++
			do(raw[from:i], depth, isClosed(raw[i:]))
			opened = true
			continue
		case '}', ']':
			i++
			do(raw[from:i], depth, opened)
			depth--
		case ',', ':':
			i++
			do(raw[from:i], depth, false)
		case '"':
			i = endOfString(raw, i)
			do(raw[from:i], 0, true)
		default:
			for i++; i < len(raw) && strings.IndexByte(" \t\r\n,]}", raw[i]) < 0; i++ {
			}
			do(raw[from:i], 0, true)
		}
		opened = false
	}
}

// isClosed reports whether the first token is a closing bracket.
func isClosed(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '}' || c == ']'
		}
	}
	return false
}

// endOfString returns the index after the string that begins at raw[i].
func endOfString(raw []byte, i int) int {
	for i++; i < len(raw) && raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(raw))
}

// Len returns the number of members of an object or elements of an array, and 0 for any other
// value. It expects valid JSON.
func Len(raw []byte) (n int) {
	scan(raw, func(token []byte, depth int, empty bool) {
		switch {
		case depth != 1:
		case token[0] == ',', !empty && (token[0] == '{' || token[0] == '['):
			n++
		}
	})
	return n
}

// Depth returns how deeply a document is nested: 0 for a text or a number, 1 for an object or array
// of these. It also reads documents with comments, and reads an invalid document as far as it can.
func Depth(raw []byte) (deepest int) {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		case '"':
			i = endOfString(raw, i) - 1
		case '/':
			i += comment(raw[i:])
		}
	}
	return deepest
}

// comment returns the length minus one of the comment at the beginning of text, or 0 if there is no
// comment.
func comment(text []byte) int {
	end := "\n"
	switch {
	case bytes.HasPrefix(text, []byte("/*")):
		end = "*/"
	case !bytes.HasPrefix(text, []byte("//")):
		return 0
	}
	if n := bytes.Index(text[2:], []byte(end)); n >= 0 {
		return 2 + n + len(end) - 1
	}
	return len(text) - 1
}
