package console

import (
	"strings"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
)

// Limits of the unchanged text on either side of a change, if a block has only changes. A text that
// is compared by words may consist of one line.
const (
	contextLines      = 3
	contextCharacters = 200
	minSkip           = 80 // bytes; a page leaves out no shorter text
)

// A segment is a part of a text on a page.
type segment struct {
	Op   string // "ins", "del", "skip" (omitted unchanged text); "": unchanged
	Text string
	Mark string // id of the finding in this text; "": none
}

// A place is the byte range of a finding in a text.
type place struct {
	from, to int
	id       string
}

// A block is a text as a page shows it.
type block struct {
	Title  string
	Inline []segment
	Before []segment // if Side is set: the earlier text; Inline then has the current text
	Side   bool
	Cut    bool // the text is longer than the page shows
	Rest   string
	Parts  int    // how many parts differ
	Margin string // in words: what the server has before each line, and the block leaves out
	lines  bool   // the text was compared by lines
}

// A textLimit is the number of characters that a page may still show. Earlier texts have their own
// count, which applies if they are next to the current texts.
type textLimit struct{ before, now int }

// segmentCost is the number of characters that a segment counts in addition to its text, because
// its markup makes the page longer, too.
const segmentCost = 20

// newTextLimit returns the limit that all texts of a page share.
func newTextLimit() *textLimit { return &textLimit{maxText, maxText} }

// blockOf returns the block of a changed text. If only is set, unchanged text appears only near
// changes and findings.
func blockOf(m *textLimit, x textPair, found []place, side, only bool) block {
	b := block{Title: x.title, Side: side, lines: x.lines}
	if x.name == "description" {
		x.before, x.now, found, b.Margin = withoutMargin(x.before, x.now, found)
	}
	runs := x.diff(x.before, x.now)
	at := 0 // in the current text
	for i, run := range runs {
		if run.Op != review.Equal {
			b.Parts++
		}
		if run.Op == review.Delete {
			if side {
				b.Before = b.add(b.Before, &m.before, "del", run.Text, at, nil)
			} else {
				b.Inline = b.add(b.Inline, &m.now, "del", run.Text, at, nil)
			}
			continue
		}
		op := ""
		if run.Op == review.Insert {
			op = "ins"
		}
		for _, part := range b.parts(run, only, i > 0, i < len(runs)-1, at, found) {
			if part.skip {
				b.skip(m)
				continue
			}
			b.Inline = b.add(b.Inline, &m.now, op, part.text, part.at, found)
			if side && run.Op == review.Equal {
				b.Before = b.add(b.Before, &m.before, "", part.text, 0, nil)
			}
		}
		at += len(run.Text)
	}
	return b
}

// A part is a part of a run, at an offset in the current text.
type part struct {
	text string
	at   int
	skip bool
}

// skip appends a segment for omitted unchanged text.
func (b *block) skip(m *textLimit) {
	if m.now > 0 {
		b.Inline = append(b.Inline, segment{Op: "skip"})
	}
	if b.Side && m.before > 0 {
		b.Before = append(b.Before, segment{Op: "skip"})
	}
}

// add appends a text as segments, up to the limit, and splits it at the findings.
func (b *block) add(out []segment, left *int, op, s string, at int, found []place) []segment {
	put := func(s, id string) {
		shown, all := readablePrefix(s, *left)
		*left = max(0, *left-utf8.RuneCountInString(shown)-segmentCost)
		if shown != "" {
			out = append(out, segment{op, shown, id})
		}
		b.Cut = b.Cut || !all
	}
	done := 0
	for _, f := range found {
		from, to := max(f.from-at, done), min(f.to-at, len(s))
		if from >= to || from < 0 {
			continue
		}
		put(s[done:from], "")
		put(s[from:to], f.id)
		done = to
	}
	put(s[done:], "")
	return out
}

// parts returns the visible parts of a run. If only is set, only the ends of an unchanged run next
// to a change are visible, or the whole run if it has a finding.
func (b *block) parts(run review.Run, only, after, before bool, at int, found []place) []part {
	s := run.Text
	whole := []part{{text: s, at: at}}
	if !only || run.Op != review.Equal {
		return whole
	}
	for _, f := range found {
		if f.from < at+len(s) && f.to > at {
			return whole
		}
	}
	head, tail := 0, len(s)
	if after {
		head = b.context(s)
	}
	if before {
		tail = b.contextFrom(s)
	}
	if tail-head < minSkip {
		return whole
	}
	return []part{{text: s[:head], at: at}, {skip: true}, {text: s[tail:], at: at + tail}}
}

// context returns the length of the beginning of s that is shown after a change.
func (b *block) context(s string) int {
	if !b.lines {
		return cutAt(s, len(firstOf(s, contextCharacters)))
	}
	n := 0
	for range contextLines {
		i := strings.IndexByte(s[n:], '\n')
		if i < 0 {
			return len(s)
		}
		n += i + 1
	}
	return n
}

// contextFrom returns where the end of s begins that is shown before a change.
func (b *block) contextFrom(s string) int {
	n := len(s)
	if !b.lines {
		for range contextCharacters {
			_, size := utf8.DecodeLastRuneInString(s[:n])
			n -= size
		}
		return cutAt(s, n)
	}
	for range contextLines {
		n = strings.LastIndexByte(s[:max(0, n-1)], '\n') + 1
	}
	return n
}

// cutAt returns the next offset from n at which a word or a character begins.
func cutAt(s string, n int) int {
	if n >= len(s) {
		return len(s)
	}
	if i := strings.IndexAny(s[n:min(len(s), n+40)], " \n"); i >= 0 {
		return n + i
	}
	for n < len(s) && !utf8.RuneStart(s[n]) {
		n++
	}
	return n
}
