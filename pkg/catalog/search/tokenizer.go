package search

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWordBytes is the maximum length of a word; longer words are cut. No word that a person types
// is longer, but encoded data in a description is.
const maxWordBytes = 64

// SplitWords returns the words of text in their order, in lower case and without
// stop words. Identifiers are cut where their case changes: getHTTPStatus is get,
// http, status. A word with a CJK character becomes its overlapping pairs of
// characters, because such text has no spaces between words.
func SplitWords(text string) []string {
	var out []string
	new(tokenizer).each(text, func(word []byte) { out = append(out, string(word)) })
	return out
}

// A tokenizer splits many texts as [SplitWords] does, without a string for each word. The zero
// tokenizer is ready to use. It is not safe for concurrent use.
type tokenizer struct {
	Grammar bool // keep stop words

	word []byte // the beginning of the current word, in lower case
	cjk  bool   // word has a CJK character
}

// each calls yield with every word of text. The bytes are valid until yield returns.
func (c *tokenizer) each(text string, yield func(word []byte)) {
	var prev rune
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		switch {
		case 'a' <= r && r <= 'z':
			c.word = append(c.word, byte(r))
			prev = r
			i++
			continue
		case r >= utf8.RuneSelf:
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		i += size
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			c.flush(yield)
			prev = 0
			continue
		}
		if unicode.IsUpper(r) && boundary(prev, text[i:]) {
			c.flush(yield)
		}
		lower := unicode.ToLower(r)
		c.word = utf8.AppendRune(c.word, lower)
		c.cjk = c.cjk || cjk(lower)
		prev = r
	}
	c.flush(yield)
}

// boundary reports whether a new word begins at an upper-case letter between prev (0: none) and
// rest.
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

// flush ends the current word, and yields it if it counts as a word.
func (c *tokenizer) flush(yield func(word []byte)) {
	w, pairwise := c.word, c.cjk
	c.word, c.cjk = c.word[:0], false
	switch {
	case len(w) == 0:
		return
	case pairwise:
		pairs(w, yield)
		return
	case len(w) > maxWordBytes:
		end := maxWordBytes
		for !utf8.RuneStart(w[end]) {
			end--
		}
		w = w[:end]
	}
	if c.Grammar || !isStopWord(string(w)) {
		yield(w)
	}
}

// pairs yields every two neighboring characters of word as a word. It yields a single character as
// it is.
func pairs(word []byte, yield func(word []byte)) {
	_, first := utf8.DecodeRune(word)
	if first == len(word) {
		yield(word)
		return
	}
	for first < len(word) {
		_, second := utf8.DecodeRune(word[first:])
		yield(word[:first+second])
		word, first = word[first:], second
	}
}

// hasCJK reports whether w has a Chinese, Japanese or Korean character. Such a word is a pair of
// characters and has no stem.
func hasCJK(w string) bool { return strings.ContainsFunc(w, cjk) }

func cjk(r rune) bool {
	const firstHangul = 0x1100 // no lower character is CJK, so most text needs no table search
	return r >= firstHangul && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}
