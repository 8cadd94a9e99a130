package review

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// An Op is what became of a text.
type Op uint8

// What can become of a text.
const (
	Equal  Op = iota // it stands before and now
	Delete           // it stood before
	Insert           // it stands now
)

// String returns "equal", "delete" or "insert".
func (o Op) String() string { return [...]string{"equal", "delete", "insert"}[o] }

// A Run is a part of a text, and what became of it.
type Run struct {
	Op   Op
	Text string
}

// Words returns how the words of one text become those of another. The runs that are not inserted
// give before, those that are not deleted give now; a deletion comes before the insertion that takes
// its place, and no two runs of one kind follow each other.
func Words(before, now string) []Run {
	return runs(words(before), words(now), true)
}

// Lines is [Words] with lines in the place of words.
func Lines(before, now string) []Run {
	return runs(strings.SplitAfter(before, "\n"), strings.SplitAfter(now, "\n"), false)
}

// runs compares two texts that were cut into pieces. tidy also marks the blanks between two words
// that were replaced.
func runs(before, now []string, tidy bool) []Run {
	n := make(numbering, len(before)/4)
	deleted, inserted := diff(n.of(before), n.of(now), n.next())
	if tidy {
		joinReplaced(before, deleted, inserted)
	}
	var out []Run
	add := func(op Op, pieces []string) {
		if text := strings.Join(pieces, ""); text != "" {
			out = append(out, Run{op, text})
		}
	}
	for i, j := 0, 0; i < len(before) || j < len(now); {
		from := i
		for i < len(before) && !deleted[i] && j < len(now) && !inserted[j] {
			i, j = i+1, j+1
		}
		add(Equal, before[from:i])
		fromI, fromJ := i, j
		for i < len(before) && deleted[i] {
			i++
		}
		for j < len(now) && inserted[j] {
			j++
		}
		add(Delete, before[fromI:i])
		add(Insert, now[fromJ:j])
	}
	return out
}

// A numbering gives equal pieces equal numbers, from 0.
type numbering map[string]int32

func (n numbering) next() int { return len(n) }

func (n numbering) of(pieces []string) []int32 {
	out := make([]int32, len(pieces))
	for i, p := range pieces {
		number, ok := n[p]
		if !ok {
			number = int32(n.next())
			n[p] = number
		}
		out[i] = number
	}
	return out
}

// joinReplaced marks the blanks that stand between two replacements, so that two sentences which
// have nothing but blanks in common are one change and not one for each word.
func joinReplaced(before []string, deleted, inserted []bool) {
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
			blank = blank && strings.TrimSpace(before[i]) == ""
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

// words cuts a text into words, runs of blanks, and single characters, also those of a script that
// does not put blanks between words.
func words(s string) []string {
	out := make([]string, 0, len(s)/3)
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
			out = append(out, s[from:i])
			from = i
		}
		last = k
	}
	return append(out, s[from:])
}

func followedByLetter(s string) bool {
	_, n := utf8.DecodeRuneInString(s)
	r, _ := utf8.DecodeRuneInString(s[n:])
	return unicode.IsLetter(r)
}

// A kind is that of a character; neighbours of one kind are one piece.
type kind uint8

const (
	word   kind = iota // letters, digits, the underscore
	blank              // white space within a line
	single             // a piece of its own
	joined             // belongs to what stands before it
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
