package admin_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A starter counts the syncs that it would start, and does not wait for them.
type starter struct{ started int }

func (s *starter) Sync(context.Context) (catalog.Report, error) {
	s.started++
	return catalog.Report{}, decide.ErrStarted
}

func (s *starter) SyncServers(ctx context.Context, _ []string) (catalog.Report, error) {
	return s.Sync(ctx)
}

func TestSyncStarted(t *testing.T) {
	h := newFixture(t)
	s := &starter{}
	h.OpenWith(s)
	w := h.Send("/admin/sync", "{}")
	got := require.JSON[decide.SyncReport](t, w.Body)
	if w.Status != http.StatusAccepted || !got.Pending || got.StartedAt.IsZero() || s.started != 1 {
		t.Errorf("%d %s after %d starts, want 202 and pending after 1", w.Status, w.Body, s.started)
	}
}
