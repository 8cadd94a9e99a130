package review

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// How much equal text is shown on either side of a change.
const (
	nearWords = 120 // characters
	nearLines = 3
)

// PlainWords returns [Words] as lines of text, for a terminal or a diff block of Markdown. Each
// line starts with "- " if it was deleted, with "+ " if it was inserted, and with two blanks if
// both sides have it. A line that starts with "@@" says how much equal text is left out; no line
// of the two texts starts so. Hidden characters are shown as numbers, and so is white space if
// nothing else changed.
func PlainWords(before, now string) string {
	return plain(Words(before, now), nearWords, func(s string, first, last int) (head, tail, left string) {
		n := utf8.RuneCountInString(s)
		if n <= first+last+nearWords/2 {
			return s, "", ""
		}
		runes := []rune(s)
		return string(runes[:first]), string(runes[n-last:]), text.Count(n-first-last, "character")
	})
}

// PlainLines is PlainWords for [Lines].
func PlainLines(before, now string) string {
	return plain(Lines(before, now), nearLines, func(s string, first, last int) (head, tail, left string) {
		s = strings.TrimSuffix(s, "\n")
		n := strings.Count(s, "\n") + 1
		if n <= first+last+1 {
			return s, "", ""
		}
		from, to := 0, len(s)
		for range first {
			from += strings.IndexByte(s[from:], '\n') + 1
		}
		for range last {
			to = strings.LastIndexByte(s[:to], '\n')
		}
		return s[:from], s[min(to+1, len(s)):], text.Count(n-first-last, "line")
	})
}

// plain writes runs. cut splits an equal text into the parts to show at its start and at its end,
// of the given sizes, and the size of the part between them. The shown parts are next to changes.
func plain(runs []Run, near int, cut func(s string, first, last int) (head, tail, left string)) string {
	var out strings.Builder
	size := 0
	for _, r := range runs {
		if size += 8; r.Op != Equal {
			size += len(r.Text) + 2*strings.Count(r.Text, "\n")
		}
	}
	out.Grow(size)
	for i, r := range runs {
		switch r.Op {
		case Delete:
			signed(&out, "- ", changed(r.Text))
		case Insert:
			signed(&out, "+ ", changed(r.Text))
		default:
			first, last := near, near
			if i == 0 {
				first = 0
			}
			if i == len(runs)-1 {
				last = 0
			}
			head, tail, left := cut(r.Text, first, last)
			signed(&out, "  ", head)
			if left != "" {
				fmt.Fprintf(&out, "@@ %s the same @@\n", left)
			}
			signed(&out, "  ", tail)
		}
	}
	return out.String()
}

// signed writes the lines of s, each after sign.
func signed(out *strings.Builder, sign, s string) {
	if s == "" {
		return
	}
	s = strings.ReplaceAll(Readable(s), "\r\n", "\n")
	for line := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
		if line = strings.TrimRight(strings.ReplaceAll(line, "\t", "    "), " "); line != "" {
			out.WriteString(sign)
		} else {
			out.WriteString(strings.TrimRight(sign, " "))
		}
		out.WriteString(line)
		out.WriteByte('\n')
	}
}

// changed returns a deleted or inserted text, as numbers if all of it is invisible.
func changed(s string) string {
	if strings.TrimSpace(s) != "" {
		return s
	}
	var out strings.Builder
	out.Grow(len("⟨U+0020⟩") * len(s))
	for _, r := range s {
		if !unicode.IsSpace(r) {
			r = utf8.RuneError
		}
		fmt.Fprintf(&out, "⟨U+%04X⟩", r)
	}
	return out.String()
}
