package admin_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/admin"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

// A starter starts syncs and does not wait.
type starter struct{ started int }

func (s *starter) Sync(context.Context) (catalog.Report, error) {
	s.started++
	return catalog.Report{}, admin.ErrStarted
}

func TestSyncThatRunsElsewhereIsAccepted(t *testing.T) {
	h := newHouse(t)
	s := &starter{}
	h.handler = admin.New(h.states, h.approvals, s, &h.options)
	w := h.send("/admin/sync", "{}")
	var got admin.SyncReport
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusAccepted || !got.Pending || got.StartedAt.IsZero() || s.started != 1 {
		t.Errorf("%d %s after %d starts, want 202 and pending after 1", w.Code, w.Body, s.started)
	}
}
