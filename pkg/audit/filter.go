package audit

import (
	"strings"
	"time"
)

// A Filter says which lines are wanted. The zero Filter wants all.
type Filter struct {
	Actor  string    // the actor of a deed, or the agent of a call
	Action string    // of a deed
	Server string    // of the tool, the prompt or the resource
	Tool   string    // its whole id, or the name of a tool of the gateway's own
	Kind   string    // one of the kinds
	Since  time.Time // not before; zero: no bound
	Until  time.Time // before; zero: no bound
}

// Wants reports whether the filter wants a line. One that cannot be read is wanted if nothing but its
// time or its kind is asked for: what else it says is not known.
func (f Filter) Wants(l Line) bool {
	server, _, found := strings.Cut(l.Tool, ":")
	switch {
	case f.Kind != "" && f.Kind != l.Kind,
		f.Actor != "" && f.Actor != l.Actor && f.Actor != l.Agent,
		f.Action != "" && f.Action != l.Action,
		f.Server != "" && !(found && f.Server == server) && f.Server != l.Subject,
		f.Tool != "" && f.Tool != l.Tool,
		!f.Since.IsZero() && l.Time.Before(f.Since),
		!f.Until.IsZero() && !l.Time.Before(f.Until):
		return false
	}
	return true
}

// A Cursor is where a reader of lines goes on: what the call before returned, as it is. "" is the newest
// line and, as an answer, that there are no more.
type Cursor string
