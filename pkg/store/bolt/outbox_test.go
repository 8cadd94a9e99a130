package bolt_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/notify"
	"github.com/portcullis-mcp/portcullis/pkg/notify/notifytest"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestOutbox(t *testing.T) {
	notifytest.Run(t, func(t *testing.T, now func() time.Time) notify.Outbox {
		return open(t, filepath.Join(t.TempDir(), "approvals.db"), now).Outbox()
	})
}

// What was put before the program ended is there after.
func TestOutboxAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "approvals.db")
	s, err := bolt.Open(path, nil)
	require.OK(t, err)
	require.OK(t, s.Outbox().Put(t.Context(), notifytest.Sample(1)))
	require.OK(t, s.Close())
	again := open(t, path, nil).Outbox()
	list, err := again.Pending(t.Context())
	require.OK(t, err)
	if len(list) != 1 || list[0].Event.ID != "event-1" {
		t.Errorf("Pending = %+v", list)
	}
	require.OK(t, again.Put(t.Context(), notifytest.Sample(1)))
	if list, err := again.Pending(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("put again: %+v, %v", list, err)
	}
}
