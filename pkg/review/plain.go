package review

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/text"
)

// How much of what is equal is shown on either side of a change.
const (
	nearWords = 120 // characters
	nearLines = 3
)

// PlainWords returns [Words] as lines of text, as a terminal and a diff block of Markdown show them:
// each begins with "- " where it was deleted, with "+ " where it was inserted, and with two blanks
// where it stands on both sides. A line that begins with "@@" says how much is left out of what is
// equal; no line of the two texts begins so. Characters that are not seen are shown as numbers, and so
// is white space where it is all that changed.
func PlainWords(before, now string) string {
	return plain(Words(before, now), func(s string, first, last bool) (head, tail string, left string) {
		n := utf8.RuneCountInString(s)
		keepHead, keepTail := nearWords, nearWords
		if first {
			keepHead = 0
		}
		if last {
			keepTail = 0
		}
		if n <= keepHead+keepTail+nearWords/2 {
			return s, "", ""
		}
		runes := []rune(s)
		return string(runes[:keepHead]), string(runes[n-keepTail:]), text.Count(n-keepHead-keepTail, "character")
	})
}

// PlainLines is PlainWords for [Lines].
func PlainLines(before, now string) string {
	return plain(Lines(before, now), func(s string, first, last bool) (head, tail string, left string) {
		lines := strings.SplitAfter(strings.TrimSuffix(s, "\n"), "\n")
		keepHead, keepTail := nearLines, nearLines
		if first {
			keepHead = 0
		}
		if last {
			keepTail = 0
		}
		if len(lines) <= keepHead+keepTail+1 {
			return s, "", ""
		}
		middle := len(lines) - keepHead - keepTail
		return strings.Join(lines[:keepHead], ""), strings.Join(lines[len(lines)-keepTail:], ""), text.Count(middle, "line")
	})
}

// plain writes runs. near cuts a text that is equal into what is shown of its beginning and its end,
// and how much is left out between them; first and last say that no change comes before it or after it.
func plain(runs []Run, near func(s string, first, last bool) (head, tail, left string)) string {
	var out strings.Builder
	for i, r := range runs {
		switch r.Op {
		case Delete:
			signed(&out, "- ", changed(r.Text))
		case Insert:
			signed(&out, "+ ", changed(r.Text))
		default:
			head, tail, left := near(r.Text, i == 0, i == len(runs)-1)
			signed(&out, "  ", head)
			if left != "" {
				fmt.Fprintf(&out, "@@ %s the same @@\n", left)
			}
			signed(&out, "  ", tail)
		}
	}
	return out.String()
}

// signed writes the lines of s, each behind sign.
func signed(out *strings.Builder, sign, s string) {
	if s == "" {
		return
	}
	s = strings.ReplaceAll(Readable(s), "\r\n", "\n")
	for line := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
		out.WriteString(strings.TrimRight(sign+strings.ReplaceAll(line, "\t", "    "), " ") + "\n")
	}
}

// changed returns a text that was deleted or inserted, as numbers if none of it would show.
func changed(s string) string {
	if strings.TrimSpace(s) != "" {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		if !unicode.IsSpace(r) {
			r = utf8.RuneError
		}
		fmt.Fprintf(&out, "⟨U+%04X⟩", r)
	}
	return out.String()
}
