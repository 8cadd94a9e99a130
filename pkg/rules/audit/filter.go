package audit

import (
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Filter says which lines are wanted. The zero Filter wants all.
type Filter struct {
	Actor  string // the person or the agent
	Action string // of an event; of a call, what was decided about it
	Server string // of the tool, or the server that an event was about
	Tool   string // its id, or its name at whatever server
	Kind   string // call, event

	Since time.Time // the first moment
	Until time.Time // the first moment after the last
}

// A Cursor is a place in lines, after one of them: "" is before the newest. It means something to
// the reader that returned it, for the same lines, and names a line and not its number, so that no
// line is left out or repeated because others were written meanwhile.
type Cursor string

// ErrCursor says that a cursor is from another place.
var ErrCursor = errors.New("cursor is not of these lines")

// Wants reports whether the filter selects the line. One that cannot be read is wanted if nothing but
// its time or its kind is asked for: what else it says is not known.
func (f Filter) Wants(l Line) bool {
	switch {
	case f.Kind != "" && f.Kind != l.Kind,
		f.Actor != "" && f.Actor != l.Actor && f.Actor != l.Agent && f.Actor != l.Human,
		f.Action != "" && f.Action != l.Action && f.Action != l.Decision,
		f.Server != "" && f.Server != l.Server(),
		f.Tool != "" && !l.names(f.Tool),
		!f.Since.IsZero() && l.Time.Before(f.Since),
		!f.Until.IsZero() && !l.Time.Before(f.Until):
		return false
	}
	return true
}

// Server returns the server that the line is about; "": none.
func (l Line) Server() string {
	if id, err := tool.ParseID(l.Tool); err == nil {
		return id.Server
	}
	if kind, name := l.About(); kind == AboutServer {
		return name
	}
	return ""
}

// names reports whether the line is about the tool with this id or name.
func (l Line) names(name string) bool {
	if l.Tool == "" || l.Tool == name {
		return l.Tool == name
	}
	id, err := tool.ParseID(l.Tool)
	return err == nil && id.Name == name
}
