package approval

import (
	"bytes"
	"fmt"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// The longest parts of a note and of its author's name that agents read, in characters.
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

// UndoTime is the time after a decision in which a person can undo it.
const UndoTime = 10 * time.Minute

// An Author is the person who decides, with their note.
type Author struct {
	Actor   string
	Subject string // of the actor at the issuer; "": they signed in without an issuer
	Note    string
	Tell    bool // agents may read the note, with the actor as its author
}

// Approve approves the definition with the given hash, which the actor saw, and unblocks it. It
// returns [ErrStale] if the hash is no longer the current one, and [tool.ErrNested] if the
// definition is nested too deeply to be approved. A disabled tool stays disabled.
func Approve(r Record, hash tool.Hash, author Author, now time.Time) (Record, Entry, error) {
	return approve(r, hash, author, false, now)
}

// approve is [Approve]; second says that the actor is the second of two people.
func approve(r Record, hash tool.Hash, author Author, second bool, now time.Time) (Record, Entry, error) {
	if hash == "" || hash != r.CurrentHash {
		return Record{}, Entry{}, fmt.Errorf("approve %q at %q: %w", r.ID(), hash, ErrStale)
	}
	if err := tool.CheckDepth(r.Current); err != nil {
		return Record{}, Entry{}, fmt.Errorf("approve %q: %w", r.ID(), err)
	}
	next := r
	next.Blocked = without(r.blocks(), hash)
	next.remember(author.Actor, stamp(now))
	next.ApprovedBefore[0].Two = second
	next.ApprovedHash, next.Approved, next.Proposed = r.CurrentHash, r.Current, nil
	next.Endorsed = next.ApprovedBefore[0]
	return decide(r, next, ActionApprove, author, now)
}

// Block refuses the definition with the given hash permanently: nobody can call it until [Unblock]
// or [Approve], even if the server returns to it later. Block withdraws its approval, if there is
// one. A different definition waits as usual. It returns [ErrStale] as [Approve] does, and
// [ErrBlocks] if the record has no room.
func Block(r Record, hash tool.Hash, author Author, now time.Time) (Record, Entry, error) {
	if hash == "" || hash != r.CurrentHash {
		return Record{}, Entry{}, fmt.Errorf("block %q at %q: %w", r.ID(), hash, ErrStale)
	}
	rest := without(r.blocks(), hash)
	if len(rest) >= maxRemembered {
		return Record{}, Entry{}, fmt.Errorf("block %q: %w", r.ID(), ErrBlocks)
	}
	next := r
	next.Proposed = nil
	next.Blocked = append([]Remembered{newBlock(hash, author, stamp(now))}, rest...)
	next.withdrawBlocked()
	return decide(r, next, ActionBlock, author, now)
}

func newBlock(hash tool.Hash, author Author, at time.Time) Remembered {
	return Remembered{Hash: hash, By: truncate(author.Actor, maxRememberedBy), At: at, Note: truncate(author.Note, maxBlockNote)}
}

// Unblock reverses [Block]. It approves nothing: the definition waits. The definition need not be
// the current one. It returns [ErrNotBlocked] if there is no such block.
func Unblock(r Record, hash tool.Hash, author Author, now time.Time) (Record, Entry, error) {
	if !r.IsBlocked(hash) {
		return Record{}, Entry{}, fmt.Errorf("unblock %q at %q: %w", r.ID(), hash, ErrNotBlocked)
	}
	next := r
	next.Blocked = without(r.blocks(), hash)
	next, e, err := decide(r, next, ActionUnblock, author, now)
	if err != nil {
		return Record{}, Entry{}, err
	}
	e.Hash = hash // need not be the current one
	return next, e, nil
}

// Disable locks the tool until [Enable], even if its definition changes.
func Disable(r Record, author Author, now time.Time) (Record, Entry, error) {
	next := r
	next.Disabled = true
	return decide(r, next, ActionDisable, author, now)
}

// Enable reverses [Disable]. It approves nothing, and blocks stay.
func Enable(r Record, author Author, now time.Time) (Record, Entry, error) {
	next := r
	next.Disabled = false
	return decide(r, next, ActionEnable, author, now)
}

// CanUndo reports whether the last decision can be undone at the given time.
func (r Record) CanUndo(now time.Time) bool {
	age := now.Sub(r.At)
	return r.Undo != nil && r.Undo.Rev+1 == r.Rev && age <= UndoTime && age >= -UndoTime
}

// UndoDecision returns the record as it was before the decision at revision rev, byte for byte
// except for the time of the last decision. It returns [ErrConflict] if the record is at another
// revision. It returns [ErrNoUndo] if the decision cannot be undone: a sync wrote last, [UndoTime]
// is over, the last decision was an undo or settled a recovered record, or the record had no room
// for an [Undo].
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
	next, e, err := record(next, ActionUndo, Author{Actor: actor}, now)
	if err != nil {
		return Record{}, Entry{}, err
	}
	next.By, next.At, next.Note, next.Tell, next.Loss = u.By, u.At, u.Note, u.Tell, u.Loss
	e.Note = u.Action + " by " + r.By + " was undone"
	return next, e, nil
}

// undo returns what a decision about r replaces; next is the record after the decision.
func (r Record) undo(next Record, action string) *Undo {
	u := &Undo{
		Action: action, Rev: r.Rev, Disabled: r.Disabled, By: r.By, At: r.At, Note: r.Note, Tell: r.Tell,
		Blocked: r.Blocked, Endorsed: r.Endorsed, ApprovedBefore: r.ApprovedBefore, Loss: r.Loss, Proposed: r.Proposed,
	}
	if u.Same = r.ApprovedHash == next.ApprovedHash && bytes.Equal(r.Approved, next.Approved); !u.Same {
		u.ApprovedHash, u.Approved = r.ApprovedHash, r.Approved
	}
	return u
}

// decide returns next, the result of a decision about r, with the actor and an [Undo]. If the
// record has no room for the Undo, it has none, and the decision cannot be undone.
func decide(r, next Record, action string, author Author, now time.Time) (Record, Entry, error) {
	next, e, err := record(next, action, author, now)
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

// record sets the actor of a decision in r, and checks the result. Every decision also settles a
// recovered record, because the actor saw that record.
func record(r Record, action string, author Author, now time.Time) (Record, Entry, error) {
	if author.Actor == "" {
		return Record{}, Entry{}, fmt.Errorf("%s %q: no actor is named", action, r.ID())
	}
	author.Tell = author.Tell && author.Note != ""
	r.State, r.Loss, r.Undo = r.derive(), nil, nil
	r.By, r.At, r.Note, r.Tell = author.Actor, stamp(now), author.Note, author.Tell
	r.DecidedAt = later(now, r.DecidedAt)
	if err := r.Check(); err != nil {
		return Record{}, Entry{}, fmt.Errorf("%s: %w", action, err)
	}
	return r, *r.entry(action, author, now), nil
}
