package state

import (
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A decision is what people decided about one item, as facts, and which text
// of it may be shown while it is locked.
type decision struct {
	userDisabled lock.Fact
	approved     lock.Fact
	current      bool            // the catalog's definition may be shown
	last         json.RawMessage // else the definition last approved, if there is one
}

// A subject is what a record is held against: an item as it is configured and listed now.
type subject struct {
	server *config.Server
	mode   approval.Mode
	hash   tool.Hash
	wait   bool // of a severe definition no approval counts but a person's of that very one
	severe bool // and this one is, or may be
	nested bool // too deeply: no approval, no grant and no mode makes it callable
}

// subject returns what the record of t, the configured item i, is held against. A catalog that does not
// know its findings may have severe ones everywhere.
func (inv *inventory) subject(i int, t catalog.Reviewed) subject {
	wait := inv.cfg.Review.Findings == "wait"
	server := &inv.cfg.Servers[inv.rows[i].server]
	return subject{
		server: server, mode: approval.Mode(server.ApprovalOf(t.ID.Kind)), hash: t.Hash,
		wait: wait, severe: wait && (t.Severe || !inv.snap.FindingsKnown()), nested: t.Nested,
	}
}

// decide returns the decision about every item, by number. If unknown is true, nothing is
// known of what people decided.
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
	off := what.mode == approval.Off
	d.current = off && !what.severe && !what.nested
	if unknown {
		return d
	}
	record := since.Record(t.ID, t.Approval)
	d.userDisabled, d.approved = factsOf(record, what)
	if record == nil {
		return d
	}
	endorsed := record.Endorsement().Hash
	approved := record.ApprovedHash == what.hash || off && !record.IsBlocked(what.hash) // what somebody blocked is never shown
	d.current = approved && !what.nested && (!what.severe || endorsed == what.hash)
	switch {
	case d.current, record.ApprovedHash == "", t.Approval == nil, record.ApprovedHash != t.Approval.ApprovedHash:
	case what.wait && endorsed != record.ApprovedHash: // its findings are not known
	default:
		d.last = t.ApprovedRaw // the catalog has the text of this approval alone
	}
	return d
}

// factsAt returns what is decided about a tool, by its record in the store (nil: there is
// none) and by what is known of it. If the store lost what is known, or was set back to
// before it, the stricter of the two holds.
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

// stricter returns strict if one of two facts is it, else [lock.Unknown] if one of them is.
func stricter(a, b, strict lock.Fact) lock.Fact {
	switch {
	case a == strict || b == strict:
		return strict
	case a == lock.Unknown || b == lock.Unknown:
		return lock.Unknown
	}
	return a
}

// factsOf is [approval.Facts] for a tool of the server as it is configured now.
// What was approved at another URL was said by another server: it does not
// count from the moment the config names the new one, not only from the next sync.
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

// noteOf returns what the person who decided last lets agents know about a lock that people can
// take away. What was said about another server's tool is not passed on.
func noteOf(record *approval.Record, what subject, s lock.Status) string {
	switch {
	case record == nil || !s.UserCanLift():
		return ""
	case record.URL != "" && !approval.SameServer(record.URL, what.server.URL):
		return ""
	}
	return record.Told(what.hash)
}
