package console

import (
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// A formattedTime is a time as a page shows it.
type formattedTime struct {
	ISO  string // for programs; "": the time is not known
	Full string // to the second
	Text string // such as "5 min ago" or "in 3 h"; the date from 30 days on
}

// Time returns a time in the forms that pages use.
func (p *Page) Time(t time.Time) formattedTime {
	if t.IsZero() {
		return formattedTime{}
	}
	t = t.UTC()
	return formattedTime{t.Format(time.RFC3339), t.Format("2 January 2006, 15:04:05 UTC"), ago(p.now.Sub(t), t)}
}

// ago returns the time since or until t in words. d is the time since t.
func ago(d time.Duration, t time.Time) string {
	switch far := d.Abs(); {
	case far >= 30*24*time.Hour:
		return t.Format("2 Jan 2006")
	case d > -time.Minute && d < 0: // the clock of another process may be ahead
		return "now"
	case d < 0:
		return "in " + length(far)
	}
	return length(d) + " ago"
}

// length returns d in words, in one unit.
func length(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + " days"
}

// Count returns n with its noun.
func (p *Page) Count(n int, noun string) string { return text.Count(n, noun) }
