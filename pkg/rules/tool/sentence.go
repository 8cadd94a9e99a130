package tool

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSentence is the longest line that FirstSentence returns, in characters.
const maxSentence = 200

// FirstSentence returns the first sentence of a description in one line. A sentence also ends with
// its paragraph, or before a list or a section such as "Args:". A sentence over 200 characters is
// cut at a word, with "…"; the result then has at most 200 characters.
//
// White space becomes single spaces. Control and format characters, which an approver does not
// see, are removed.
func FirstSentence(description string) string {
	first, _, _ := strings.Cut(description, "\n")
	if first = strings.TrimSpace(first); isClean(first) { // most need no change, and no memory
		if end := sentenceEnd(first); end >= 0 {
			return cut(first[:end])
		}
	}
	var line strings.Builder
	for l := range strings.SplitSeq(description, "\n") {
		l = clean(l)
		introduces := strings.HasSuffix(line.String(), ":") // "Returns:" alone says nothing
		if line.Len() > 0 && !introduces && (l == "" || startsBlock(l)) {
			break
		}
		if l == "" {
			continue
		}
		if line.Len() > 0 {
			line.WriteByte(' ')
		}
		line.WriteString(l)
		if end := sentenceEnd(line.String()); end >= 0 {
			return cut(line.String()[:end])
		}
		if line.Len() > utf8.UTFMax*maxSentence {
			break
		}
	}
	return cut(line.String())
}

// clean returns s with single spaces between its words and without invisible characters.
func clean(s string) string {
	if trimmed := strings.TrimSpace(s); isClean(trimmed) {
		return trimmed
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r) && r != zwj && r != zwnj:
			return -1
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// isClean reports whether s is printable ASCII with single spaces between its words. Most lines
// are, and every search result is checked here.
func isClean(s string) bool {
	before := byte(' ')
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == ' ' && before == ' ' {
			return false
		}
		before = s[i]
	}
	return s == "" || before != ' '
}

// Two format characters are part of the spelling in some scripts and of emoji.
const (
	zwnj = '\u200c'
	zwj  = '\u200d'
)

// startsBlock reports whether a line begins a list item, a heading, a rule, or a section
// whose one- or two-word title ends the line with a colon.
func startsBlock(l string) bool {
	first, _, _ := strings.Cut(l, " ")
	switch {
	case strings.Trim(first, "-*•#=>") == "" || strings.HasPrefix(l, "```"):
		return true
	case strings.Trim(first, "0123456789") == "." || strings.Trim(first, "0123456789") == ")":
		return true
	}
	title, isTitle := strings.CutSuffix(strings.ReplaceAll(l, "：", ":"), ":")
	return isTitle && strings.Count(title, " ") < 2 && !strings.ContainsAny(title, ".,;")
}

// sentenceEnd returns where the first sentence of s ends, or -1.
func sentenceEnd(s string) int {
	for i, r := range s {
		switch r {
		case '。', '！', '？', '｡':
			return i + utf8.RuneLen(r)
		case '.', '!', '?':
			rest := strings.TrimLeft(s[i+1:], `)"'`+"`*_”’")
			if rest != "" && rest[0] != ' ' {
				continue // inside a number, a domain, a file name
			}
			if r == '.' && abbreviated(s[:i], strings.TrimPrefix(rest, " ")) {
				continue
			}
			return len(s) - len(rest)
		}
	}
	return -1
}

// abbreviated reports whether a full stop between before and rest belongs to an abbreviation: a
// known one, or a single letter, if the sentence continues.
func abbreviated(before, rest string) bool {
	if rest == "" {
		return false
	}
	word := strings.ToLower(before[strings.LastIndexAny(before, " (\"'[/")+1:])
	switch word {
	case "e.g", "i.e", "eg", "ie", "vs", "cf", "approx", "incl", "no", "dr", "mr", "mrs", "ms", "st", "fig", "resp":
		return true
	case "etc", "al", "inc", "ltd", "u.s", "a.m", "p.m":
		r, _ := utf8.DecodeRuneInString(rest)
		return !unicode.IsUpper(r)
	}
	return false
}

// cut returns s with at most maxSentence characters, cut at a word if that leaves
// more than half.
func cut(s string) string {
	if len(s) <= maxSentence || utf8.RuneCountInString(s) <= maxSentence {
		return s
	}
	runes := []rune(s)[:maxSentence-1]
	for i := len(runes) - 1; i > maxSentence/2; i-- {
		if runes[i] == ' ' {
			runes = runes[:i]
			break
		}
	}
	return strings.TrimRight(string(runes), " ,;:") + "…"
}
