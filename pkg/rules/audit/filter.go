package audit

import (
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Filter selects lines. The zero Filter selects all.
type Filter struct {
	Actor  string // the person or the agent
	Action string // action of an event, or decision about a call
	Server string // server of the tool, or server that an event concerns
	Tool   string // its id, or its name at any server
	Kind   string // call, event
	NoSync bool   // no lines that syncs wrote

	Since time.Time // earliest time, inclusive
	Until time.Time // end of the time range, exclusive
}

// A Cursor is the position after one line. The empty Cursor is before the newest line. A Cursor is
// valid only for the reader that returned it and for the same lines. It names a line and not a
// number, so that new lines cause no skipped and no repeated lines.
type Cursor string

// ErrCursor says that a cursor is from another source.
var ErrCursor = errors.New("cursor is from another source of audit lines")

// Wants reports whether the filter selects the line. A line that cannot be read is selected if the
// filter uses only time and kind: its other members are unknown.
func (f Filter) Wants(l Line) bool {
	switch {
	case f.Kind != "" && f.Kind != l.Kind,
		f.NoSync && l.Actor == ActorSync,
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
