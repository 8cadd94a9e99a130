package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
)

// texts prints each part of the definition that differs. For a new definition it prints every part
// except the name.
func (m marker) texts(t decide.Tool) {
	before, now := partsOf(t.Approved), partsOf(t.Definition)
	names := slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(now)))
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(placeOf(a), placeOf(b)), cmp.Compare(a, b))
	})
	signs := m.brief && quotesMarks(t)
	for _, name := range slices.Compact(names) {
		b, n := before[name], now[name]
		if b == n || len(before) == 0 && n.text == t.Name {
			continue
		}
		fmt.Fprintf(m.w, "\n%s\n", inLine(name))
		switch {
		case len(before) == 0:
			m.whole(n.text)
		case signs: // a sign precedes each line, where no text can imitate it
			m.signed(review.PlainWords(b.text, n.text))
		case b.json || n.json:
			m.changedLines(review.Lines(b.text, n.text))
		default:
			m.changedWords(review.Words(b.text, n.text))
		}
	}
}

// placeOf returns the position of a part in the output, in the order in which people read.
func placeOf(name string) int {
	if i := slices.Index([]string{"description", "title"}, name); i >= 0 {
		return i
	}
	return 2
}

// A partText is a member of a definition as text.
type partText struct {
	text string
	json bool
}

// partsOf returns the members of a definition by name.
func partsOf(raw json.RawMessage) map[string]partText {
	out := map[string]partText{}
	if len(raw) == 0 {
		return out
	}
	members, err := rawjson.Split(raw, rawjson.Lenient)
	if err != nil {
		return map[string]partText{"definition": {string(raw), false}}
	}
	for _, member := range members {
		var p partText
		if json.Unmarshal(member.Value, &p.text) != nil {
			p = partText{review.Indent(member.Value), true}
		}
		out[member.Name] = p
	}
	return out
}

// quotesMarks reports whether a text of a definition contains the marks of a change.
func quotesMarks(t decide.Tool) bool {
	if len(t.Approved) == 0 {
		return false
	}
	for _, parts := range []map[string]partText{partsOf(t.Approved), partsOf(t.Definition)} {
		// check the printed text, because JSON can encode a sign as a number
		for _, p := range parts {
			if slices.ContainsFunc([]string{"[-", "-]", "{+", "+}"}, func(mark string) bool { return strings.Contains(p.text, mark) }) {
				return true
			}
		}
	}
	return false
}

// readable returns a foreign line so that a terminal can safely print all of it.
func readable(line string) string {
	return text.Clip(strings.ReplaceAll(text.Reveal(line), "\t", "    "), math.MaxInt)
}

// whole prints a text.
func (m marker) whole(s string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
		m.line(' ', readable(line))
	}
}

// signed prints lines that begin with their signs.
func (m marker) signed(s string) {
	for line := range strings.Lines(s) {
		fmt.Fprintln(m.w, "  "+readable(strings.TrimSuffix(line, "\n")))
	}
}

// line prints a line of a text after its sign.
func (m marker) line(sign byte, s string) {
	fmt.Fprintln(m.w, strings.TrimRight("  "+string(sign)+" "+s, " "))
}

// A textLine is a printed line of a difference.
type textLine struct {
	sign byte // ' ': the line is unchanged
	text string
}

// changedWords prints a text with its changed words marked.
func (m marker) changedWords(runs []review.Run) { m.shorten(m.wordLines(runs)) }

func (m marker) wordLines(runs []review.Run) (lines []textLine) {
	var line strings.Builder
	sign := byte(' ')
	end := func() {
		lines = append(lines, textLine{sign, line.String()})
		line.Reset()
		sign = ' '
	}
	for _, run := range runs {
		first := true
		for part := range strings.SplitSeq(run.Text, "\n") {
			if !first {
				end()
			}
			if first = false; run.Op != review.Equal {
				sign = '~'
			}
			m.mark(&line, run.Op, part)
		}
	}
	end()
	return lines
}

// changedLines prints a text with its changed lines marked. If the numbers of removed and added
// lines are equal, it also marks the changed words in each line.
func (m marker) changedLines(runs []review.Run) {
	var lines []textLine
	for i := 0; i < len(runs); i++ {
		run := runs[i]
		went := strings.Split(strings.TrimSuffix(run.Text, "\n"), "\n")
		if run.Op == review.Delete && i+1 < len(runs) && runs[i+1].Op == review.Insert {
			came := strings.Split(strings.TrimSuffix(runs[i+1].Text, "\n"), "\n")
			if len(went) == len(came) {
				for k := range went {
					for _, l := range m.wordLines(review.Words(went[k], came[k])) {
						lines = append(lines, textLine{'~', l.text})
					}
				}
				i++
				continue
			}
		}
		for _, line := range went {
			switch line = m.cut(run.Op, readable(line)); run.Op {
			case review.Delete:
				lines = append(lines, textLine{'-', m.in(red, line)})
			case review.Insert:
				lines = append(lines, textLine{'+', m.in(green, line)})
			default:
				lines = append(lines, textLine{' ', line})
			}
		}
	}
	m.shorten(lines)
}

// around is the number of unchanged lines that are printed next to changed lines.
const around = 2

// shorten prints the changed lines, and the lines next to them.
func (m marker) shorten(lines []textLine) {
	skipped := false
	for i, l := range lines {
		beside := lines[max(0, i-around):min(len(lines), i+around+1)]
		if slices.ContainsFunc(beside, func(l textLine) bool { return l.sign != ' ' }) {
			m.line(l.sign, l.text)
			skipped = false
			continue
		}
		if !skipped {
			m.line(' ', "…")
		}
		skipped = true
	}
}

// cut shortens a part of a line for a brief marker. It keeps only the two ends of a long part that
// is unchanged or removed. It never shortens an added part.
func (m marker) cut(op review.Op, s string) string {
	keep := map[review.Op]int{review.Equal: 120, review.Delete: 400}[op]
	if !m.brief || keep == 0 || len(s) <= 2*keep {
		return s
	}
	if r := []rune(s); len(r) > 2*keep {
		return string(r[:keep]) + " … " + string(r[len(r)-keep:])
	}
	return s
}

// mark writes a part of a line with its mark.
func (m marker) mark(line *strings.Builder, op review.Op, s string) {
	before, after, colour := "{+", "+}", green
	switch s = m.cut(op, readable(s)); {
	case s == "" || op == review.Equal:
		line.WriteString(s)
		return
	case op == review.Delete:
		before, after, colour = "[-", "-]", red
	}
	if m.colour {
		before, after = colour+before, after+plain
	}
	for _, part := range [...]string{before, s, after} {
		line.WriteString(part)
	}
}

// in returns s in a colour, if the output has colours.
func (m marker) in(colour, s string) string {
	if !m.colour {
		return s
	}
	return colour + s + plain
}
