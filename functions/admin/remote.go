package main

import (
	"context"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// A remote starts syncs in the sync function.
type remote struct{ function boot.SyncFunction }

// Sync starts a sync and does not wait for it.
func (r remote) Sync(ctx context.Context) (catalog.Report, error) {
	if err := r.function.Start(ctx, boot.SourceAdmin, ""); err != nil {
		return catalog.Report{}, err
	}
	return catalog.Report{}, decide.ErrStarted
}
