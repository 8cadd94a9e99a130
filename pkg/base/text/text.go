// Package text formats texts for agents, people and the log: it cleans strings from outside for one
// line, and writes a number with its noun.
package text

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// mark replaces the text that Clip and Quote cut off.
const mark = "…"

// Clip returns s cleaned for one line: at most n characters, the last of them "…" if Clip cut the
// text, and U+FFFD for each character that does not print.
func Clip(s string, n int) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, cut(s, n))
}

// Quote returns s in double quotes, with Go's escapes. It cuts s like Clip before it quotes it.
func Quote(s string, n int) string { return strconv.Quote(cut(s, n)) }

// Line replaces each run of white space with one blank and drops characters that do not print.
func Line(s string) string {
	printable := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	return strings.Join(strings.Fields(printable), " ")
}

// IsPlain reports whether s is not empty and has only the characters of a scope (RFC 6749, section
// 3.3): ASCII that prints, without space, quote and backslash. A URL has no others.
func IsPlain(s string) bool {
	isOther := func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }
	return s != "" && !strings.ContainsFunc(s, isOther)
}

// cut returns at most n characters of s as valid UTF-8.
func cut(s string, n int) string {
	if len(s) > n { // no string has more characters than bytes
		left := n
		for i := range s {
			if left--; left == 0 && i+runeLen(s[i:]) < len(s) {
				s = s[:i] + mark
				break
			}
		}
	}
	return strings.ToValidUTF8(s, string(utf8.RuneError))
}

func runeLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// Count returns n with its noun, singular or plural: "1 server", "2 servers". The plural ends with
// s.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// maxName is the most characters of a name in List.
const maxName = 128

// List returns names in one line, at most as many as the argument most, and how many more there
// are: "a, b and 3 more". It clips a name that is long or does not print.
func List(names []string, most int) string {
	clipped := make([]string, min(most, len(names)))
	for i := range clipped {
		clipped[i] = Clip(names[i], maxName)
	}
	line := strings.Join(clipped, ", ")
	if more := len(names) - most; more > 0 {
		line += " and " + strconv.Itoa(more) + " more"
	}
	return line
}

// Names splits a list at its commas and removes the space around each name. It returns nil for an
// empty list.
func Names(list string) (names []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Distance returns how many bytes must be added, removed or replaced to change a into b.
func Distance(a, b string) int {
	row := make([]int, len(b)+1) // distances from the beginning of a to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, before+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// Ago returns how long ago something was in words: "just now", "3 minutes ago".
func Ago(d time.Duration) string {
	if d < time.Minute {
		return "just now"
	}
	return length(d) + " ago"
}

// In returns how long it is until something in words: "in 3 minutes".
func In(d time.Duration) string { return "in " + length(max(d+time.Minute-1, time.Minute)) }

// Minutes returns n minutes in words, in the largest unit that divides them: "8 hours".
func Minutes(n int) string {
	switch {
	case n >= 24*60 && n%(24*60) == 0:
		return Count(n/(24*60), "day")
	case n >= 60 && n%60 == 0:
		return Count(n/60, "hour")
	}
	return Count(n, "minute")
}

// length returns d in one unit, rounded down.
func length(d time.Duration) string {
	switch {
	case d < time.Hour:
		return Count(int(d/time.Minute), "minute")
	case d < 48*time.Hour:
		return Count(int(d/time.Hour), "hour")
	}
	return Count(int(d/(24*time.Hour)), "day")
}
