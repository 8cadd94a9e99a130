package catalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// unchanged reports whether a catalog built now would equal the last one: the same servers with the
// same tools and records, and the same words of the operator. One that this process has not built is
// built, since another version of the program may have made it.
func (r *run) unchanged() bool {
	if r.base == nil || r.base.index == nil || r.base.sha256 != r.built || !r.words.Equal(r.config.Value.Words) || len(r.base.servers) != len(r.lists) {
		return false
	}
	return !slices.ContainsFunc(r.lists, func(l *list) bool { return !l.same })
}

// sameRecords reports whether base has the server as enabled, and the records of its items as they are.
func (u *unit) sameRecords(base *Snapshot, l *list) bool {
	s, ok := base.Server(l.server.Name)
	if !ok || s.Enabled != l.server.Enabled {
		return false
	}
	for n := range s.Numbers() {
		if !base.recorded(n, u.records[base.ID(n)]) {
			return false
		}
	}
	return true
}

// sameLists reports whether base has the items that the server lists, and no others. Definitions are
// equal if their hashes are: which of two spellings the catalog has makes no difference.
func (u *unit) sameLists(base *Snapshot, l *list) bool {
	s, ok := base.Server(l.server.Name)
	if !ok || l.loaded && s.Tools+s.Items != len(l.tools)+l.unread(base, s) {
		return false
	}
	for _, t := range l.tools {
		n, ok := base.Find(t.Definition.ID(s.Name))
		if !ok || !base.same(n, t.Definition) {
			return false
		}
	}
	return true
}

// unread returns how many items of s the catalog has from lists of l that could not be read.
func (l *list) unread(base *Snapshot, s Server) (n int) {
	if len(l.outcome.Unread) == 0 {
		return 0
	}
	for i := range s.Numbers() {
		if !l.outcome.Read(base.Tool(i).Definition) {
			n++
		}
	}
	return n
}

// same reports whether d is the definition of item i, whatever its spelling. Of a resource the hash
// does not cover all that clients read: its size and when it was modified count here as well.
func (s *Snapshot) same(i int, d tool.Definition) bool {
	part, row := s.row(i)
	if part.string(row[atHash:]) != string(d.Hash) {
		return false
	}
	if held := part.bytes(row[atRaw:]); d.Kind == tool.Resource && !bytes.Equal(held, d.Raw) {
		before, err := tool.Canonical(held)
		now, bad := tool.Canonical(d.Raw)
		return err == nil && bad == nil && bytes.Equal(before, now)
	}
	return true
}

// recorded reports whether the catalog has this record of tool i; nil: none. Each write of a
// record gives it another revision.
func (s *Snapshot) recorded(i int, held *approval.Record) bool {
	_, row := s.row(i)
	if has := binary.LittleEndian.Uint32(row[atFlags:])&flagRecord != 0; !has || held == nil {
		return !has && held == nil
	}
	return int64(binary.LittleEndian.Uint64(row[atRev:])) == held.Rev && readTime(row[atUpdatedAt:]).Equal(held.UpdatedAt)
}

// next returns the catalog as it should be now.
func (r *run) next(ctx context.Context) (*Snapshot, error) {
	if r.report.Built = !r.unchanged(); !r.report.Built {
		return r.base, nil
	}
	return Rebuild(r.base, r.input(ctx))
}

// Catalog returns the catalog as the last sync left it, for a reader in the same process, so
// that it need not hold another copy; nil: none has ended yet.
func (s *Syncer) Catalog() *Snapshot { return s.latest.Load() }

// Share lets the Syncer continue with the reader's copy if both have the same catalog. While a sync
// is running it does nothing.
func (s *Syncer) Share(theirs *Snapshot) {
	select {
	case s.slot <- struct{}{}:
		defer func() { <-s.slot }()
	default:
		return
	}
	if s.snap != nil && theirs != nil && s.snap.sha256 == theirs.sha256 {
		s.snap = theirs
		s.latest.Store(theirs)
	}
}
