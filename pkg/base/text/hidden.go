package text

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden yields where in s a character stands that a person does not see, and the character:
// those that do not print, that take no room, and that turn the direction of what follows. They
// can hide a text from the person who reads it and not from an agent. White space that looks like
// a space is not hidden; nor are the invisible characters that a script or an emoji is spelled
// with, where they belong: joiners, variation selectors, marks of direction beside right-to-left
// letters, the tags of three flags. Of marks that are piled up on one letter, to cover what stands
// around them, those after the eighth are hidden.
func Hidden(s string) iter.Seq2[int, rune] {
	return func(yield func(int, rune) bool) {
		before := context{}
		for i := 0; i < len(s); {
			from := i
			for i < len(s) && plainASCII(s[i]) {
				i++
			}
			if i > from {
				before.marks = 0
				before.take(rune(s[i-1]))
				continue
			}
			r, n := utf8.DecodeRuneInString(s[i:])
			rest := s[i+n:]
			more, ok := 0, visible(r) || r == '\r' && strings.HasPrefix(rest, "\n")
			if !ok {
				more, ok = before.spelled(r, rest)
			}
			ok = ok && !before.piled(r)
			if ok {
				before.take(r)
			} else if before.reset(); !yield(i, r) {
				return
			}
			i += n + more
		}
	}
}

// Reveal returns s with each character that [Hidden] finds as its number: ⟨U+202E⟩.
func Reveal(s string) string {
	var room [16]byte
	size := len(s)
	for _, r := range Hidden(s) {
		size += len(appendNumber(room[:0], r)) - utf8.RuneLen(r)
	}
	if size == len(s) {
		return s
	}
	var out strings.Builder
	out.Grow(size)
	done := 0
	for i, r := range Hidden(s) {
		out.WriteString(s[done:i])
		out.Write(appendNumber(room[:0], r))
		done = i + utf8.RuneLen(r)
	}
	out.WriteString(s[done:])
	return out.String()
}

// appendNumber writes a character as its number, of four hexadecimal digits or more.
func appendNumber(dst []byte, r rune) []byte {
	digits := 4
	for digits < 6 && r>>(4*digits) > 0 {
		digits++
	}
	dst = append(dst, "⟨U+"...)
	for digits--; digits >= 0; digits-- {
		dst = append(dst, "0123456789ABCDEF"[r>>(4*digits)&15])
	}
	return append(dst, "⟩"...)
}

// Blank reports whether nothing of s shows: it is empty, or all of it is space or such as [Hidden]
// finds.
func Blank(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return visible(r) && !unicode.IsSpace(r) })
}

func plainASCII(c byte) bool { return c >= ' ' && c < 0x7f || c == '\n' || c == '\t' }

// visible reports whether a character that is not plain ASCII shows, wherever it stands.
func visible(r rune) bool {
	switch {
	case r == utf8.RuneError:
		return true
	case r == '\u2800': // a braille pattern without dots
		return false
	case unicode.Is(unicode.Zs, r):
		return true
	case r >= 0x1F000 && r <= 0x1FAFF: // also emoji that are newer than the tables
		return true
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// A context is what the last characters were: what an invisible one after them means.
type context struct {
	last  rune // visible, or an invisible one that belongs where it stands
	joins bool // last is a variation selector or joiner: another one has no meaning
	rtl   bool // there were right-to-left letters
	marks int  // on the last letter
}

// maxMarks is how many marks a letter has at most. No writing needs as many.
const maxMarks = 8

// piled counts the marks on a letter, and reports whether r is one too many.
func (c *context) piled(r rune) bool {
	if !unicode.In(r, unicode.Mn, unicode.Me) {
		c.marks = 0
		return false
	}
	c.marks++
	return c.marks > maxMarks
}

func (c *context) take(r rune) {
	if r >= 0x0590 && unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko) {
		c.rtl = true
	}
	if c.joins = isJoiner(r); !c.joins {
		c.last = r
	}
}

// reset is for a character that does not belong where it stands.
func (c *context) reset() { c.last, c.joins = 0, false }

func isJoiner(r rune) bool {
	return r == zwj || r == zwnj || unicode.Is(unicode.Variation_Selector, r)
}

const (
	zwnj = '\u200c'
	zwj  = '\u200d'
)

// spelled reports whether an invisible character belongs where it stands, after c and before
// rest, and how many bytes of rest belong to it.
func (c *context) spelled(r rune, rest string) (more int, ok bool) {
	next, _ := utf8.DecodeRuneInString(rest)
	switch {
	case r == 0xE0067 && c.last == '\U0001F3F4':
		return flag(rest)
	case r == '\u200e' || r == '\u200f' || r == '\u061c': // marks of direction
		ok = c.rtl || unicode.In(next, unicode.Hebrew, unicode.Arabic)
	case r == zwj && isPictograph(c.last):
		ok = isPictograph(next)
	case r == zwj || r == zwnj:
		ok = !c.joins && unicode.In(c.last, joining...)
	case c.joins:
	case r == '\ufe0e' || r == '\ufe0f': // as text, as an emoji
		keycap := next == '\u20e3' && strings.ContainsRune("0123456789#*", c.last)
		ok = keycap || isPictograph(c.last) || strings.ContainsRune("‼⁉ℹ〰", c.last)
	case unicode.Is(unicode.Variation_Selector, r):
		ok = unicode.In(c.last, unicode.Han, unicode.Mongolian, unicode.Myanmar, unicode.Phags_Pa, unicode.Sm)
	}
	return 0, ok
}

// joining are the scripts that are spelled with joiners.
var joining = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Nko, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi,
	unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala,
	unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Javanese, unicode.Balinese,
}

func isPictograph(r rune) bool {
	return r > unicode.MaxLatin1 && r != utf8.RuneError && unicode.In(r, unicode.So, unicode.Sm) || r >= 0x1F000 && r <= 0x1FAFF || r == '©' || r == '®'
}

// flag is [context.spelled] for the first tag after a black flag.
func flag(rest string) (more int, ok bool) {
	for _, region := range [...]string{"beng", "bsct", "bwls"} {
		tags := strings.Map(func(r rune) rune { return 0xE0000 + r }, region) + "\U000E007F"
		if strings.HasPrefix(rest, tags) {
			return len(tags), true
		}
	}
	return 0, false
}
