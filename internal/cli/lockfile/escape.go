package lockfile

import (
	"strings"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
)

// code returns foreign text as a Markdown code span for the cell of a table. Within a span nothing
// is HTML, a link, a picture, a mention or a reference, and no text can end the span. Renderers
// disagree about an escaped pipe, so a pipe becomes its number.
func code(s string, most int) string {
	s = strings.ReplaceAll(text.Clip(strings.Join(strings.Fields(review.Readable(s)), " "), most), "|", "⟨U+007C⟩")
	if s == "" {
		return "–"
	}
	fence := strings.Repeat("`", longestRun(s, '`')+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// block returns foreign text as a fenced block of Markdown in the language. The fence is longer
// than any fence in the text. If the text is too long, block cuts it, at the end of a line if
// possible, and adds the argument rest after the block.
func block(language, s, rest string, most int) string {
	s = strings.TrimRight(s, "\n")
	cut := len(s) > most
	if cut {
		s = s[:most]
		if i := strings.LastIndexByte(s, '\n'); i > most/2 {
			s = s[:i]
		}
		for !utf8.ValidString(s) { // the cut may split a character; the text was valid before
			s = s[:len(s)-1]
		}
	}
	fence := strings.Repeat("`", max(3, longestRun(s, '`')+1))
	out := fence + language + "\n" + s + "\n" + fence + "\n"
	if cut {
		out += "\n" + rest + "\n"
	}
	return out
}

// lines returns foreign text for a block: its lines, with each invisible character as a number.
func lines(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ToValidUTF8(review.Readable(s), "\ufffd"), "\r\n", "\n"), "\t", "    ")
}

// longestRun returns the length of the longest run of c.
func longestRun(s string, c byte) (longest int) {
	n := 0
	for i := range len(s) {
		if n++; s[i] != c {
			n = 0
		}
		longest = max(longest, n)
	}
	return longest
}
