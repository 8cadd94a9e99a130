// Package approvaltest helps to test approvals. It has [Run], which checks the promises of every
// approval.Store, and [Mem], a working store in memory that fails on demand, before or after a
// write was kept, as networks do.
package approvaltest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Documents are the documents of a [Mem].
type Documents = documenttest.Store

// A Mem is an [approval.Store] and a [document.Store] in memory. The zero value is ready to use.
// Tests set hooks before the first use. Hooks run without the lock, so they may call the store, and
// several may run at the same time.
type Mem struct {
	Documents // its hooks are set by this name

	Now       func() time.Time                                           // nil: time.Now
	OnGet     func(ctx context.Context, id tool.ID) error                // before a read; its error is the result
	OnRecords func(ctx context.Context, server string) error             // before a read of a server's records
	OnChanges func(ctx context.Context, since time.Time) error           // before a read of the decisions
	OnPut     func(ctx context.Context, r approval.Record) (bool, error) // before a write; its error is the result, but with true the write is kept
	OnAudit   func(ctx context.Context, server string) error             // before a read of the audit

	Late *Mem // Peek returns its records; nil: its own records

	Page int // largest page of Changes; 0: one page

	mu      sync.Mutex
	records map[tool.ID]approval.Record
	audit   []approval.Entry
}

var (
	_ approval.Store = (*Mem)(nil)
	_ document.Store = (*Mem)(nil)
)

// Copy returns a store with the present content of m, as a backup of it would have, without hooks.
func (m *Mem) Copy() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Mem{Now: m.Now, records: maps.Clone(m.records), audit: slices.Clone(m.audit)}
	m.CopyTo(&c.Documents)
	return c
}

// Get implements [approval.Store].
func (m *Mem) Get(ctx context.Context, id tool.ID) (approval.Record, error) {
	if m.OnGet != nil {
		if err := m.OnGet(ctx, id); err != nil {
			return approval.Record{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return approval.Record{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[id]
	if !ok {
		return approval.Record{}, fmt.Errorf("get %q: %w", id, approval.ErrNotFound)
	}
	return clone(r), nil
}

// GetWith implements [approval.Store].
func (m *Mem) GetWith(ctx context.Context, id tool.ID, keys ...document.Key) (approval.Record, []document.Doc, error) {
	docs, err := m.Docs(ctx, keys...)
	if err != nil {
		return approval.Record{}, nil, err
	}
	r, err := m.Get(ctx, id)
	return r, docs, err
}

// Peek implements [approval.Store].
func (m *Mem) Peek(ctx context.Context, id tool.ID) (approval.Record, error) {
	if m.Late != nil {
		return m.Late.Get(ctx, id)
	}
	return m.Get(ctx, id)
}

// Records implements [approval.Store].
func (m *Mem) Records(ctx context.Context, server string) ([]approval.Record, error) {
	if m.OnRecords != nil {
		if err := m.OnRecords(ctx, server); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []approval.Record
	for id, r := range m.records {
		if id.Server == server {
			all = append(all, clone(r))
		}
	}
	slices.SortFunc(all, func(a, b approval.Record) int { return a.ID().Compare(b.ID()) })
	return all, nil
}

// RecordsIfChanged implements [approval.Store]. It also calls OnRecords.
func (m *Mem) RecordsIfChanged(ctx context.Context, server, mark string) ([]approval.Record, string, error) {
	all, err := m.Records(ctx, server)
	if err != nil {
		return nil, "", err
	}
	var made approval.ETagHash
	for _, r := range all {
		made.Add(r.ID().Key(), strconv.FormatInt(r.Rev, 10)+" "+r.UpdatedAt.UTC().Format(time.RFC3339Nano))
	}
	now := made.ETag(server)
	if mark == now {
		return nil, "", approval.ErrUnchanged
	}
	return all, now, nil
}

// Changes implements [approval.Store].
func (m *Mem) Changes(ctx context.Context, since time.Time, after string) ([]approval.Decision, string, error) {
	if m.OnChanges != nil {
		if err := m.OnChanges(ctx, since); err != nil {
			return nil, "", err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var decided []approval.Decision
	for _, r := range m.records {
		if !r.DecidedAt.IsZero() && !r.DecidedAt.Before(since) {
			decided = append(decided, r.Decision())
		}
	}
	slices.SortFunc(decided, func(a, b approval.Decision) int {
		return cmp.Or(a.DecidedAt.Compare(b.DecidedAt), strings.Compare(a.ID.String(), b.ID.String()))
	})
	from := 0
	if after != "" {
		var err error
		if from, err = strconv.Atoi(after); err != nil || from < 0 || from > len(decided) {
			return nil, "", fmt.Errorf("changes of approvals: no page after %q", after)
		}
	}
	if decided = decided[from:]; m.Page > 0 && len(decided) > m.Page {
		return decided[:m.Page], strconv.Itoa(from + m.Page), nil
	}
	return decided, "", nil
}

// AllChanges returns every page of [approval.Store.Changes].
func AllChanges(ctx context.Context, s approval.Store, since time.Time) ([]approval.Decision, error) {
	var all []approval.Decision
	for after := ""; ; {
		page, next, err := s.Changes(ctx, since, after)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if after = next; after == "" {
			return all, nil
		}
	}
}

// Put implements [approval.Store].
func (m *Mem) Put(ctx context.Context, r approval.Record, e *approval.Entry) (approval.Record, error) {
	if m.OnPut != nil {
		if kept, err := m.OnPut(ctx, clone(r)); err != nil {
			if kept {
				_, _ = m.put(ctx, r, e) // the caller gets the hook's error, even if the write was kept
			}
			return approval.Record{}, err
		}
	}
	return m.put(ctx, r, e)
}

func (m *Mem) put(ctx context.Context, r approval.Record, e *approval.Entry) (approval.Record, error) {
	if err := cmp.Or(ctx.Err(), approval.CheckPut(r, e)); err != nil {
		return approval.Record{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records[r.ID()].Rev != r.Rev {
		return approval.Record{}, fmt.Errorf("put %q at rev %d: %w", r.ID(), r.Rev, approval.ErrConflict)
	}
	now := time.Now
	if m.Now != nil {
		now = m.Now
	}
	r = clone(r.Next(now()))
	if m.records == nil {
		m.records = map[tool.ID]approval.Record{}
	}
	m.records[r.ID()] = r
	if e != nil {
		m.audit = append(m.audit, r.Line(*e))
	}
	return clone(r), nil
}

// Audit implements [approval.Store].
func (m *Mem) Audit(ctx context.Context, server string, after approval.Cursor, limit int) ([]approval.Entry, error) {
	if m.OnAudit != nil {
		if err := m.OnAudit(ctx, server); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var lines []approval.Entry
	for _, e := range m.audit {
		if e.Server == server && after.Before(e.Cursor()) {
			lines = append(lines, e)
		}
	}
	slices.SortFunc(lines, func(x, y approval.Entry) int {
		if x.Cursor().Before(y.Cursor()) {
			return -1
		}
		return 1
	})
	return lines[:min(max(limit, 0), len(lines))], nil
}

// clone copies everything in r that its caller may overwrite.
func clone(r approval.Record) approval.Record {
	r.Approved = bytes.Clone(r.Approved)
	r.Current = bytes.Clone(r.Current)
	r.Unknown = maps.Clone(r.Unknown)
	r.Blocked, r.ApprovedBefore = slices.Clone(r.Blocked), slices.Clone(r.ApprovedBefore)
	r.Proposed = cloneProposal(r.Proposed)
	if r.Undo != nil {
		u := *r.Undo
		u.Proposed = cloneProposal(u.Proposed)
		u.Approved = bytes.Clone(u.Approved)
		u.Blocked, u.ApprovedBefore = slices.Clone(u.Blocked), slices.Clone(u.ApprovedBefore)
		r.Undo = &u
	}
	return r
}

func cloneProposal(p *approval.Proposal) *approval.Proposal {
	if p == nil {
		return nil
	}
	q := *p
	return &q
}
