package console

import (
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// How long a page may be: rows of a list, and characters of a text as a person reads it. A text
// that is cut ends with …, and the page has a link to all of it.
const (
	maxRows  = 50
	maxShort = 160    // a name, an id or a line: a tool's name fits, a URI may not
	maxNote  = 300    // a note beside others
	maxText  = 10_000 // the texts of a definition on one page
)

// readablePrefix returns the first characters of s as a person reads them, and reports whether that
// is all.
func readablePrefix(s string, most int) (shown string, all bool) {
	begin := firstOf(s, most) // a character is read as one or more
	whole := review.Readable(begin)
	shown = firstOf(whole, most)
	return shown, len(begin) == len(s) && len(shown) == len(whole)
}

// firstOf returns the first characters of s.
func firstOf(s string, characters int) string {
	for i := range s {
		if characters--; characters < 0 {
			return s[:i]
		}
	}
	return s
}

// truncate returns the first characters of s as a person reads them, the last of them … if that is
// not all.
func truncate(s string, most int) string { return excerptOf(s, most, "").Text }

// shorten returns a name, an id or a line of text as a row shows it.
func shorten(s string) string { return truncate(s, maxShort) }

func shownID(id tool.ID) string { return shorten(id.String()) }

// An excerpt is a text as a page shows it.
type excerpt struct {
	Text string
	Rest string // address at which all of it is; "": it is not cut
}

// excerptOf returns the first characters of a text, which has all of it at the address.
func excerptOf(s string, most int, address string) excerpt {
	shown, all := readablePrefix(s, most)
	if all {
		return excerpt{Text: shown}
	}
	return excerpt{firstOf(shown, most-1) + "…", address}
}

// noteOf returns a note as a row shows it.
func noteOf(note, address string) excerpt { return excerptOf(note, maxNote, address) }
