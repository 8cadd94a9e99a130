package approval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// Sync is the actor of what no person does: baselines and observations.
const Sync = "sync"

// The actions of an [Entry].
const (
	ActionBaseline = "baseline" // approved as part of a server's first list
	ActionObserve  = "observe"  // seen for the first time; waits
	ActionChange   = "change"   // the definition is no longer the approved one, or a waiting one changed
	ActionRestore  = "restore"  // the definition is the approved one again
	ActionMove     = "move"     // the server is at another URL; what was approved before counts no longer
	ActionRename   = "rename"   // the server has another name; the record of the old one holds for it
	ActionRecover  = "recover"  // the store had lost the record, or had an older one; the catalog's word is back
	ActionApprove  = "approve"
	ActionDisable  = "disable"
	ActionEnable   = "enable"
	ActionBlock    = "block"    // a lasting no to the current definition
	ActionUnblock  = "unblock"  // that no is taken back; the definition waits
	ActionUndo     = "undo"     // the last decision is taken back
	ActionRemember = "remember" // approved again, as a person approved this definition earlier

	ActionKeepRestored = "approvals-restore" // after a recovery: what the catalog had decided holds
	ActionAcceptStore  = "approvals-accept"  // after a recovery: what the store had decided holds
)

// A Seen is a tool as its server listed it.
type Seen struct {
	ID         tool.ID
	URL        string          // where the server gave it; "": not compared
	Definition json.RawMessage // byte-exact
	Hash       tool.Hash       // of Definition
	Mode       Mode            // the server's approval mode
	Baseline   bool            // the list is the first that the server gave
	Disabled   bool            // it is disabled under another name of the server; counts as long as nothing is known under this one
	From       *Record         // the tool's record under the name that the server had before; nil: it was not renamed
	Now        time.Time
}

// Observe compares a definition that a server just listed with r, the record of the tool (nil:
// there is none). It returns the record to store and its audit line (nil: none is due). If changed
// is false there is nothing to store.
//
// Only a baseline approves here, and only a tool without a record: whatever people decided, or left
// waiting, outlives changes of definition, mode and config.
func Observe(r *Record, d Seen) (next Record, e *Entry, changed bool) {
	switch {
	case d.Hash == "": // without a hash nothing can be compared; Facts keeps it locked
		if r != nil {
			return *r, nil, false
		}
		return Record{}, nil, false
	case r == nil && d.From != nil:
		next = renamed(d)
		return next, next.entry(ActionRename, Sync, "was "+d.From.ID().String(), d.Now), true
	case r == nil:
		next, e = first(d)
		return next, e, true
	}
	next = *r
	action := next.see(d)
	if d.From != nil { // an older record of the new name, from when the server was last called so
		if strict := stricter(next, renamed(d)); strict.Disabled != next.Disabled || strict.ApprovedHash != next.ApprovedHash {
			next, action = strict, ActionRename
		}
	}
	if action == "" {
		return *r, nil, false
	}
	next.State = next.derive()
	if action != unrecorded {
		e = next.entry(action, Sync, "", d.Now)
	}
	return next, e, true
}

// unrecorded is the action that leaves no audit line.
const unrecorded = "unrecorded"

// see updates r by d and returns the action that this is; "": nothing changed.
func (r *Record) see(d Seen) (action string) {
	if d.URL != "" && !SameServer(d.URL, r.URL) {
		action = unrecorded
		if r.URL != "" { // "": the record was made before anyone said where
			r.ApprovedHash, r.Approved, r.ApprovedBefore, r.Lost = "", nil, nil, nil
			r.Disabled = r.Disabled || d.Disabled
			action = ActionMove
		}
		r.URL = d.URL
	}
	if d.Hash != r.CurrentHash {
		r.CurrentHash, r.Current = d.Hash, d.Definition
		switch {
		case action == ActionMove:
		case d.Hash == r.ApprovedHash:
			action = ActionRestore
		default:
			action = ActionChange
		}
	}
	if len(r.Current) == 0 && len(d.Definition) > 0 { // a recovery did not have the text
		r.Current, action = d.Definition, cmp.Or(action, unrecorded)
	}
	return action
}

// first returns the record of a tool that has none.
func first(d Seen) (Record, *Entry) {
	now := stamp(d.Now)
	r := Record{
		Server: d.ID.Server, Tool: d.ID.Name, URL: d.URL,
		CurrentHash: d.Hash, Current: d.Definition,
		Disabled:  d.Disabled,
		FirstSeen: now,
	}
	action := ActionObserve
	if d.Mode == OnChange && d.Baseline {
		r.ApprovedHash, r.Approved = r.CurrentHash, r.Current
		r.By, r.At = Sync, now
		action = ActionBaseline
	}
	note := ""
	if d.Disabled {
		note = "disabled, as it is under another name of its server"
	}
	r.State = r.derive()
	return r, r.entry(action, Sync, note, d.Now)
}

// Approve approves the definition with the given hash, the one that the actor saw. It returns
// [ErrStale] if that is no longer the current one. A disabled tool stays disabled.
func Approve(r Record, hash tool.Hash, actor, note string, now time.Time) (Record, Entry, error) {
	if hash == "" || hash != r.CurrentHash {
		return Record{}, Entry{}, fmt.Errorf("approve %q at %q: %w", r.ID(), hash, ErrStale)
	}
	r.remember(actor, stamp(now))
	r.ApprovedHash, r.Approved = r.CurrentHash, r.Current
	return decide(r, ActionApprove, actor, note, now)
}

// Disable locks the tool until [Enable], whatever happens to its definition.
func Disable(r Record, actor, note string, now time.Time) (Record, Entry, error) {
	r.Disabled = true
	return decide(r, ActionDisable, actor, note, now)
}

// Enable takes back [Disable]. It approves nothing.
func Enable(r Record, actor, note string, now time.Time) (Record, Entry, error) {
	r.Disabled = false
	return decide(r, ActionEnable, actor, note, now)
}

// decide records on r who did what, and checks the result. A decision also settles a recovered
// record: whoever makes it saw the record.
func decide(r Record, action, actor, note string, now time.Time) (Record, Entry, error) {
	if actor == "" {
		return Record{}, Entry{}, fmt.Errorf("%s %q: no actor is named", action, r.ID())
	}
	r.State, r.Lost = r.derive(), nil
	r.By, r.At, r.Note = actor, stamp(now), note
	r.DecidedAt = later(now, r.DecidedAt)
	if err := r.Check(); err != nil {
		return Record{}, Entry{}, fmt.Errorf("%s: %w", action, err)
	}
	return r, *r.entry(action, actor, note, now), nil
}

// Facts answers the two questions of [lock.Facts] that are about approval, for the definition with
// the given hash. r nil means that the store has no record; if the store could not be read, do not
// ask: leave the facts unknown. They are unknown, too, for a record in a newer form than this
// program knows.
func Facts(r *Record, mode Mode, hash tool.Hash) (userDisabled, approved lock.Fact) {
	if r != nil && r.Format > Format {
		return lock.Unknown, lock.Unknown
	}
	userDisabled = lock.FactOf(r != nil && r.Disabled)
	switch {
	case mode == Off:
		return userDisabled, lock.Yes
	case mode != Manual && mode != OnChange, hash == "":
		return userDisabled, lock.Unknown
	case r == nil:
		return userDisabled, lock.No
	}
	return userDisabled, lock.FactOf(r.State == Approved && r.ApprovedHash == hash)
}

// derive returns the state that the two hashes imply. It does not depend on the mode, so that a
// server whose approval was off for a while is compared with what was approved before.
func (r Record) derive() State {
	switch r.ApprovedHash {
	case "":
		return Pending
	case r.CurrentHash:
		return Approved
	default:
		return Changed
	}
}

func (r Record) entry(action, actor, note string, now time.Time) *Entry {
	return &Entry{
		Server: r.Server, Tool: r.Tool, Actor: actor, Action: action,
		Hash: r.CurrentHash, Note: note, At: stamp(now),
	}
}

// stamp drops what a store cannot keep: the monotonic clock and the zone.
func stamp(t time.Time) time.Time { return t.UTC().Round(0) }

// later returns now as a store keeps it, or just after last if the clock is not past that.
func later(now, last time.Time) time.Time {
	if now = stamp(now); !now.After(last) {
		return stamp(last).Add(time.Nanosecond)
	}
	return now
}
