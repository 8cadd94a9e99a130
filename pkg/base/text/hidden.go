package text

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden yields each character of s that a person does not see, with its position: characters that
// do not print, have no width, or change the direction of the text after them. Such characters can
// hide a text from a person but not from an agent.
//
// White space that looks like a space is not hidden. Invisible characters that a script or an emoji
// needs are not hidden where they belong: joiners, variation selectors, marks of direction next to
// right-to-left letters, and the tags of three flags. If one letter has many marks, which can cover
// the text around them, the marks after the eighth are hidden.
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

// Reveal returns s with each character that [Hidden] finds written as its number: ⟨U+202E⟩.
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

// appendNumber writes a character as its number, with four hexadecimal digits or more.
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

// Blank reports whether s shows nothing: it is empty, or has only spaces and characters that
// [Hidden] finds.
func Blank(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return visible(r) && !unicode.IsSpace(r) })
}

func plainASCII(c byte) bool { return c >= ' ' && c < 0x7f || c == '\n' || c == '\t' }

// visible reports whether a person sees a non-ASCII character at every position in a text.
func visible(r rune) bool {
	switch {
	case r == utf8.RuneError:
		return true
	case r == '\u2800': // a braille pattern without dots
		return false
	case unicode.Is(unicode.Zs, r):
		return true
	case r >= 0x1F000 && r <= 0x1FAFF: // includes emoji that are newer than the tables
		return true
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// A context has the last characters, which decide the meaning of an invisible character after them.
type context struct {
	last  rune // visible, or an invisible one in a place where it belongs
	joins bool // a variation selector or joiner follows last: a second one has no meaning
	rtl   bool // the text before has right-to-left letters
	marks int  // on the last letter
}

// maxMarks is the number of marks on a letter that are not hidden. No writing system needs more.
const maxMarks = 8

// piled counts r if it is a mark, and reports whether its letter has more marks than maxMarks.
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

// reset forgets the last character. It is used after a hidden character.
func (c *context) reset() { c.last, c.joins = 0, false }

func isJoiner(r rune) bool {
	return r == zwj || r == zwnj || unicode.Is(unicode.Variation_Selector, r)
}

const (
	zwnj = '\u200c'
	zwj  = '\u200d'
)

// spelled reports whether the invisible character r belongs between the characters of c and rest,
// and how many bytes of rest belong to r.
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
	case r == '\ufe0e' || r == '\ufe0f': // display as text or as an emoji
		keycap := next == '\u20e3' && strings.ContainsRune("0123456789#*", c.last)
		ok = keycap || isPictograph(c.last) || strings.ContainsRune("‼⁉ℹ〰", c.last)
	case unicode.Is(unicode.Variation_Selector, r):
		ok = unicode.In(c.last, unicode.Han, unicode.Mongolian, unicode.Myanmar, unicode.Phags_Pa, unicode.Sm)
	}
	return 0, ok
}

// joining are the scripts whose spelling uses joiners.
var joining = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Nko, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi,
	unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala,
	unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Javanese, unicode.Balinese,
}

func isPictograph(r rune) bool {
	return r > unicode.MaxLatin1 && r != utf8.RuneError && unicode.In(r, unicode.So, unicode.Sm) || r >= 0x1F000 && r <= 0x1FAFF || r == '©' || r == '®'
}

// flag works like [context.spelled], for the first tag after a black flag.
func flag(rest string) (more int, ok bool) {
	for _, region := range [...]string{"beng", "bsct", "bwls"} {
		tags := strings.Map(func(r rune) rune { return 0xE0000 + r }, region) + "\U000E007F"
		if strings.HasPrefix(rest, tags) {
			return len(tags), true
		}
	}
	return 0, false
}
