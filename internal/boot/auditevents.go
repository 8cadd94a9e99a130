package boot

import (
	"context"
	"errors"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/auditevent"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
)

// auditedApprovals wraps approvals and adds each decision to the audit log.
type auditedApprovals struct {
	catalog.Approvals
	writes approval.Store
}

// Put implements [approval.Store].
func (a auditedApprovals) Put(ctx context.Context, r approval.Record,
	e *approval.Entry) (approval.Record, error) {
	return a.writes.Put(ctx, r, e)
}

// PutAll implements [approval.Batcher], if the store is one.
func (a auditedApprovals) PutAll(ctx context.Context,
	all []approval.Write) ([]approval.Written, error) {
	b, ok := a.writes.(approval.Batcher)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return b.PutAll(ctx, all)
}

// auditEvents makes the audit log record decisions about items. It also records the versions of the
// operator's files that a sync reads.
func (p *Program) auditEvents() {
	if p.Stores.Approvals != nil {
		p.Stores.Approvals = auditedApprovals{p.Stores.Approvals,
			auditevent.Audited(p.Stores.Approvals, p.Audit, p.Log)}
	}
	if p.Stores.Events != nil {
		p.files = &auditevent.Files{Events: p.Stores.Events, Audit: p.Audit, Now: p.now, Log: p.Log, Refused: p.notifyRefused}
	}
}
