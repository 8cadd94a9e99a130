// Package deed writes lines of the audit about what others decide: what becomes of tools, prompts
// and resources, beside the audit that their store keeps, and which versions of the operator's files
// come into use.
package deed

import (
	"context"
	"errors"
	"log/slog"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/audit"
)

// Of returns an entry of the audit of items as a line. Its time is that by which the store sorts it,
// unless an earlier program counted its lines.
func Of(e approval.Entry) audit.Line {
	at := e.Written
	if at.Year() < 2000 {
		at = e.At
	}
	return audit.Line{
		V: audit.Version, Time: at.UTC(), Kind: audit.KindDeed, Actor: e.Actor, Action: e.Action,
		Tool: e.ID().String(), Hash: e.Hash, From: e.From, Note: e.Note, Source: e.Source,
	}
}

// Audited returns store, and writes to out what is decided in it: by people, and by syncs where it
// changes what agents may do. That a sync saw an item for the first time, which waits then, is in
// the store's audit alone.
func Audited(store approval.Store, out *audit.Log, log *slog.Logger) approval.Store {
	return audited{store, out, log}
}

type audited struct {
	approval.Store
	out *audit.Log
	log *slog.Logger
}

// Put implements [approval.Store]. What the store keeps stands, also if its line cannot be written.
func (a audited) Put(ctx context.Context, r approval.Record, e *approval.Entry) (approval.Record, error) {
	next, err := a.Store.Put(ctx, r, e)
	if err == nil {
		a.tell(ctx, next, e)
	}
	return next, err
}

// PutAll implements [approval.Batcher], if the store is one.
func (a audited) PutAll(ctx context.Context, all []approval.Write) ([]approval.Written, error) {
	b, ok := a.Store.(approval.Batcher)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	out, err := b.PutAll(ctx, all)
	for i, w := range out {
		if w.Err == nil {
			a.tell(ctx, w.Record, all[i].Entry)
		}
	}
	return out, err
}

// tell writes the line of a decision that was stored.
func (a audited) tell(ctx context.Context, next approval.Record, e *approval.Entry) {
	if e == nil || e.Action == approval.ActionObserve {
		return
	}
	if failed := a.out.Write(context.WithoutCancel(ctx), Of(next.Line(*e))); failed != nil {
		a.log.LogAttrs(ctx, slog.LevelError, "a decision is not among the lines of calls", slog.String("action", e.Action), slog.Any("item", e.ID()), slog.Any("error", failed))
	}
}
