package boot

import (
	"context"
	"errors"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/auditevent"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
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

// auditEvents has the audit's log told of what is decided about items, and the audit of the
// versions of the operator's files that a sync sees.
func (p *Program) auditEvents() {
	if p.Stores.Approvals != nil {
		p.Stores.Approvals = audited{p.Stores.Approvals, auditevent.Audited(p.Stores.Approvals, p.Audit, p.Log)}
	}
	if p.Stores.Events != nil {
		p.files = &auditevent.Files{Events: p.Stores.Events, Audit: p.Audit, Now: p.now, Log: p.Log, Refused: p.notifyRefused}
	}
}
