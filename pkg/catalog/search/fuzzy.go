package search

import (
	"encoding/binary"
	"slices"
	"strings"
)

// If a stem has no documents in the view and may be misspelled, the search replaces it with all
// stems of the view that are one edit away. So a misspelled word finds the intended word.
const (
	minMisspelled = 4  // letters: one edit turns most shorter words into another word
	replacedShare = .7 // the weight that the replacements share
)

// misspellable reports whether a stem may be a misspelled word. It must have enough letters and
// contain only a–z. Numbers and codes are not corrected.
func misspellable(stem string) bool {
	for i := range len(stem) {
		if stem[i] < 'a' || stem[i] > 'z' {
			return false
		}
	}
	return len(stem) >= minMisspelled
}

// knownNear returns the words of the table at one edit from word, in order. It returns nil if the
// table has the word itself.
func (ix *Index) knownNear(word string) (out []queryWord) {
	if _, exists := ix.table.Word(word[0], word[1:]); exists {
		return nil
	}
	add := func(w string) {
		if oneEdit(word, w) {
			out = append(out, queryWord{text: w, stem: stem(w)})
		}
	}
	ix.table.Words(word[0], add)
	// If a near word has another first letter, the edit replaced or removed the first letter of
	// word, put a letter before it, or swapped the first two letters.
	other := func(letter byte, rest string) {
		if w, ok := ix.table.Word(letter, rest); ok && letter != word[0] {
			add(w)
		}
	}
	other(word[1], word[2:])
	other(word[1], word[:1]+word[2:])
	for letter := byte('a'); letter <= 'z'; letter++ {
		other(letter, word)
		other(letter, word[1:])
	}
	slices.SortFunc(out, func(a, b queryWord) int { return strings.Compare(a.text, b.text) })
	return slices.CompactFunc(out, func(a, b queryWord) bool { return a.text == b.text })
}

// near returns the terms at one edit from stem, in bytewise order.
func (ix *Index) near(stem string) []string {
	var out []string
	for _, s := range ix.segments {
		out = s.near(stem, out)
	}
	if len(ix.segments) > 1 {
		slices.Sort(out)
	}
	return slices.Compact(out)
}

// near appends the terms at one edit from stem, in bytewise order.
func (s *segment) near(stem string, out []string) []string {
	first, last := stem[0], stem[len(stem)-1] // the stem has at least four letters
	from := 0
	for ends := s.textEnds; len(ends) >= 4; ends = ends[4:] {
		to := int(binary.LittleEndian.Uint32(ends))
		t := s.texts[from:to]
		from = to
		// One edit changes the first letter or the last letter, but not both.
		if d := len(t) - len(stem); d < -1 || d > 1 || t[0] != first && t[len(t)-1] != last {
			continue
		}
		if oneEdit(stem, t) {
			out = append(out, string(t))
		}
	}
	return out
}

// oneEdit reports whether one insertion, deletion, replacement or swap of
// neighbors turns a into b.
func oneEdit[B []byte | string](a string, b B) bool {
	if d := len(a) - len(b); d < -1 || d > 1 {
		return false
	}
	i := 0 // a and b are equal before i
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	j, k := len(a), len(b) // a[j:] and b[k:] are equal too
	for j > i && k > i && a[j-1] == b[k-1] {
		j--
		k--
	}
	switch {
	case j-i <= 1 && k-i <= 1:
		return j > i || k > i // not equal
	case j-i == 2 && k-i == 2:
		return a[i] == b[i+1] && a[i+1] == b[i]
	}
	return false
}
