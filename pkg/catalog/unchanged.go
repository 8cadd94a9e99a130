package catalog

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// unchanged reports whether a new catalog would equal the last one: the same servers with the same
// tools and records, and the same words of the operator. If this process has not built the last
// catalog, another version of the program may have built it, so unchanged returns false.
func (r *run) unchanged() bool {
	if r.base == nil || r.base.index == nil || r.base.sha256 != r.built || !r.words.Equal(r.config.Value.Words) || len(r.base.servers) != len(r.servers) {
		return false
	}
	return !slices.ContainsFunc(r.servers, func(l *serverRun) bool { return !l.input.Same })
}

// hasRecords reports whether the catalog has exactly these records of the server's items.
func (s *Snapshot) hasRecords(server string, records map[tool.ID]*approval.Record) bool {
	of, _ := s.Server(server)
	for n := range of.Numbers() {
		if !s.recorded(n, records[s.ID(n)]) {
			return false
		}
	}
	return true
}

// lists reports whether the catalog has exactly these items of the server, and other items, whose
// number is unread.
// Definitions are equal if their hashes are equal; the spelling does not matter.
func (s *Snapshot) lists(server string, tools []ToolInput, unread int) bool {
	of, ok := s.Server(server)
	if !ok || of.Tools+of.Items != len(tools)+unread {
		return false
	}
	for _, t := range tools {
		n, ok := s.Find(t.Definition.ID(server))
		if !ok || !s.same(n, t.Definition) {
			return false
		}
	}
	return true
}

// unread returns how many items the catalog has from lists of l that could not be read.
func (l *serverRun) unread(base *Snapshot) (n int) {
	if len(l.outcome.Unread) == 0 {
		return 0
	}
	s, _ := base.Server(l.server.Name)
	for i := range s.Numbers() {
		if !l.outcome.Read(base.Tool(i).Definition) {
			n++
		}
	}
	return n
}

// same reports whether d is the definition of item i, in any spelling. The hash of a resource does
// not cover its size and modification time, which clients read, so same compares these too.
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

// recorded reports whether the catalog has this record of tool i; nil: no record. Each write of a
// record gives it another revision.
func (s *Snapshot) recorded(i int, held *approval.Record) bool {
	_, row := s.row(i)
	if has := binary.LittleEndian.Uint32(row[atFlags:])&flagRecord != 0; !has || held == nil {
		return !has && held == nil
	}
	return int64(binary.LittleEndian.Uint64(row[atRev:])) == held.Rev && readTime(row[atUpdatedAt:]).Equal(held.UpdatedAt)
}

// Catalog returns the catalog of the last sync, so that a reader in the same process needs no
// second copy; nil: no sync has ended yet.
func (s *Syncer) Catalog() *Snapshot { return s.latest.Load() }

// Share makes the Syncer use theirs, the copy of a reader, if both have the same catalog. It does
// nothing while a sync runs.
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
