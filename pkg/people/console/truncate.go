package console

import (
	"html"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// How many bytes of HTML a page makes of a note beside others, and of somebody's name.
const (
	noteHTML = 480
	nameHTML = 400
)

// htmlLen returns how many bytes of HTML a template makes of a text.
func htmlLen(s string) int { return len(html.EscapeString(s)) + len("&#43;"[1:])*strings.Count(s, "+") }

// truncateTo returns the longest beginning of s, of whole characters and at most so many bytes, of
// which, as a person reads it, a template makes at most room bytes of HTML.
func truncateTo(s string, bytes, room int) string {
	upTo := func(n int) string {
		for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
			n--
		}
		return s[:n]
	}
	tooLong := sort.Search(min(bytes, len(s))+1, func(n int) bool { return htmlLen(review.Readable(upTo(n))) > room })
	return upTo(max(0, tooLong-1))
}

// truncate returns s as a person reads it, cut with a mark if a template would make more than room
// bytes of HTML of it.
func truncate(s string, room int) string {
	const mark = "…"
	if len(s) <= room { // no byte becomes less than one of HTML
		if shown := review.Readable(s); htmlLen(shown) <= room {
			return shown
		}
	}
	return review.Readable(truncateTo(s, room, max(0, room-len(mark)))) + mark
}

// name returns who did something, as a line shows it.
func name(actor string) string { return truncate(actor, nameHTML) }

// How much of an id stands in a line, and of a name beside that of its server: characters, and bytes of
// HTML. The name of a tool fits, a URI may not.
const (
	idLength   = 200
	nameLength = 130
	idHTML     = 480
)

// clipped returns an id, or a part of one, as a line shows it.
func clipped(s string) string { return truncate(text.Clip(review.Readable(s), idLength), idHTML) }

func shownID(id tool.ID) string { return clipped(id.String()) }

// A noteLine is a note as a line shows it.
type noteLine struct {
	Text string
	Cut  bool
}

func noteOf(note string) noteLine {
	return noteLine{truncate(note, noteHTML), htmlLen(review.Readable(note)) > noteHTML}
}
