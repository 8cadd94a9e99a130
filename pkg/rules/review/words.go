package review

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An Op is a change of a text.
type Op uint8

// The changes of a text.
const (
	Equal  Op = iota // both texts have it
	Delete           // only the old text has it
	Insert           // only the new text has it
)

// String returns "equal", "delete" or "insert".
func (o Op) String() string { return [...]string{"equal", "delete", "insert"}[o] }

// A Run is a part of a text, and its change.
type Run struct {
	Op   Op
	Text string
}

// A text with more than maxBytes bytes, or more than maxPieces words or lines, is one piece. Texts
// of definitions are shorter, even if they are indented.
const (
	maxBytes  = 3 * tool.MaxDefinition
	maxPieces = tool.MaxDefinition
)

// Words returns the word diff of two texts. The runs that are not inserted form before, and the
// runs that are not deleted form now. A deletion comes before the insertion that replaces it, and
// no two runs of one kind follow each other.
func Words(before, now string) []Run { return runs(before, now, words, true) }

// Lines is [Words] with lines instead of words.
func Lines(before, now string) []Run { return runs(before, now, strings.Lines, false) }

// runs compares two texts, which cut splits into pieces. If tidy is true, blanks between two
// replaced words count as replaced, too.
func runs(before, now string, cut func(string) iter.Seq[string], tidy bool) []Run {
	a, b := newPieces(before, cut), newPieces(now, cut)
	n := numbering{}
	deleted, inserted := diff(n.numbers(a), n.numbers(b), len(n))
	if tidy {
		joinReplaced(a, deleted, inserted)
	}
	count := 0
	eachRun(deleted, inserted, func(Op, int, int) { count++ })
	out := make([]Run, 0, count)
	eachRun(deleted, inserted, func(op Op, from, to int) {
		of := a
		if op == Insert {
			of = b
		}
		out = append(out, Run{op, of.slice(from, to)})
	})
	return out
}

// eachRun calls the function do for ranges of pieces: equal or deleted pieces of the old text, and
// inserted pieces of the new text.
func eachRun(deleted, inserted []bool, do func(op Op, from, to int)) {
	add := func(op Op, from, to int) {
		if from < to {
			do(op, from, to)
		}
	}
	for i, j := 0, 0; i < len(deleted) || j < len(inserted); {
		from := i
		for i < len(deleted) && !deleted[i] && j < len(inserted) && !inserted[j] {
			i, j = i+1, j+1
		}
		add(Equal, from, i)
		fromI, fromJ := i, j
		for i < len(deleted) && deleted[i] {
			i++
		}
		for j < len(inserted) && inserted[j] {
			j++
		}
		add(Delete, fromI, i)
		add(Insert, fromJ, j)
	}
}

// A pieces is a split text. It keeps offsets, which take a quarter of the memory of strings.
type pieces struct {
	text string
	ends []int32
}

func newPieces(text string, cut func(string) iter.Seq[string]) pieces {
	n := 0
	for range cut(text) {
		if n++; n > maxPieces || len(text) > maxBytes {
			return pieces{text, []int32{int32(len(text))}}
		}
	}
	p := pieces{text, make([]int32, 0, n)}
	end := 0
	for piece := range cut(text) {
		end += len(piece)
		p.ends = append(p.ends, int32(end))
	}
	return p
}

// slice returns the text of the pieces with the indexes [from:to].
func (p pieces) slice(from, to int) string {
	start := int32(0)
	if from > 0 {
		start = p.ends[from-1]
	}
	return p.text[start:p.ends[to-1]]
}

// A numbering gives equal pieces equal numbers, from 0.
type numbering map[string]int32

func (n numbering) numbers(p pieces) []int32 {
	out := make([]int32, len(p.ends))
	for i := range out {
		piece := p.slice(i, i+1)
		number, ok := n[piece]
		if !ok {
			number = int32(len(n))
			n[piece] = number
		}
		out[i] = number
	}
	return out
}

// joinReplaced marks the blanks between two replacements as replaced. So two sentences that have
// only blanks in common are one change, instead of one change for each word.
func joinReplaced(before pieces, deleted, inserted []bool) {
	i, j := 0, 0
	change := func() (replaced bool) {
		fromI, fromJ := i, j
		for i < len(deleted) && deleted[i] {
			i++
		}
		for j < len(inserted) && inserted[j] {
			j++
		}
		return i > fromI && j > fromJ
	}
	for replaced := change(); i < len(deleted) && j < len(inserted); {
		fromI, fromJ, blank := i, j, true
		for i < len(deleted) && !deleted[i] && j < len(inserted) && !inserted[j] {
			blank = blank && strings.TrimSpace(before.slice(i, i+1)) == ""
			i, j = i+1, j+1
		}
		n := i - fromI
		next := change()
		for k := range n {
			if replaced && next && blank {
				deleted[fromI+k], inserted[fromJ+k] = true, true
			}
		}
		replaced = next
	}
}

// words splits a text into words, runs of blanks, and single characters. Characters of scripts
// without blanks between words are single, too.
func words(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		from, last := 0, single
		for i, r := range s {
			k := kindOf(r)
			if last == word && (r == '\'' || r == '’') && followedByLetter(s[i:]) {
				k = word // don't
			}
			if k == joined && i > 0 {
				continue
			}
			if i > from && (k != last || k == single) {
				if !yield(s[from:i]) {
					return
				}
				from = i
			}
			last = k
		}
		if from < len(s) {
			yield(s[from:])
		}
	}
}

func followedByLetter(s string) bool {
	_, n := utf8.DecodeRuneInString(s)
	r, _ := utf8.DecodeRuneInString(s[n:])
	return unicode.IsLetter(r)
}

// A kind is the kind of a character; adjacent characters of one kind are one piece.
type kind uint8

const (
	word   kind = iota // letters, digits, the underscore
	blank              // white space within a line
	single             // a piece of its own
	joined             // belongs to the piece before it
)

func kindOf(r rune) kind {
	switch {
	case r < utf8.RuneSelf:
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return word
		case r == ' ', r == '\t', r == '\r':
			return blank
		}
		return single
	case unicode.IsMark(r), r == '\u200d', r >= 0x1F3FB && r <= 0x1F3FF: // accents, joined emoji, skin tones
		return joined
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
		return single
	case unicode.IsLetter(r), unicode.IsDigit(r):
		return word
	case unicode.Is(unicode.Zs, r):
		return blank
	}
	return single
}
