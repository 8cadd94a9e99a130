package bolt_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// holdEnv names a file. If it is set, the test binary keeps the file open instead of testing.
const holdEnv = "BOLT_TEST_HOLD"

func TestMain(m *testing.M) {
	path := os.Getenv(holdEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	if _, err := bolt.Open(path, &store.Options{Now: atOldNow}); err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("held\n")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent closes the pipe
}

func open(t *testing.T, path string, now func() time.Time) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, &store.Options{Now: now})
	require.OK(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	approvaltest.Run(t, func(t *testing.T) approval.Store {
		s := open(t, filepath.Join(t.TempDir(), "approvals.db"), nil)
		t.Cleanup(func() {
			if n := s.Failures(); n != 0 {
				t.Errorf("a store that works counts %d failures", n)
			}
		})
		return s
	})
}

func TestUpdatedAtWhateverTheClock(t *testing.T) {
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := open(t, filepath.Join(t.TempDir(), "approvals.db"), func() time.Time { return clock })
	last, err := s.Put(t.Context(), approval.Record{Server: "s", Tool: "t", State: approval.Pending}, nil)
	require.OK(t, err)
	for i, step := range []time.Duration{0, 0, -time.Hour, time.Second, -time.Second} {
		clock = clock.Add(step)
		next, e, err := approval.Disable(last, approval.Author{Actor: "ada"}, clock)
		if err == nil {
			next, err = s.Put(t.Context(), next, &e)
		}
		require.OK(t, err)
		if !next.UpdatedAt.After(last.UpdatedAt) || !next.DecidedAt.After(last.DecidedAt) {
			t.Errorf("decision %d: updated %v after %v, decided %v after %v", i, next.UpdatedAt, last.UpdatedAt, next.DecidedAt, last.DecidedAt)
		}
		last = next
		got, err := approvaltest.AllChanges(t.Context(), s, last.DecidedAt)
		require.OK(t, err)
		if d := cmp.Diff([]approval.Decision{last.Decision()}, got); d != "" {
			t.Errorf("Changes after decision %d (-want +got):\n%s", i, d)
		}
	}
}

func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "approvals.db")
	s, err := bolt.Open(path, nil)
	require.OK(t, err)
	want, err := s.Put(t.Context(), approval.Record{Server: "s", Tool: "t", State: approval.Pending}, nil)
	require.OK(t, err)
	require.OK(t, s.Close())
	got, err := open(t, path, nil).Get(t.Context(), want.ID())
	require.OK(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("after reopening (-want +got):\n%s", d)
	}
}

// An earlier program reads only the buckets of tools, and treats every entry in them as a tool.
func TestItemsApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "approvals.db")
	s := open(t, path, nil)
	for _, kind := range []tool.Kind{tool.Prompt, tool.Resource} {
		r := approval.Record{Server: "s", Tool: "t", Kind: kind, State: approval.Approved, DecidedAt: time.Now()}
		if _, err := s.Put(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
	}
	require.OK(t, s.Close())
	db, err := bbolt.Open(path, 0o600, nil)
	require.OK(t, err)
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		for name, want := range map[string]int{"records": 0, "decisions": 0, "item_records": 2, "item_decisions": 2} {
			if n := tx.Bucket([]byte(name)).Stats().KeyN; n != want {
				t.Errorf("%s has %d keys, want %d", name, n, want)
			}
		}
		return nil
	})
	require.OK(t, err)
}

func TestOpenLockedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "approvals.db")
	holder := exec.CommandContext(t.Context(), os.Args[0])
	holder.Env = append(os.Environ(), holdEnv+"="+path)
	in, err := holder.StdinPipe()
	require.OK(t, err)
	out, err := holder.StdoutPipe()
	require.OK(t, err)
	require.OK(t, holder.Start())
	if line := make([]byte, 5); mustRead(t, out, line) != "held\n" {
		t.Fatalf("the other process wrote %q", line)
	}
	if _, err := bolt.Open(path, &store.Options{LockWait: time.Millisecond}); err == nil || !strings.Contains(err.Error(), "another process holds") || !strings.Contains(err.Error(), path) {
		t.Errorf("Open = %v, want an error that names the file and says that another process holds it", err)
	}
	require.OK(t, errors.Join(in.Close(), holder.Wait()))
	open(t, path, nil)
}

func mustRead(t *testing.T, r interface{ Read([]byte) (int, error) }, b []byte) string {
	t.Helper()
	n, err := r.Read(b)
	require.OK(t, err)
	return string(b[:n])
}

func TestOpenForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "approvals.db")
	require.OK(t, os.WriteFile(path, []byte(strings.Repeat("no database", 10_000)), 0o600))
	if _, err := bolt.Open(path, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Open = %v, want an error that names the file", err)
	}
}
