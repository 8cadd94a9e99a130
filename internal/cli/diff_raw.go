package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
)

// inContext is the number of unchanged lines before and after changed lines, as in diff -u.
const inContext = 3

// raw prints both definitions as a unified diff of their indented JSON, or nothing if they are
// equal.
func (m marker) raw(t decide.Tool) {
	before, from := t.Approved, "nothing"
	switch {
	case isApproved(t):
		return
	case len(before) > 0:
		from = "approved " + hashOf(t)
	}
	lines := diffLines(review.Lines(jsonLines(before), jsonLines(t.Definition)))
	fmt.Fprintf(m.w, "--- %s %s\n+++ %s now %s\n", inLine(t.ID), from, inLine(t.ID), inLine(string(t.Hash)))
	m.hunks(lines)
}

// diffLines returns runs of lines as the lines of a diff.
func diffLines(runs []review.Run) (lines []textLine) {
	for _, run := range runs {
		sign := map[review.Op]byte{review.Equal: ' ', review.Delete: '-', review.Insert: '+'}[run.Op]
		for line := range strings.Lines(run.Text) {
			lines = append(lines, textLine{sign, readable(strings.TrimSuffix(line, "\n"))})
		}
	}
	return lines
}

func hashOf(t decide.Tool) string {
	if t.Record == nil {
		return ""
	}
	return inLine(string(t.Record.ApprovedHash))
}

// jsonLines returns a definition as lines of JSON with every character visible. It returns "" if
// there is none.
func jsonLines(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	if !json.Valid(raw) {
		return string(raw) + "\n" // not JSON, which only damage can cause
	}
	return escaped(review.Indent(raw)) + "\n"
}

// hunks prints the changed lines with their context.
func (m marker) hunks(lines []textLine) {
	before, now := 1, 1 // the numbers of the next line
	for i := 0; i < len(lines); {
		end := hunkEnd(lines, i)
		if end == i { // no changed line is near
			before, now, i = before+1, now+1, i+1
			continue
		}
		a, b := 0, 0
		for _, l := range lines[i:end] {
			if l.sign != '+' {
				a++
			}
			if l.sign != '-' {
				b++
			}
		}
		fmt.Fprintf(m.w, "@@ -%s +%s @@\n", hunkRange(before, a), hunkRange(now, b))
		for _, l := range lines[i:end] {
			line := string(l.sign) + l.text
			switch l.sign {
			case '-':
				line = m.in(red, line)
			case '+':
				line = m.in(green, line)
			}
			fmt.Fprintln(m.w, line)
		}
		before, now, i = before+a, now+b, end
	}
}

// hunkRange returns the line numbers of a hunk. For an empty hunk it returns the number of the line
// before.
func hunkRange(first, n int) string {
	if n == 0 {
		first--
	}
	return fmt.Sprintf("%d,%d", first, n)
}

// hunkEnd returns the end of the hunk that begins at line i, or i if no hunk begins there.
func hunkEnd(lines []textLine, i int) int {
	near := func(from, most int) (at int) { // the next changed line, at most this many lines ahead
		for at = from; at < len(lines) && at <= from+most; at++ {
			if lines[at].sign != ' ' {
				return at
			}
		}
		return -1
	}
	at := near(i, inContext)
	if at < 0 {
		return i
	}
	for {
		next := near(at+1, 2*inContext)
		if next < 0 {
			return min(len(lines), at+1+inContext)
		}
		at = next
	}
}
