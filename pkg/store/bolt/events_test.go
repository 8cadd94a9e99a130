package bolt_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit/audittest"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestDeeds(t *testing.T) {
	audittest.Run(t, func(t *testing.T) audit.Events {
		return open(t, filepath.Join(t.TempDir(), "approvals.db"), nil).Events()
	})
}

func TestKeepDeeds(t *testing.T) {
	const day = 24 * time.Hour
	clock := audittest.Start
	path := filepath.Join(t.TempDir(), "approvals.db")
	o := &store.Options{Now: func() time.Time { return clock }, KeepAudit: 3 * day}
	s, err := bolt.Open(path, o)
	require.OK(t, err)
	want := func(n int) {
		t.Helper()
		if all := audittest.All(t, s.Events(), audit.Filter{}, 50); len(all) != n {
			t.Errorf("on %s there are %d events, want %d", clock.Format("01-02"), len(all), n)
		}
	}
	for range 5 {
		clock = clock.Add(day)
		l := audit.Line{V: 1, Time: clock, Kind: audit.KindEvent, Action: audit.ActionLogin}
		require.OK(t, s.Events().PutEvent(t.Context(), l))
	}
	want(4) // one event is exactly three days old
	_, err = s.Events().PutChange(t.Context(), audit.Line{Time: clock, Kind: audit.KindEvent, Action: audit.ActionConfigTaken, Subject: "file:a"}, "1")
	require.OK(t, err)
	clock = clock.Add(10 * day)
	require.OK(t, s.Close())
	s, err = bolt.Open(path, o)
	require.OK(t, err)
	want(0)
	changed, err := s.Events().PutChange(t.Context(), audit.Line{Time: clock, Kind: audit.KindEvent, Action: audit.ActionConfigTaken, Subject: "file:a"}, "1")
	if err != nil || changed {
		t.Errorf("PutChange = %v, %v; want the state to stay without its line", changed, err)
	}
	require.OK(t, s.Close())
}
