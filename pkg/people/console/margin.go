package console

import (
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// withoutMargin removes the white space with which the server begins each line after the first, as
// in an indented comment of its program. It removes the same white space from both texts, and from
// no line that has less, so that the difference of the results shows each change. margin describes
// the white space; "": there is none, and the texts are unchanged.
func withoutMargin(before, now string, found []place) (_, _ string, _ []place, margin string) {
	m := marginOf(before, now)
	if m == "" {
		return before, now, found, ""
	}
	before, _ = dedent(before, m)
	now, removed := dedent(now, m)
	moved := make([]place, 0, len(found))
	for _, p := range found {
		from, to := p.from-removed(p.from), p.to-removed(p.to)
		if from < to { // a place in the margin is not shown
			moved = append(moved, place{from, to, p.id})
		}
	}
	return before, now, moved, describeMargin(m)
}

// describeMargin returns white space in words.
func describeMargin(m string) string {
	switch {
	case strings.Trim(m, " ") == "":
		return text.Count(len(m), "blank")
	case strings.Trim(m, "\t") == "":
		return text.Count(len(m), "tab")
	}
	return "the same blanks and tabs"
}

// marginOf returns the white space with which each line of the texts begins, except for first lines
// and blank lines. It returns "" if there are fewer than two such lines.
func marginOf(texts ...string) (margin string) {
	lines := 0
	for _, s := range texts {
		_, rest, _ := strings.Cut(s, "\n")
		in := 0
		for line := range strings.Lines(rest) {
			if text.Blank(line) {
				continue
			}
			indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
			if in++; lines == 0 && in == 1 {
				margin = indent
			}
			for !strings.HasPrefix(indent, margin) {
				margin = margin[:len(margin)-1]
			}
		}
		lines = max(lines, in)
	}
	if lines < 2 {
		return ""
	}
	return margin
}

// dedent removes the margin from each line after the first that is not blank. removed returns how
// many bytes it removed before an offset in s.
func dedent(s, margin string) (out string, removed func(at int) int) {
	var b strings.Builder
	var cuts []int // where a margin begins in s
	at := 0
	for line := range strings.Lines(s) {
		if at > 0 && !text.Blank(line) {
			cuts = append(cuts, at)
			b.WriteString(line[len(margin):])
		} else {
			b.WriteString(line)
		}
		at += len(line)
	}
	return b.String(), func(at int) (n int) {
		for _, cut := range cuts {
			n += min(max(0, at-cut), len(margin))
		}
		return n
	}
}
