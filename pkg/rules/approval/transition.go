package approval

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Sync is the actor of automatic events: baselines and observations.
const Sync = "sync"

// The actions of an [Entry].
const (
	ActionBaseline = "baseline" // approved as part of a server's first list
	ActionObserve  = "observe"  // seen for the first time; waits, unless approval is off
	ActionChange   = "change"   // the definition differs from the approved one, or a waiting one changed
	ActionRestore  = "restore"  // the definition is the approved one again
	ActionMove     = "move"     // the server is at another URL; earlier approvals no longer count
	ActionRename   = "rename"   // the server has another name; the record of the old name applies to it
	ActionRecover  = "recover"  // the store had lost the record, or had an older one; the catalog's version is back
	ActionApprove  = "approve"
	ActionPropose  = "propose" // approved by the first of two people; opens nothing
	ActionDisable  = "disable"
	ActionEnable   = "enable"
	ActionBlock    = "block"    // permanently refuses the current definition
	ActionUnblock  = "unblock"  // reverses a block; the definition waits
	ActionUndo     = "undo"     // reverses the last decision
	ActionRemember = "remember" // approved again, because a person approved this definition earlier

	ActionKeepRestored = "approvals-restore" // after a recovery: the catalog's decision counts
	ActionAcceptStore  = "approvals-accept"  // after a recovery: the store's decision counts
)

// An Observation is a tool as its server listed it.
type Observation struct {
	ID         tool.ID
	URL        string          // where the server listed it; "": not compared
	Release    Release         // of the server at URL; zero: the server starts no package
	Definition json.RawMessage // byte-exact
	Hash       tool.Hash       // of Definition
	Mode       Mode            // the server's approval mode
	Baseline   bool            // this is the server's first list
	Others     []*Record       // records under other names of the server: they lock a new or moved tool
	IsLost     bool            // store and catalog both lost the decision: a person has to decide again
	Remember   bool            // approve again what a person approved earlier
	TwoPeople  bool            // the definition needs two people: an approval by one person is not repeated
	From       *Record         // the record under the server's previous name; nil: not renamed
	Now        time.Time
}

// Observe compares a definition that a server just listed with r, the record of the tool (nil:
// none). It returns the record to store and its audit line (nil: no line). If changed is false
// there is nothing to store.
//
// Observe approves in two cases: a baseline approves a tool without a record, and Remember approves
// again what a person approved earlier at this server. All other decisions stay when the
// definition, the mode or the config changes, and a definition that waits still waits. A write of
// Observe cannot be undone, nor can the decision before it.
func Observe(r *Record, d Observation) (next Record, e *Entry, changed bool) {
	switch {
	case d.Hash == "": // there is nothing to compare; Facts keeps the tool locked
		if r != nil {
			return *r, nil, false
		}
		return Record{}, nil, false
	case r == nil && d.From != nil:
		next = rename(d)
		return next, next.entry(ActionRename, Author{Actor: Sync, Note: "was " + d.From.ID().String()}, d.Now), true
	case r == nil:
		next, e = newRecord(d)
		return next, e, true
	}
	next = *r
	action, note := next.compare(d), ""
	if d.From != nil && next.restrict(rename(d)) {
		action = ActionRename
	}
	next.State = next.derive()
	if m, ok := next.Earlier(); ok && d.approvesAgain(m) && next.Loss == nil {
		next.approveAgain(m, d.Now)
		action, note = ActionRemember, "approved by "+m.By+" on "+m.At.Format(time.DateOnly)
	}
	if action == "" {
		return *r, nil, false
	}
	if next.Undo = nil; !next.Disabled && (next.State != r.State || next.CurrentHash != r.CurrentHash || action == ActionMove) {
		next.Tell = false // the note was about another definition
	}
	if b, ok := next.block(next.CurrentHash); ok && action == ActionChange {
		note = "blocked by " + b.By + " on " + b.At.Format(time.DateOnly)
	}
	if action != unrecorded {
		e = next.entry(action, Author{Actor: Sync, Note: note}, d.Now)
	}
	return next, e, true
}

// approvesAgain reports whether an earlier approval counts again without a new decision.
func (d Observation) approvesAgain(m Remembered) bool {
	return d.Remember && m.isPersons() && (m.Two || !d.TwoPeople)
}

// unrecorded is the action of changes without an audit line.
const unrecorded = "unrecorded"

// compare updates r with d and returns the action; "": nothing changed.
func (r *Record) compare(d Observation) (action string) {
	if d.URL != "" && !SameServer(d.URL, r.URL) {
		action = unrecorded
		if r.URL != "" { // "": the record is older than this field
			r.Prior = r.prior(d)
			r.ApprovedHash, r.Approved, r.ApprovedBefore, r.Loss, r.Endorsed, r.Proposed = "", nil, nil, nil, Remembered{}, nil
			r.addLocks(d.Others)
			action = ActionMove
		}
		r.URL = d.URL
	}
	if d.URL != "" && r.Release != d.Release {
		r.Release, action = d.Release, cmp.Or(action, unrecorded)
	}
	if d.Hash != r.CurrentHash {
		r.CurrentHash, r.Current, r.Proposed, r.ChangedAt = d.Hash, d.Definition, nil, stamp(d.Now)
		switch {
		case action == ActionMove:
		case d.Hash == r.ApprovedHash:
			action = ActionRestore
		default:
			action = ActionChange
		}
	}
	if len(r.Current) == 0 && len(d.Definition) > 0 { // the record was recovered from a catalog without the text
		r.Current, action = d.Definition, cmp.Or(action, unrecorded)
	}
	return action
}

// newRecord returns the record of a tool that has none.
func newRecord(d Observation) (Record, *Entry) {
	now := stamp(d.Now)
	r := Record{
		Server: d.ID.Server, Tool: d.ID.Name, Kind: d.ID.Kind, URL: d.URL, Release: d.Release,
		CurrentHash: d.Hash, Current: d.Definition,
		FirstSeen: now,
	}
	r.addLocks(d.Others)
	action := ActionObserve
	if d.IsLost {
		r.Disabled = r.Disabled || d.Mode == Off
		r.Loss = newUnknown(r.Disabled, now)
	} else if d.Mode == OnChange && d.Baseline && !r.IsBlocked(d.Hash) {
		r.ApprovedHash, r.Approved = r.CurrentHash, r.Current
		r.By, r.At = Sync, now
		action = ActionBaseline
	}
	r.State = r.derive()
	note := ""
	switch {
	case d.IsLost:
		note = "the store had no record, and the catalog could not be used: what was decided is lost"
	case r.Disabled:
		note = "disabled, as under another name of its server"
	case r.State == Blocked:
		note = "blocked, as under another name of its server"
	}
	return r, r.entry(action, Author{Actor: Sync, Note: note}, d.Now)
}

// Facts returns the two facts of [lock.Facts] that depend on approval, for the definition with the
// given hash. A nil r means that the store has no record. If the store could not be read, callers
// leave both facts unknown instead. For a record in a newer form than this program knows, both are
// unknown, too.
func Facts(r *Record, mode Mode, hash tool.Hash) (userDisabled, approved lock.Fact) {
	if r != nil && r.Format > Format {
		return lock.Unknown, lock.Unknown
	}
	userDisabled = lock.FactOf(r != nil && (r.Disabled || r.IsBlocked(hash)))
	switch {
	case r != nil && hash == "" && len(r.blocks()) > 0 && !r.Disabled: // without a hash, it is unknown whether it is blocked
		return lock.Unknown, lock.Unknown
	case mode == Off:
		return userDisabled, lock.Yes
	case mode != Manual && mode != OnChange, hash == "":
		return userDisabled, lock.Unknown
	case r == nil:
		return userDisabled, lock.No
	}
	return userDisabled, lock.FactOf(r.State == Approved && r.ApprovedHash == hash && !r.isProposalAlone())
}

// derive returns the state that the two hashes and the blocks imply. It ignores the mode, so that
// a server whose approval was off for a while is still compared with its earlier approvals.
func (r Record) derive() State {
	if _, blocked := r.block(r.CurrentHash); blocked {
		return Blocked
	}
	switch r.ApprovedHash {
	case "":
		return Pending
	case r.CurrentHash:
		return Approved
	default:
		return Changed
	}
}

func (r Record) entry(action string, author Author, now time.Time) *Entry {
	return &Entry{
		Server: r.Server, Tool: r.Tool, Kind: r.Kind, Actor: author.Actor, Action: action,
		Hash: r.CurrentHash, Note: author.Note, Tell: author.Tell, At: stamp(now),
	}
}

// stamp removes what a store cannot keep: the monotonic clock and the zone.
func stamp(t time.Time) time.Time { return t.UTC().Round(0) }

// later returns now as a store keeps it, or just after last if now is not later.
func later(now, last time.Time) time.Time {
	if now = stamp(now); !now.After(last) {
		return stamp(last).Add(time.Nanosecond)
	}
	return now
}
