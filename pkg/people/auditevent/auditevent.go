// Package auditevent writes audit lines for decisions of other packages: about tools, prompts and
// resources (their store keeps its own audit too), and about versions of the operator's files.
// After a data loss, its [Restorer] applies the locking actions in these lines again.
package auditevent

import (
	"context"
	"errors"
	"log/slog"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// LineOf returns an entry of the items' audit as a line. The time of the line is e.Written, the
// time at which the store wrote the entry. Earlier programs stored a counter in e.Written. For
// their entries, LineOf uses e.At, the time of the action.
func LineOf(e approval.Entry) audit.Line {
	at := e.Written
	if at.Year() < 2000 {
		at = e.At
	}
	return audit.Line{
		V: audit.Version, Time: at.UTC(), Kind: audit.KindEvent, Actor: e.Actor, Action: e.Action,
		Tool: e.ID().String(), Hash: e.Hash, From: e.From, Note: e.Note, Source: e.Source, Shown: e.Shown,
	}
}

// Audited returns a store that also writes decisions to out: decisions of people, and decisions of
// syncs that change what agents may do. It does not write a line when a sync sees an item for the
// first time: the item then waits for approval, and only the store's own audit records it.
func Audited(store approval.Store, out *audit.Log, log *slog.Logger) approval.Store {
	return auditedStore{store, out, log}
}

type auditedStore struct {
	approval.Store
	out *audit.Log
	log *slog.Logger
}

// Put implements [approval.Store]. A stored record stays even if its line cannot be written.
func (a auditedStore) Put(ctx context.Context, r approval.Record, e *approval.Entry) (approval.Record, error) {
	next, err := a.Store.Put(ctx, r, e)
	if err == nil {
		a.writeLines(ctx, appendLine(nil, next, e))
	}
	return next, err
}

// PutAll implements [approval.Batcher], if the store does.
func (a auditedStore) PutAll(ctx context.Context, all []approval.Write) ([]approval.Written, error) {
	b, ok := a.Store.(approval.Batcher)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	out, err := b.PutAll(ctx, all)
	lines := make([]audit.Line, 0, len(all))
	for i, w := range out {
		if w.Err == nil {
			lines = appendLine(lines, w.Record, all[i].Entry)
		}
	}
	a.writeLines(ctx, lines)
	return out, err
}

// appendLine appends the line of a stored decision, if it has one.
func appendLine(lines []audit.Line, next approval.Record, e *approval.Entry) []audit.Line {
	if e == nil || e.Action == approval.ActionObserve {
		return lines
	}
	return append(lines, LineOf(next.Line(*e)))
}

// writeLines writes the lines of stored decisions.
func (a auditedStore) writeLines(ctx context.Context, lines []audit.Line) {
	if failed := a.out.WriteAll(context.WithoutCancel(ctx), lines); failed != nil {
		a.log.LogAttrs(ctx, slog.LevelError, "decisions not written to the lines of calls", slog.Int("decisions", len(lines)),
			slog.String("first", lines[0].Action), slog.String("item", lines[0].Tool), slog.Any("error", failed))
	}
}
