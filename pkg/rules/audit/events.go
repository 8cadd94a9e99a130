package audit

import (
	"context"
	"errors"
	"strings"
)

// The actions of events that are about no tool, prompt or resource. Those about one are the actions
// of pkg/rules/approval.
const (
	ActionLogin          = "login"           // a person signed in with a browser; the note says which way
	ActionLogout         = "logout"          // and out
	ActionSessionRevoked = "session_revoked" // a session was ended by other means than its own logout
	ActionTokenMade      = "token_made"
	ActionTokenRevoked   = "token_revoked"
	ActionStop           = "stop"        // an emergency stop
	ActionStopUndone     = "stop_undone" // and its end
	ActionConfigTaken    = "config_taken"
	ActionConfigRefused  = "config_refused"
	ActionPolicyTaken    = "policy_taken"
	ActionPolicyRefused  = "policy_refused"
	ActionAsked          = "request"           // an agent, or its user, asked for what is locked
	ActionWithdrawn      = "request_withdrawn" // and no longer does
	ActionDecided        = "request_decided"   // a person decided; the note says what
	ActionUnsent         = "notice_given_up"   // people could not be told for a day
	ActionSync           = "sync"              // a person had the servers asked
	ActionRestored       = "approvals_restored"
	ActionAccepted       = "approvals_accepted"
	ActionBackup         = "approvals_backup"     // a copy of the store was taken; it has the digests of tokens
	ActionTakenBack      = "approvals_taken_back" // a copy was taken back
)

// KindIncomplete is the kind of the last line of a file that lacks lines: its note says why, and where
// the rest begins.
const KindIncomplete = "incomplete"

// What an event can be about, if it is about no tool: the first word of [Line.Subject], before a
// colon. After it comes the name.
const (
	AboutServer  = "server"
	AboutAgent   = "agent"
	AboutToken   = "token" // so that the subject is the agent that the token makes
	AboutFile    = "file"
	AboutSession = "session"
	AboutAll     = "all" // of the gateway; there is no name
)

// About returns what the line is about besides a tool, and its name.
func (l Line) About() (kind, name string) {
	kind, name, _ = strings.Cut(l.Subject, ":")
	return kind, name
}

// Events keeps what people did that is about no tool, prompt or resource: what is about one is kept
// beside its record. Every implementation passes audittest.Run. It is safe for concurrent use.
type Events interface {
	// PutEvent adds a line.
	PutEvent(ctx context.Context, l Line) error

	// PutChange adds a line and keeps state as that of l.Subject, both or neither, unless that is
	// its state already; it reports whether it did. So of several processes that see the same
	// change, also after they were started again, one writes a line.
	PutChange(ctx context.Context, l Line, state string) (bool, error)

	// Events returns lines that f selects, the newest first, from after the cursor, each with its
	// Cursor set, and the cursor that leads on; "" means that there are no more. It returns at
	// most limit lines. It may return fewer, or none, with a cursor that leads on: how much one
	// call reads is bounded, however few lines are selected. A cursor that is from elsewhere is
	// [ErrCursor].
	Events(ctx context.Context, f Filter, after Cursor, limit int) ([]Line, Cursor, error)
}

// A Reader reads lines of calls, where this process can.
type Reader interface {
	// Read returns lines as [Events.Events] does.
	Read(ctx context.Context, f Filter, after Cursor, limit int) ([]Line, Cursor, error)
}

// MaxText is how many bytes of each text an event has at most.
const MaxText = 4096

// CheckEvent refuses a line that no store may keep as an event.
func CheckEvent(l Line) error {
	switch {
	case l.Kind != KindEvent || l.Action == "":
		return errors.New("the line is no deed")
	case l.Time.Unix() <= 0:
		return errors.New("the deed has no time")
	case max(len(l.Actor), len(l.Subject), len(l.Note), len(l.Source), len(l.Tool)) > MaxText:
		return errors.New("a text of the deed is too long")
	}
	return nil
}
