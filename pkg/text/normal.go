package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Normal returns s in the Unicode form NFKC, without control characters, bytes that are not UTF-8 and
// characters that [Hidden] finds. Two texts that a program may read as one have the same normal form,
// apart from letter case.
func Normal(s string) string {
	if isPlainASCII(s) {
		return s
	}
	for { // what is dropped can leave neighbors that have another form together
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

// dropHidden returns s without what [Normal] drops.
func dropHidden(s string) string {
	hidden := map[int]bool{}
	for at := range Hidden(s) {
		hidden[at] = true
	}
	var b strings.Builder
	for at, r := range s {
		_, size := utf8.DecodeRuneInString(s[at:])
		if hidden[at] || unicode.IsControl(r) || r == utf8.RuneError && size == 1 {
			continue
		}
		b.WriteString(s[at : at+size])
	}
	return b.String()
}
