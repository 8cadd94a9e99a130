package finding

import (
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Scripts is a set of scripts, by their index in scriptTables, which does not include Latin.
type scripts uint32

var scriptTables = []struct {
	name  string
	table *unicode.RangeTable
}{
	{"Han", unicode.Han}, {"Hiragana", unicode.Hiragana}, {"Katakana", unicode.Katakana}, {"Hangul", unicode.Hangul},
	{"Cyrillic", unicode.Cyrillic}, {"Greek", unicode.Greek}, {"Arabic", unicode.Arabic}, {"Hebrew", unicode.Hebrew},
	{"Devanagari", unicode.Devanagari}, {"Thai", unicode.Thai}, {"Armenian", unicode.Armenian}, {"Georgian", unicode.Georgian},
	{"Cherokee", unicode.Cherokee}, {"Coptic", unicode.Coptic}, {"Lisu", unicode.Lisu}, {"Bengali", unicode.Bengali}, {"Tamil", unicode.Tamil},
}

const cyrillic, greek = 4, 5

// lookalike are the scripts with letters that look like Latin ones.
var lookalike = scripts(1<<cyrillic | 1<<10 | 1<<12 | 1<<13 | 1<<14)

// greekLookalike are the Greek letters that look like Latin ones. Formulas use the other Greek
// letters next to Latin letters.
const greekLookalike = "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧανορυικ"

// scriptOf returns the script of a letter as a set; the empty set: Latin, or an unknown script.
func scriptOf(r rune) scripts {
	if r < 0x370 {
		return 0
	}
	for i, s := range scriptTables {
		if unicode.Is(s.table, r) {
			return 1 << i
		}
	}
	return 0
}

func (s *scripts) add(str string) {
	for i := 0; i < len(str); i++ {
		if str[i] < utf8.RuneSelf {
			continue
		}
		r, n := utf8.DecodeRuneInString(str[i:])
		if unicode.IsLetter(r) {
			*s |= scriptOf(r)
		}
		i += n - 1
	}
}

// String returns the names of the scripts.
func (s scripts) String() string {
	var names []string
	for ; s != 0; s &= s - 1 {
		names = append(names, scriptTables[bits.TrailingZeros32(uint32(s))].name)
	}
	return strings.Join(names, ", ")
}

// letters returns the scripts of a text. It finds words with letters of two scripts that look
// alike, or with letters in another style.
func (s *scanner) letters(str string) (all scripts) {
	from, latin, odd := -1, false, false
	end := func(to int) {
		if from >= 0 && latin && odd {
			s.add(letters, from, to, show(str[from:to]))
		}
		from, latin, odd = -1, false, false
	}
	for i, r := range str {
		if !unicode.IsLetter(r) {
			if !unicode.IsMark(r) {
				end(i)
			}
			continue
		}
		if from < 0 {
			from = i
		}
		in := scriptOf(r)
		all |= in
		switch {
		case r >= 0x1D400 && r <= 0x1D7FF: // mathematical letters, in styles: 𝐚, 𝓪
			latin, odd = true, true
		case in&lookalike != 0 || in == 1<<greek && strings.ContainsRune(greekLookalike, r):
			odd = true
		case unicode.Is(unicode.Latin, r):
			latin = true
		}
	}
	end(len(str))
	s.scripts |= all
	return all
}
