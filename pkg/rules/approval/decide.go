package approval

import (
	"bytes"
	"fmt"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// How many characters agents may read of a note, and of its author's name.
const (
	maxTold   = 300
	maxTeller = 60
)

// LockNote returns, in one line, what agents may read about a lock of the definition with the
// hash: who decided last, and their note ("kim: use staging"). It returns "" if agents may read
// nothing.
func (r Record) LockNote(hash tool.Hash) string {
	note := text.Line(r.Note)
	if !r.Tell || note == "" || !r.Disabled && r.CurrentHash != hash {
		return ""
	}
	return text.Clip(text.Line(r.By), maxTeller) + ": " + text.Clip(note, maxTold)
}

// UndoTime is how long after a decision it can be undone.
const UndoTime = 10 * time.Minute

// Said is who decides, and their note.
type Said struct {
	Actor   string
	Subject string // of the actor at the issuer of their sign-in; "": they used none
	Note    string
	Tell    bool // agents may read the note, with the actor as its author
}

// Approve approves the definition with the given hash, which the actor saw, and lifts a block of
// it. It returns [ErrStale] if the hash is no longer the current one, and [tool.ErrNested] if the
// definition is nested too deeply to be approved. A disabled tool stays disabled.
func Approve(r Record, hash tool.Hash, said Said, now time.Time) (Record, Entry, error) {
	return approve(r, hash, said, false, now)
}

// approve is [Approve]; second says that the actor is the second of two people.
func approve(r Record, hash tool.Hash, said Said, second bool, now time.Time) (Record, Entry, error) {
	if hash == "" || hash != r.CurrentHash {
		return Record{}, Entry{}, fmt.Errorf("approve %q at %q: %w", r.ID(), hash, ErrStale)
	}
	if err := tool.CheckDepth(r.Current); err != nil {
		return Record{}, Entry{}, fmt.Errorf("approve %q: %w", r.ID(), err)
	}
	next := r
	next.Blocked = without(r.blocks(), hash)
	next.remember(said.Actor, stamp(now))
	next.ApprovedBefore[0].Two = second
	next.ApprovedHash, next.Approved, next.Proposed = r.CurrentHash, r.Current, nil
	next.Endorsed = next.ApprovedBefore[0]
	return decide(r, next, ActionApprove, said, now)
}

// Block refuses the definition with the given hash permanently: nobody can call it until [Unblock]
// or [Approve], even if the server returns to it later. Block withdraws an approval of it. A
// different definition waits as usual. It returns [ErrStale] as [Approve] does, and [ErrBlocks] if
// the record has no room.
func Block(r Record, hash tool.Hash, said Said, now time.Time) (Record, Entry, error) {
	if hash == "" || hash != r.CurrentHash {
		return Record{}, Entry{}, fmt.Errorf("block %q at %q: %w", r.ID(), hash, ErrStale)
	}
	rest := without(r.blocks(), hash)
	if len(rest) >= maxRemembered {
		return Record{}, Entry{}, fmt.Errorf("block %q: %w", r.ID(), ErrBlocks)
	}
	next := r
	next.Proposed = nil
	next.Blocked = append([]Remembered{newBlock(hash, said, stamp(now))}, rest...)
	next.withdrawBlocked()
	return decide(r, next, ActionBlock, said, now)
}

func newBlock(hash tool.Hash, said Said, at time.Time) Remembered {
	return Remembered{Hash: hash, By: truncate(said.Actor, maxRememberedBy), At: at, Note: truncate(said.Note, maxBlockNote)}
}

// Unblock takes back [Block]. It approves nothing: the definition waits. The definition need not
// be the current one. It returns [ErrNotBlocked] if there is no such block.
func Unblock(r Record, hash tool.Hash, said Said, now time.Time) (Record, Entry, error) {
	if !r.IsBlocked(hash) {
		return Record{}, Entry{}, fmt.Errorf("unblock %q at %q: %w", r.ID(), hash, ErrNotBlocked)
	}
	next := r
	next.Blocked = without(r.blocks(), hash)
	next, e, err := decide(r, next, ActionUnblock, said, now)
	if err != nil {
		return Record{}, Entry{}, err
	}
	e.Hash = hash // need not be the current one
	return next, e, nil
}

// Disable locks the tool until [Enable], even if its definition changes.
func Disable(r Record, said Said, now time.Time) (Record, Entry, error) {
	next := r
	next.Disabled = true
	return decide(r, next, ActionDisable, said, now)
}

// Enable takes back [Disable]. It approves nothing, and blocks stay.
func Enable(r Record, said Said, now time.Time) (Record, Entry, error) {
	next := r
	next.Disabled = false
	return decide(r, next, ActionEnable, said, now)
}

// CanUndo reports whether the last decision can be undone at the given time.
func (r Record) CanUndo(now time.Time) bool {
	age := now.Sub(r.At)
	return r.Undo != nil && r.Undo.Rev+1 == r.Rev && age <= UndoTime && age >= -UndoTime
}

// UndoDecision returns the record as it was before the decision at revision rev, byte for byte
// except for the time of the last decision. It returns [ErrConflict] if the record is at another
// revision. It returns [ErrNoUndo] if the decision cannot be undone: a sync wrote last, [UndoTime]
// is over, the last decision was itself an undo or settled a recovered record, or the record had
// no room for what it replaced.
func UndoDecision(r Record, rev int64, actor string, now time.Time) (Record, Entry, error) {
	switch {
	case rev != r.Rev:
		return Record{}, Entry{}, fmt.Errorf("undo of %q at revision %d: %w", r.ID(), rev, ErrConflict)
	case !r.CanUndo(now):
		return Record{}, Entry{}, fmt.Errorf("undo of %q: %w", r.ID(), ErrNoUndo)
	}
	u, next := r.Undo, r
	next.Disabled, next.Blocked, next.Endorsed, next.ApprovedBefore = u.Disabled, u.Blocked, u.Endorsed, u.ApprovedBefore
	next.Proposed = u.Proposed
	if !u.Same {
		next.ApprovedHash, next.Approved = u.ApprovedHash, u.Approved
	}
	next, e, err := record(next, ActionUndo, Said{Actor: actor}, now)
	if err != nil {
		return Record{}, Entry{}, err
	}
	next.By, next.At, next.Note, next.Tell, next.Lost = u.By, u.At, u.Note, u.Tell, u.Lost
	e.Note = u.Action + " by " + r.By + " was undone"
	return next, e, nil
}

// undo returns what a decision about r replaces; next is the record after the decision.
func (r Record) undo(next Record, action string) *Undo {
	u := &Undo{
		Action: action, Rev: r.Rev, Disabled: r.Disabled, By: r.By, At: r.At, Note: r.Note, Tell: r.Tell,
		Blocked: r.Blocked, Endorsed: r.Endorsed, ApprovedBefore: r.ApprovedBefore, Lost: r.Lost, Proposed: r.Proposed,
	}
	if u.Same = r.ApprovedHash == next.ApprovedHash && bytes.Equal(r.Approved, next.Approved); !u.Same {
		u.ApprovedHash, u.Approved = r.ApprovedHash, r.Approved
	}
	return u
}

// decide returns next, the result of a decision about r, with the actor and with what the decision
// replaced. If there is no room for the latter, the decision cannot be undone.
func decide(r, next Record, action string, said Said, now time.Time) (Record, Entry, error) {
	next, e, err := record(next, action, said, now)
	if err != nil {
		return Record{}, Entry{}, err
	}
	if next.Undo = r.undo(next, action); next.Check() != nil {
		next.Undo = nil
	}
	if next.ApprovedHash != r.ApprovedHash {
		e.From = r.ApprovedHash
	}
	return next, e, nil
}

// record notes on r who did what, and checks the result. A decision also settles a recovered
// record: the actor saw the record.
func record(r Record, action string, said Said, now time.Time) (Record, Entry, error) {
	if said.Actor == "" {
		return Record{}, Entry{}, fmt.Errorf("%s %q: no actor is named", action, r.ID())
	}
	said.Tell = said.Tell && said.Note != ""
	r.State, r.Lost, r.Undo = r.derive(), nil, nil
	r.By, r.At, r.Note, r.Tell = said.Actor, stamp(now), said.Note, said.Tell
	r.DecidedAt = later(now, r.DecidedAt)
	if err := r.Check(); err != nil {
		return Record{}, Entry{}, fmt.Errorf("%s: %w", action, err)
	}
	return r, *r.entry(action, said, now), nil
}
