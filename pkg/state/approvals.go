package state

import (
	"encoding/json"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// lag is how late a distributed index may show a record.
const lag = 10 * time.Second

// An overlay is every approval record newer than the catalog's. It is
// immutable: apply and rebase return another one.
type overlay struct {
	from    time.Time // it is complete for records with UpdatedAt >= from
	newest  time.Time // newest UpdatedAt seen
	records map[tool.ID]approval.Record
}

// since is where the next read begins.
func (o *overlay) since() time.Time {
	if o.newest.IsZero() {
		return time.Time{}
	}
	return o.newest.Add(-lag)
}

// apply returns the overlay with records in it; itself if none was new. A
// record that is held at the same or a later revision changes nothing.
func (o *overlay) apply(records []approval.Record) *overlay {
	next := *o
	copied := false
	for _, r := range records {
		if r.UpdatedAt.After(next.newest) {
			next.newest = r.UpdatedAt
		}
		if held, ok := next.records[r.ID()]; ok && held.Rev >= r.Rev {
			continue
		}
		if !copied {
			next.records = make(map[tool.ID]approval.Record, len(o.records)+len(records))
			for id, held := range o.records {
				next.records[id] = held
			}
			copied = true
		}
		next.records[r.ID()] = r
	}
	if !copied && next.newest.Equal(o.newest) {
		return o
	}
	return &next
}

// rebase returns the overlay for a new catalog: records that the catalog has
// are dropped. A catalog older than the overlay starts it again.
func (o *overlay) rebase(snap *catalog.Snapshot) *overlay {
	feed := snap.Feed()
	if o == nil || feed.Before(o.from) {
		return &overlay{from: feed, newest: feed}
	}
	next := &overlay{from: o.from, newest: o.newest, records: map[tool.ID]approval.Record{}}
	if feed.After(next.newest) {
		next.newest = feed
	}
	for id, r := range o.records {
		i, ok := snap.Find(id)
		if !ok && r.UpdatedAt.Before(feed.Add(-lag)) {
			continue // the catalog has no such tool; if one comes, a later catalog brings its record
		}
		if ok {
			if held := snap.Tool(i).Approval; held != nil && held.Rev >= r.Rev {
				continue
			}
		}
		next.records[id] = r
	}
	return next
}

// A standing is what people decided about one tool, as facts, and which text
// of it may be shown while it is locked.
type standing struct {
	userDisabled lock.Fact
	approved     lock.Fact
	current      bool            // the catalog's definition may be shown
	last         json.RawMessage // else the definition last approved, if there is one
}

// standings works out the standing of every tool. If expired is true nothing
// is known of people's decisions.
func standings(o *offer, over *overlay, expired bool) []standing {
	out := make([]standing, len(o.rows))
	for _, i := range o.numbers {
		t := o.snap.Tool(i)
		server := o.cfg.Servers[o.rows[i].server]
		if expired {
			out[i] = standing{current: approval.Mode(server.Approval) == approval.Off}
			continue
		}
		record, last := t.Approval, t.ApprovedRaw
		if r, ok := over.records[t.ID]; ok && (record == nil || r.Rev > record.Rev) {
			record, last = &r, r.Approved
		}
		out[i] = newStanding(record, last, server, t.Hash)
	}
	return out
}

// newStanding judges one record. last is the definition last approved, used
// only if it is not the one with this hash.
func newStanding(record *approval.Record, last json.RawMessage, server config.Server, hash tool.Hash) standing {
	var s standing
	s.userDisabled, s.approved = decided(record, server, hash)
	switch {
	case approval.Mode(server.Approval) == approval.Off, record != nil && record.ApprovedHash == hash:
		s.current = true
	case record != nil && record.ApprovedHash != "":
		s.last = last
	}
	return s
}

// decided is [approval.Facts] for a tool of the server as it is configured now.
// What was approved at another URL was said by another server: it does not
// count from the moment the config names the new one, not only from the next sync.
func decided(record *approval.Record, server config.Server, hash tool.Hash) (userDisabled, approved lock.Fact) {
	mode := approval.Mode(server.Approval)
	userDisabled, approved = approval.Facts(record, mode, hash)
	if mode != approval.Off && record != nil && record.URL != "" && !approval.SameServer(record.URL, server.URL) {
		approved = lock.No
	}
	return userDisabled, approved
}
