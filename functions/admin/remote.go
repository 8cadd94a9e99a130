package main

import (
	"context"

	bootaws "github.com/portcullis-mcp/portcullis/internal/boot/aws"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// A remote starts syncs in the sync function.
type remote struct{ function bootaws.SyncFunction }

// Sync starts a sync and does not wait for it.
func (r remote) Sync(ctx context.Context) (catalog.Report, error) {
	if err := r.function.Start(ctx, bootaws.SourceAdmin, ""); err != nil {
		return catalog.Report{}, err
	}
	return catalog.Report{}, decide.ErrStarted
}
