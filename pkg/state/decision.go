package state

import (
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A decision is what people decided about one tool, as facts, and which text
// of it may be shown while it is locked.
type decision struct {
	userDisabled lock.Fact
	approved     lock.Fact
	current      bool            // the catalog's definition may be shown
	last         json.RawMessage // else the definition last approved, if there is one
}

// decide returns the decision about every tool, by number. If unknown is true, nothing is
// known of what people decided.
func decide(inv *inventory, since *approval.Decisions, unknown bool) []decision {
	out := make([]decision, len(inv.rows))
	for i, r := range inv.rows {
		if r.server < 0 {
			continue
		}
		t, server := inv.snap.Tool(i), inv.cfg.Servers[r.server]
		d, off := &out[i], approval.Mode(server.Approval) == approval.Off
		if unknown {
			d.current = off
			continue
		}
		record := since.Record(t.ID, t.Approval)
		d.userDisabled, d.approved = factsOf(record, server, t.Definition.Hash)
		d.current = off
		if record != nil { // what somebody blocked is never shown
			d.current = record.ApprovedHash == t.Definition.Hash || off && !record.IsBlocked(t.Definition.Hash)
		}
		if !d.current && record != nil && record.ApprovedHash != "" && t.Approval != nil && record.ApprovedHash == t.Approval.ApprovedHash {
			d.last = t.ApprovedRaw // the catalog has the text of this approval alone
		}
	}
	return out
}

// factsAt returns what is decided about a tool, by its record in the store (nil: there is
// none) and by what is known of it. If the store lost what is known, or was set back to
// before it, the stricter of the two holds.
func factsAt(stored, known *approval.Record, server config.Server, hash tool.Hash) (userDisabled, approved lock.Fact) {
	userDisabled, approved = factsOf(stored, server, hash)
	if !approval.IsLost(stored, known) {
		return userDisabled, approved
	}
	wasDisabled, wasApproved := factsOf(known, server, hash)
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
func factsOf(record *approval.Record, server config.Server, hash tool.Hash) (userDisabled, approved lock.Fact) {
	mode := approval.Mode(server.Approval)
	userDisabled, approved = approval.Facts(record, mode, hash)
	if mode != approval.Off && record != nil && record.URL != "" && !approval.SameServer(record.URL, server.URL) {
		approved = lock.No
	}
	return userDisabled, approved
}

// said returns what the person who decided last lets agents know about a lock that people can take
// away. What was said about another server's tool is not passed on.
func said(record *approval.Record, server config.Server, hash tool.Hash, s lock.Status) string {
	switch {
	case record == nil || s != lock.DisabledByUser && s != lock.PendingApproval:
		return ""
	case record.URL != "" && !approval.SameServer(record.URL, server.URL):
		return ""
	}
	return record.Told(hash)
}
