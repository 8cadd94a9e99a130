package boot

import (
	"context"
	"errors"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/deed"
)

// audited are approvals of which the audit's log has what is decided.
type audited struct {
	catalog.Approvals
	writes approval.Store
}

// Put implements [approval.Store].
func (a audited) Put(ctx context.Context, r approval.Record, e *approval.Entry) (approval.Record, error) {
	return a.writes.Put(ctx, r, e)
}

// PutAll implements [approval.Batcher], if the store is one.
func (a audited) PutAll(ctx context.Context, all []approval.Write) ([]approval.Written, error) {
	b, ok := a.writes.(approval.Batcher)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return b.PutAll(ctx, all)
}

// auditDeeds has the audit's log told of what is decided about items, and the audit of the versions of
// the operator's files that a sync sees.
func (p *Program) auditDeeds() {
	if p.Stores.Approvals != nil {
		p.Stores.Approvals = audited{p.Stores.Approvals, deed.Audited(p.Stores.Approvals, p.Audit, p.Log)}
	}
	if p.Stores.Deeds != nil {
		p.files = &deed.Files{Deeds: p.Stores.Deeds, Audit: p.Audit, Now: p.now, Log: p.Log, Refused: p.tellRefused}
	}
}
