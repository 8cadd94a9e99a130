package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Normal returns s in the Unicode form NFKC, without control characters, invalid UTF-8 and
// characters that [Hidden] finds. Two texts that a program may read as the same have the same
// normal form, apart from letter case.
func Normal(s string) string {
	if isPlainASCII(s) {
		return s
	}
	for { // after a removal, neighbors can combine to another form
		next := dropHidden(norm.NFKC.String(dropHidden(s)))
		if next == s {
			return s
		}
		s = next
	}
}

func isPlainASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f })
}

// dropHidden returns s without the characters that [Normal] removes.
func dropHidden(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	var b strings.Builder
	done := 0
	for at, r := range Hidden(s) {
		b.WriteString(s[done:at])
		done = at + utf8.RuneLen(r)
	}
	return b.String() + s[done:]
}
