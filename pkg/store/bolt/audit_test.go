package bolt_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestKeepAudit(t *testing.T) {
	const day = 24 * time.Hour
	clock := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "approvals.db")
	openFor := func(keep time.Duration) *bolt.Store {
		t.Helper()
		s, err := bolt.Open(path, &store.Options{Now: func() time.Time { return clock }, KeepAudit: keep})
		require.OK(t, err)
		return s
	}
	shut := func(s *bolt.Store) {
		t.Helper()
		require.OK(t, s.Close())
	}
	note := func(s *bolt.Store, server string) {
		t.Helper()
		r := approval.Record{Server: server, Tool: "t" + clock.Format("02"), State: approval.Pending}
		if _, err := s.Put(t.Context(), r, &approval.Entry{Server: server, Tool: r.Tool, Actor: "ada", Action: "observe", At: clock}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(s *bolt.Store, server string, tools ...string) {
		t.Helper()
		lines, err := s.Audit(t.Context(), server, approval.Cursor{}, 100)
		require.OK(t, err)
		var got []string
		for _, e := range lines {
			got = append(got, e.Tool)
		}
		if d := cmp.Diff(tools, got); d != "" {
			t.Errorf("%s on %s: lines (-want +got):\n%s", server, clock.Format("01-02"), d)
		}
	}

	s := openFor(0)
	for range 5 { // days 1 to 5
		note(s, "a")
		note(s, "b")
		clock = clock.Add(day)
	}
	want(s, "a", "t05", "t04", "t03", "t02", "t01")
	shut(s)

	s = openFor(3 * day) // opened on day 6, so Open removes lines that are older than day 3
	want(s, "a", "t05", "t04", "t03")
	want(s, "b", "t05", "t04", "t03")
	clock = clock.Add(day)
	note(s, "a") // on day 7, a write for a removes old lines of a, but not of b
	want(s, "a", "t07", "t05", "t04")
	want(s, "b", "t05", "t04", "t03")
	shut(s)

	clock = clock.Add(10 * day)
	s = openFor(0)
	want(s, "a", "t07", "t05", "t04")
	for n := range 5 {
		if _, err := s.Get(t.Context(), approval.Record{Server: "a", Tool: fmt.Sprintf("t%02d", n+1)}.ID()); err != nil {
			t.Errorf("a record was removed together with its audit line: %v", err)
		}
	}
	shut(s)
}
