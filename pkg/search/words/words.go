// Package words cuts text into the words that tools are found by.
//
// Queries, tools and the program that makes the token table all go through the
// same cut: a word that is cut in two ways finds nothing.
package words

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxBytes is the length to which a longer word is cut. No word that a person
// types is longer; encoded data in a description is.
const MaxBytes = 64

// Split returns the words of text in their order, in lower case and without
// stop words. Identifiers are cut where their case changes: getHTTPStatus is get,
// http, status. A word with a CJK character becomes its overlapping pairs of
// characters, since such text has no spaces to cut at.
func Split(text string) []string {
	var out []string
	var word []rune
	var prev rune
	for i, r := range text {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			out, word = flush(out, word), word[:0]
			prev = 0
			continue
		}
		if unicode.IsUpper(r) && boundary(prev, text[i+utf8.RuneLen(r):]) {
			out, word = flush(out, word), word[:0]
		}
		word = append(word, unicode.ToLower(r))
		prev = r
	}
	return flush(out, word)
}

// boundary reports whether a new word begins at an upper-case letter that
// stands between prev (0: none) and rest.
func boundary(prev rune, rest string) bool {
	switch {
	case unicode.IsLower(prev) || unicode.IsDigit(prev):
		return true
	case unicode.IsUpper(prev):
		next, _ := utf8.DecodeRuneInString(rest)
		return unicode.IsLower(next)
	}
	return false
}

// flush appends the word that was gathered, if it counts as one.
func flush(out []string, word []rune) []string {
	if len(word) == 0 {
		return out
	}
	if slices.ContainsFunc(word, cjk) {
		return pairs(out, word)
	}
	w := string(word)
	if len(w) > MaxBytes {
		end := MaxBytes
		for !utf8.RuneStart(w[end]) {
			end--
		}
		w = w[:end]
	}
	if stop(w) {
		return out
	}
	return append(out, w)
}

// pairs appends each two neighbouring characters of word as a word.
func pairs(out []string, word []rune) []string {
	if len(word) == 1 {
		return append(out, string(word))
	}
	for i := range len(word) - 1 {
		out = append(out, string(word[i:i+2]))
	}
	return out
}

// HasCJK reports whether w has a Chinese, Japanese or Korean character, and so
// is a pair of characters rather than a word that can be stemmed.
func HasCJK(w string) bool { return strings.ContainsFunc(w, cjk) }

func cjk(r rune) bool {
	const firstHangul = 0x1100 // nothing below is CJK; spares most text the table search
	return r >= firstHangul && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}
