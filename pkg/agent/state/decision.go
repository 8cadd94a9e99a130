package state

import (
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A decision contains the decisions of people about one item, and the text that may be shown while
// the item is locked.
type decision struct {
	userDisabled lock.Fact
	approved     lock.Fact
	current      bool            // the catalog's definition may be shown
	last         json.RawMessage // otherwise the last approved definition, if any
}

// A subject is the current state of an item in the config and in the server's list. Approval
// records are compared with it.
type subject struct {
	server *config.Server
	mode   approval.Mode
	hash   tool.Hash
	wait   bool // a severe definition needs its own approval by a person
	severe bool // this definition is severe, or may be
	nested bool // too deeply nested: no approval, grant or mode makes it callable
}

// subject returns the subject of the configured item i, to compare it with the record of t. If the
// catalog does not know the findings, the subject counts as severe.
func (inv *inventory) subject(i int, t catalog.Reviewed) subject {
	wait := inv.cfg.Review.Findings == "wait"
	server := &inv.cfg.Servers[inv.rows[i].server]
	return subject{
		server: server, mode: approval.Mode(server.ApprovalOf(t.ID.Kind)), hash: t.Hash,
		wait: wait, severe: wait && (t.Severe || !inv.snap.FindingsKnown()), nested: t.Nested,
	}
}

// decide returns the decisions about every item; the number of an item is the index. If unknown is
// true, the decisions of people are unknown.
func decide(inv *inventory, since *approval.Decisions, unknown bool) []decision {
	out := make([]decision, len(inv.rows))
	var room approval.Record
	for i := range inv.rows {
		if inv.rows[i].server >= 0 {
			t := inv.snap.Reviewed(i, inv.tools[i].ID, &room)
			out[i] = decideOne(t, inv.subject(i, t), since, unknown)
		}
	}
	return out
}

func decideOne(t catalog.Reviewed, what subject, since *approval.Decisions, unknown bool) (d decision) {
	isOff := what.mode == approval.Off
	d.current = isOff && !what.severe && !what.nested
	if unknown {
		return d
	}
	record := since.Record(t.ID, t.Approval)
	d.userDisabled, d.approved = factsOf(record, what)
	if record == nil {
		return d
	}
	endorsed := record.Endorsement().Hash
	approved := record.ApprovedHash == what.hash || isOff && !record.IsBlocked(what.hash) // a blocked definition is never shown
	d.current = approved && !what.nested && (!what.severe || endorsed == what.hash)
	switch {
	case d.current, record.ApprovedHash == "", t.Approval == nil, record.ApprovedHash != t.Approval.ApprovedHash:
	case what.wait && endorsed != record.ApprovedHash: // the findings of the last approved definition are unknown
	default:
		d.last = t.ApprovedRaw // the only approved text in the catalog is the text of this approval
	}
	return d
}

// factsAt returns the facts about a tool from two records: stored is its record in the store now,
// and known is its record when the state was loaded. Both may be nil. If the store has lost records
// or was restored to an older state, the stricter record applies.
func factsAt(stored, known *approval.Record, what subject) (userDisabled, approved lock.Fact) {
	userDisabled, approved = factsOf(stored, what)
	if !approval.IsLost(stored, known) {
		return userDisabled, approved
	}
	wasDisabled, wasApproved := factsOf(known, what)
	if stored == nil {
		return wasDisabled, wasApproved
	}
	return stricter(userDisabled, wasDisabled, lock.Yes), stricter(approved, wasApproved, lock.No)
}

// stricter returns strict if one of two facts is strict, or otherwise [lock.Unknown] if one of them
// is unknown.
func stricter(a, b, strict lock.Fact) lock.Fact {
	switch {
	case a == strict || b == strict:
		return strict
	case a == lock.Unknown || b == lock.Unknown:
		return lock.Unknown
	}
	return a
}

// factsOf returns [approval.Facts] for a tool of the server in the current config. An approval
// that a person gave while the server had another URL belongs to another server. So this approval
// stops counting as soon as the config has the new URL, even before the next sync.
func factsOf(record *approval.Record, what subject) (userDisabled, approved lock.Fact) {
	userDisabled, approved = approval.Facts(record, what.mode, what.hash)
	elsewhere := record != nil && record.URL != "" && !approval.SameServer(record.URL, what.server.URL)
	switch {
	case what.nested, elsewhere && what.mode != approval.Off:
		approved = lock.No
	case what.severe && approved == lock.Yes:
		approved = lock.FactOf(!elsewhere && record != nil && what.hash != "" && record.Endorsement().Hash == what.hash)
	}
	return userDisabled, approved
}

// noteOf returns the note of the person who decided last, or "" if people cannot end the lock. It
// returns no note about another server's tool.
func noteOf(record *approval.Record, what subject, s lock.Status) string {
	switch {
	case record == nil || !s.UserCanLift():
		return ""
	case record.URL != "" && !approval.SameServer(record.URL, what.server.URL):
		return ""
	}
	return record.LockNote(what.hash)
}
