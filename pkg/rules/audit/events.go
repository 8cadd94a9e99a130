package audit

import (
	"context"
	"errors"
	"strings"
)

// The actions of events that concern no tool, prompt or resource. Events about those have the
// actions of pkg/rules/approval.
const (
	ActionLogin          = "login"           // a person signed in with a browser; the note says which way
	ActionLogout         = "logout"          // a person signed out
	ActionSessionRevoked = "session_revoked" // a session ended without its own logout
	ActionTokenMade      = "token_made"
	ActionTokenRevoked   = "token_revoked"
	ActionStop           = "stop"        // an emergency stop
	ActionStopUndone     = "stop_undone" // the end of an emergency stop
	ActionConfigTaken    = "config_taken"
	ActionConfigRefused  = "config_refused"
	ActionPolicyTaken    = "policy_taken"
	ActionPolicyRefused  = "policy_refused"
	ActionAsked          = "request"              // an agent, or its user, asked for a locked item
	ActionWithdrawn      = "request_withdrawn"    // an agent, or its user, withdrew the request
	ActionDecided        = "request_decided"      // a person decided; the note says what
	ActionUnsent         = "notice_given_up"      // the gateway gave up sending a notice after a day
	ActionNoticeTested   = "notice_tested"        // a person tested a target; the note says how
	ActionConnected      = "server_sign_in"       // a person signed the gateway in to a server
	ActionDisconnected   = "server_sign_out"      // a person ended such a sign-in
	ActionEnded          = "connection_ended"     // the gateway's sign-in at a server ended
	ActionRenewed        = "server_token_renewed" // token renewals of one day; the note has the number
	ActionSync           = "sync"                 // a person started a sync
	ActionRestarted      = "server_restarted"     // a person restarted a server
	ActionServerAdded    = "server_added"         // a person added a server to the config
	ActionServerChanged  = "server_changed"       // a person changed a server in the config
	ActionServerEnabled  = "server_enabled"       // a person enabled a server in the config
	ActionServerDisabled = "server_disabled"      // a person disabled a server in the config
	ActionServerProbed   = "server_probed"        // a person started a probe of a described server
	ActionRestored       = "approvals_restored"
	ActionAccepted       = "approvals_accepted"
	ActionBackup         = "approvals_backup"     // a copy of the store was made; it has the digests of tokens
	ActionTakenBack      = "approvals_taken_back" // a copy was restored
)

// ActorSync is the actor of lines about definitions that a sync saw.
const ActorSync = "sync"

// KindIncomplete is the kind of the last line of a file that lacks lines. Its note says why, and
// where the next lines are.
const KindIncomplete = "incomplete"

// The kinds of things, other than tools, that an event can concern: the first word of
// [Line.Subject], before a colon. The name follows the colon.
const (
	AboutServer  = "server"
	AboutAgent   = "agent"
	AboutToken   = "token" // the subject is the agent of the token
	AboutFile    = "file"
	AboutSession = "session"
	AboutAll     = "all" // the whole gateway; there is no name
)

// About returns the kind and name of what the line concerns, if it is no tool.
func (l Line) About() (kind, name string) {
	kind, name, _ = strings.Cut(l.Subject, ":")
	return kind, name
}

// Events keeps events of people that concern no tool, prompt or resource. Events about those are
// stored with the record. Every implementation passes audittest.Run. It is safe for concurrent
// use.
type Events interface {
	// PutEvent adds a line.
	PutEvent(ctx context.Context, l Line) error

	// PutChange adds a line and stores state as the state of l.Subject, both or neither, unless the
	// subject already has that state. It reports whether it added the line. So if several processes
	// see the same change, even after a restart, only one line is written.
	PutChange(ctx context.Context, l Line, state string) (bool, error)

	// Events returns the lines that f selects, the newest first, from after the cursor, each with
	// its Cursor set. It also returns the cursor of the next page; "" means that there are no
	// more. It returns at most limit lines. It may return fewer, or none, with a next cursor,
	// because each call reads a bounded amount. It returns [ErrCursor] for a cursor from another
	// source.
	Events(ctx context.Context, f Filter, after Cursor, limit int) ([]Line, Cursor, error)
}

// A Reader reads the lines of calls, if this process can read them.
type Reader interface {
	// Read returns lines as [Events.Events] does.
	Read(ctx context.Context, f Filter, after Cursor, limit int) ([]Line, Cursor, error)
}

// MaxText is the longest text of an event, in bytes.
const MaxText = 4096

// CheckEvent returns an error if no store may keep the line as an event.
func CheckEvent(l Line) error {
	switch {
	case l.Kind != KindEvent || l.Action == "":
		return errors.New("the line is not an audit event")
	case l.Time.Unix() <= 0:
		return errors.New("the audit event has no time")
	case max(len(l.Actor), len(l.Subject), len(l.Note), len(l.Source), len(l.Tool)) > MaxText:
		return errors.New("a text of the audit event is too long")
	}
	return nil
}
