package audit

import (
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Filter selects lines. The zero Filter selects all.
type Filter struct {
	Actor  string // the person or the agent
	Action string // of an event; the decision of a call
	Server string // of the tool, or the server that an event concerns
	Tool   string // its id, or its name at any server
	Kind   string // call, event

	Since time.Time // the first time
	Until time.Time // just after the last time
}

// A Cursor is a position in lines, after one of them: "" is before the newest. It is valid for the
// reader that returned it, and for the same lines. It names a line, not a number, so that lines
// that are written meanwhile make no reader skip or repeat a line.
type Cursor string

// ErrCursor says that a cursor is from another source.
var ErrCursor = errors.New("cursor is not of these lines")

// Wants reports whether the filter selects the line. A line that cannot be read is selected if the
// filter uses only time and kind: its other members are unknown.
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

// Server returns the server that the line concerns; "": none.
func (l Line) Server() string {
	if id, err := tool.ParseID(l.Tool); err == nil {
		return id.Server
	}
	if kind, name := l.About(); kind == AboutServer {
		return name
	}
	return ""
}

// names reports whether the line concerns the tool with this id or name.
func (l Line) names(name string) bool {
	if l.Tool == "" || l.Tool == name {
		return l.Tool == name
	}
	id, err := tool.ParseID(l.Tool)
	return err == nil && id.Name == name
}
