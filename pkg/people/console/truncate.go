package console

import (
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Limits of a page: rows of a list, and characters of a text in readable form. A truncated text
// ends with …, and the page links to the whole text.
const (
	maxRows  = 50
	maxShort = 160    // a name, an id or a line: a tool's name fits, a URI may not
	maxNote  = 300    // a note in a list
	maxText  = 10_000 // the texts of a definition on one page
)

// readablePrefix returns s in readable form, without the characters above the maximum. It reports
// whether the result is the whole text.
func readablePrefix(s string, most int) (shown string, all bool) {
	begin := firstOf(s, most) // one character may become several
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

// truncate returns the first characters of s in readable form. If s is longer, the last character
// is ….
func truncate(s string, most int) string { return excerptOf(s, most, "").Text }

// shorten returns a name, an id or a line of text, truncated for a row.
func shorten(s string) string { return truncate(s, maxShort) }

func shownID(id tool.ID) string { return shorten(id.String()) }

// An excerpt is a text as a page shows it.
type excerpt struct {
	Text string
	Rest string // address of the whole text; "": it is not truncated
}

// excerptOf returns the first characters of a text, and the address of the whole text.
func excerptOf(s string, most int, address string) excerpt {
	shown, all := readablePrefix(s, most)
	if all {
		return excerpt{Text: shown}
	}
	return excerpt{firstOf(shown, most-1) + "…", address}
}

// noteOf returns the excerpt of a note for a row.
func noteOf(note, address string) excerpt { return excerptOf(note, maxNote, address) }
