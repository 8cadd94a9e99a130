package catalog

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Record returns the approval record of item i, with the definitions that the catalog has; nil:
// there is no record.
func (s *Snapshot) Record(i int) *approval.Record {
	t := s.Tool(i)
	r := t.Approval
	if r == nil {
		return nil
	}
	if r.CurrentHash == t.Definition.Hash {
		r.Current = t.Definition.Raw
	}
	if r.Approved = t.ApprovedRaw; r.ApprovedHash == t.Definition.Hash {
		r.Approved = t.Definition.Raw
	}
	return r
}

// Witness returns the index of an item whose approval record callers read to find out whether the
// store was emptied or set back. This is the newest record that is cheap to read, or the smallest
// record if none is cheap. ok is false if the catalog has no record.
func (s *Snapshot) Witness() (witness int, ok bool) {
	var at time.Time
	least := 0
	for i := range s.Items() {
		part, row := s.row(i)
		if binary.LittleEndian.Uint32(row[atFlags:])&flagRecord == 0 {
			continue
		}
		// Sizes up to cheapRecord count as equal.
		size, t := max(part.recordSize(row), cheapRecord), readTime(row[atUpdatedAt:])
		if !ok || size < least || size == least && t.After(at) {
			witness, least, at, ok = i, size, t, true
		}
	}
	return witness, ok
}

// cheapRecord is the size of the largest record that DynamoDB reads for one read unit. recordRest
// is the usual size of a record without definitions and notes.
const (
	cheapRecord = 4 << 10
	recordRest  = 1200
)

// recordSize returns about how many bytes a store keeps of the record in row.
func (s *shard) recordSize(row []byte) int {
	long := func(at int) int {
		from, to := span(row[at:])
		return int(to - from)
	}
	size := recordRest + long(atRaw) + long(atApproved) + long(atNote) + long(atURL)
	if s.string(row[atApprovedHash:]) == s.string(row[atHash:]) {
		size += long(atRaw) // a store has it twice
	}
	return size
}

// IsLost reports whether the store lost the record of item i that the catalog has. stored is the
// store's record; nil: none.
func (s *Snapshot) IsLost(i int, stored *approval.Record) bool {
	_, row := s.row(i)
	if binary.LittleEndian.Uint32(row[atFlags:])&flagRecord == 0 {
		return false
	}
	known := approval.Record{Rev: int64(binary.LittleEndian.Uint64(row[atRev:])), UpdatedAt: readTime(row[atUpdatedAt:])}
	return approval.IsLost(stored, &known)
}

// restoredRecords counts the restored records of configured servers that still wait for a person.
func (r *run) restoredRecords() (n int) {
	for _, l := range r.servers {
		n += l.restored
	}
	return n
}

// findForgotten finds out whether both the store and the catalog lost the decisions about l's
// items. In this case the store has no record of the server, and the catalog cannot show whether
// there was a record. The server's lists do not count as first lists, and its records are marked
// until a person decides. This lasts until the server has listed its items and a person has decided
// about each of these records.
func (u *unit) findForgotten(ctx context.Context, l *serverRun) error {
	name := l.server.Name
	known := u.known[name].Forgotten
	if !known && (!u.damaged || u.baseOf(name) != nil) {
		return nil
	}
	if _, unknown, all := u.countLost(name); all > 0 {
		l.forgot = unknown > 0
	} else {
		// without a current.json, the first lists are unknown too
		l.forgot = known || u.prev.SHA256 == ""
		for _, kind := range kinds {
			for _, identity := range []string{l.identity, approval.Identity(l.server.URL)} {
				stored, err := u.hasBaseline(ctx, identity, kind)
				if stored || err != nil {
					l.forgot = false
					return err
				}
			}
			u.mu.Lock()
			l.forgot = l.forgot || u.taken[approval.BaselineKey(l.identity, kind)]
			u.mu.Unlock()
		}
	}
	if l.forgot {
		u.mu.Lock()
		defer u.mu.Unlock()
		for _, key := range (ServerState{Place: l.place}).baselines() {
			u.taken[key] = true
		}
	}
	return nil
}

// countLost counts the server's restored records that wait for a person, how many of these have an
// unknown decision, and all its records.
func (u *unit) countLost(server string) (lost, unknown, all int) {
	for id, held := range u.records {
		if id.Server != server {
			continue
		}
		all++
		if held.Loss != nil {
			lost++
		}
		if held.Loss != nil && held.Loss.Unknown {
			unknown++
		}
	}
	return lost, unknown, all
}

// forgotten returns the names of servers whose decisions are lost. It leaves out a disabled server
// that has listed nothing since the loss, because none of its tools can be called.
func (r *run) forgotten() (names []string) {
	for _, l := range r.servers {
		if l.forgot && (l.server.Enabled || l.restored > 0) {
			names = append(names, l.server.Name)
		}
	}
	return names
}

// fromRecords returns the definitions of a server from the approval records, if the server did not
// load all its lists. The result may include a tool that the server no longer lists, because
// records do not show this.
func (u *unit) fromRecords(l *serverRun) (tools []ToolInput) {
	if l.loaded && len(l.outcome.Unread) == 0 {
		return nil
	}
	for id, held := range u.records {
		if id.Server != l.server.Name || held.CurrentHash == "" || !approval.SameServer(held.URL, l.server.URL) {
			continue
		}
		if d, err := tool.ParseItem(id.Kind, held.Current); err == nil && d.ID(id.Server) == id {
			d.Hash = held.CurrentHash
			tools = append(tools, ToolInput{Definition: d})
		}
	}
	return tools
}

// rebuilt returns the names of enabled servers whose tools come from their approval records: the
// last catalog could not be used, and the servers have not loaded since.
func (r *run) rebuilt() []string {
	var names []string
	for _, l := range r.servers {
		if l.rebuilt {
			names = append(names, l.server.Name)
		}
	}
	return names
}

// Recover restores the record of item i, which the store lost, and returns the new record. stored
// is the store's record; nil: none.
func Recover(ctx context.Context, approvals approval.Store, s *Snapshot, i int, stored *approval.Record, now func() time.Time) (*approval.Record, error) {
	id, known := s.ID(i), s.Record(i)
	after, err := approval.Update(ctx, approvals, id, stored, func(stored *approval.Record) (*approval.Record, *approval.Entry, error) {
		if !approval.IsLost(stored, known) {
			return nil, nil, nil // another process restored it
		}
		next, entry := approval.Recover(stored, known, now())
		return &next, &entry, nil
	})
	if err != nil {
		return nil, fmt.Errorf("recover %q: %w", id, err)
	}
	return after, nil
}

// A Reconciler decides which of the two versions of a recovered record applies.
type Reconciler func(r approval.Record, actor string, now time.Time) (approval.Record, approval.Entry, error)

// RecoverAll restores every record that the store lost. It returns the restored records of the
// catalog's servers that still wait for a person, even if a sync restored them.
func RecoverAll(ctx context.Context, approvals approval.Store, s *Snapshot, now func() time.Time) (lost []*approval.Record, err error) {
	var mu sync.Mutex
	err = each(ctx, slices.Values(s.Servers()), func(ctx context.Context, server Server) error {
		records, err := approvals.Records(ctx, server.Name)
		if err != nil {
			return err
		}
		stored := make(map[tool.ID]*approval.Record, len(records))
		for _, r := range records {
			stored[r.ID()] = &r
		}
		for i := range server.Numbers() {
			if id := s.ID(i); s.IsLost(i, stored[id]) {
				if stored[id], err = Recover(ctx, approvals, s, i, stored[id], now); err != nil {
					return err
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for _, r := range stored {
			if r.Loss != nil {
				lost = append(lost, r)
			}
		}
		return nil
	})
	return lost, err
}

// Reconcile decides about every record that the store lost. Either the catalog's version applies
// ([approval.KeepRestored]), or the store's version ([approval.AcceptStore]). It returns these
// records in the order of their ids, including records that no sync has restored. After an error,
// some records may be reconciled.
func Reconcile(ctx context.Context, approvals approval.Store, s *Snapshot, how Reconciler, actor string, now func() time.Time) (settled []approval.Record, err error) {
	lost, err := RecoverAll(ctx, approvals, s, now)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	err = each(ctx, slices.Values(lost), func(ctx context.Context, r *approval.Record) error {
		after, err := reconcile(ctx, approvals, r, how, actor, now)
		if err != nil || after == nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		settled = append(settled, *after)
		return nil
	})
	slices.SortFunc(settled, func(a, b approval.Record) int { return a.ID().Compare(b.ID()) })
	return settled, err
}

// reconcile decides which version of one record applies. It returns nil if this was decided before.
func reconcile(ctx context.Context, approvals approval.Store, r *approval.Record, how Reconciler, actor string, now func() time.Time) (*approval.Record, error) {
	mine := false
	after, err := approval.Update(ctx, approvals, r.ID(), r, func(stored *approval.Record) (*approval.Record, *approval.Entry, error) {
		switch mine = stored != nil && stored.Loss != nil; {
		case stored == nil:
			return nil, nil, approval.ErrNotFound
		case !mine:
			return nil, nil, nil
		}
		next, entry, err := how(*stored, actor, now())
		return &next, &entry, err
	})
	if err != nil {
		return nil, fmt.Errorf("reconcile %q: %w", r.ID(), err)
	}
	if !mine {
		return nil, nil
	}
	return after, nil
}
