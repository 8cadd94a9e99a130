package bolt_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// approved returns an approved record of a tool.
func approved(name string) approval.Record {
	hash := tool.Hash(fmt.Sprintf("%064x", len(name)))
	definition := []byte(`{"name":"` + name + `"}`)
	return approval.Record{Server: "s", Tool: name, State: approval.Approved, CurrentHash: hash, ApprovedHash: hash, Current: definition, Approved: definition, By: "ann", At: time.Now(), DecidedAt: time.Now()}
}

// putCopy copies a store into a file.
func putCopy(t testing.TB, s *bolt.Store) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.db")
	c, size, _, err := s.Copy(t.Context())
	require.OK(t, err)
	data, err := io.ReadAll(c)
	require.OK(t, err)
	require.OK(t, c.Close())
	if int64(len(data)) != size {
		t.Fatalf("the copy has %d bytes, but its size is given as %d", len(data), size)
	}
	require.OK(t, os.WriteFile(path, data, 0o400))
	return path
}

func TestCopyLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "approvals.db")
	require.OK(t, os.WriteFile(path+".copy-1", []byte("left by a killed program"), 0o600))
	s := open(t, path, nil)
	_, err := s.Put(t.Context(), approved("a"), nil)
	require.OK(t, err)
	putCopy(t, s)
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("files in the folder: %v, %v", entries, err)
	}
}

// putToken writes a token, and replaces a stored token with the same id.
func putToken(t *testing.T, s *bolt.Store, x token.Token) token.Token {
	t.Helper()
	rev := x.Rev
	x, data, err := x.Encode()
	require.OK(t, err)
	key := document.Key{Part: "TOKENS", ID: x.ID}
	require.OK(t, s.PutDocs(t.Context(), document.Doc{Key: key, Data: data, Rev: rev}))
	return x
}

// getToken returns a token, or the zero Token if it is absent.
func getToken(t *testing.T, s *bolt.Store, id string) (x token.Token) {
	t.Helper()
	docs, err := s.Docs(t.Context(), document.Key{Part: "TOKENS", ID: id})
	require.OK(t, err)
	if docs[0].Rev != 0 {
		x, err = token.Decode(docs[0].Data, docs[0].Mark)
		require.OK(t, err)
		if x.Rev != docs[0].Rev {
			t.Errorf("token %q has revision %d, its document %d", id, x.Rev, docs[0].Rev)
		}
	}
	return x
}

func TestRestoreBackupTokens(t *testing.T) {
	clock := time.Now()
	first := open(t, filepath.Join(t.TempDir(), "approvals.db"), nil)
	kept := putToken(t, first, sampleToken(1, clock))
	ended := putToken(t, first, sampleToken(2, clock))
	key := document.Key{Part: "TOKENS", ID: kept.ID}
	require.OK(t, first.TouchDoc(t.Context(), key, "2026-11-22T12:00:00Z"))
	path := putCopy(t, first)
	putToken(t, first, ended.Revoke("ann", clock))
	later := putToken(t, first, sampleToken(3, clock))
	live := func(s *bolt.Store, id string) bool { return getToken(t, s, id).Live(clock) }
	_, err := first.RestoreBackup(t.Context(), path, bolt.RestoreOptions{Actor: "kim"})
	require.OK(t, err)
	if !live(first, kept.ID) || live(first, ended.ID) || !live(first, later.ID) {
		t.Error("a token of the store was changed")
	}
	for _, keep := range []bool{false, true} {
		lost := open(t, filepath.Join(t.TempDir(), "approvals.db"), nil)
		out, err := lost.RestoreBackup(t.Context(), path, bolt.RestoreOptions{Actor: "kim", KeepTokens: keep})
		require.OK(t, err)
		if live(lost, kept.ID) != keep || live(lost, ended.ID) != keep || out.Tokens != 2 || (out.Revoked == 2) == keep {
			t.Errorf("keep %v: %+v", keep, out)
		}
		used, never := getToken(t, lost, kept.ID).LastUsed, getToken(t, lost, ended.ID).LastUsed
		if used.Hour() != 12 || !never.IsZero() {
			t.Errorf("keep %v: last used %v and %v", keep, used, never)
		}
	}
}

func TestRestoreBackupOfUnknownRecords(t *testing.T) {
	first := open(t, filepath.Join(t.TempDir(), "approvals.db"), nil)
	for _, name := range []string{"known", "unknown"} {
		_, err := first.Put(t.Context(), approved(name), nil)
		require.OK(t, err)
	}
	path := putCopy(t, first)
	lost := open(t, filepath.Join(t.TempDir(), "approvals.db"), nil)
	out, err := lost.RestoreBackup(t.Context(), path, bolt.RestoreOptions{Known: func(id tool.ID) bool { return id.Name == "known" }})
	require.OK(t, err)
	if out.Records != 2 || len(out.Differ) != 1 || out.Differ[0].Name != "unknown" {
		t.Errorf("%+v", out)
	}
	known, err := lost.Get(t.Context(), tool.ID{Server: "s", Name: "known"})
	if err != nil || known.State != approval.Approved || known.Rev != 1 {
		t.Errorf("%+v, %v", known, err)
	}
	unknown, err := lost.Get(t.Context(), tool.ID{Server: "s", Name: "unknown"})
	if err != nil || unknown.State == approval.Approved || !unknown.Disabled || unknown.Loss == nil {
		t.Errorf("%+v, %v", unknown, err)
	}
	accepted, _, err := approval.AcceptStore(unknown, "kim", time.Now())
	if err != nil || accepted.State != approval.Approved || accepted.Disabled {
		t.Errorf("accepted: %+v, %v", accepted, err)
	}
	again, err := lost.RestoreBackup(t.Context(), path, bolt.RestoreOptions{})
	if err != nil || len(again.Differ) != 1 { // the store's record is newer than the copy
		t.Errorf("again: %+v, %v", again, err)
	}
}

func TestInspectRefuses(t *testing.T) {
	t.Parallel() // it waits for a lock
	other := filepath.Join(t.TempDir(), "other.db")
	db, err := bbolt.Open(other, 0o600, nil)
	require.OK(t, err)
	require.OK(t, db.Close())
	newer := filepath.Join(t.TempDir(), "newer.db")
	s, err := bolt.Open(newer, nil)
	require.OK(t, err)
	r := approved("a")
	r.Format = approval.Format + 1
	_, err = s.Put(t.Context(), r, nil)
	require.OK(t, err)
	require.OK(t, s.Close())
	for _, path := range []string{other, newer, t.TempDir()} {
		if _, err := bolt.Inspect(path); !errors.Is(err, bolt.ErrNoCopy) {
			t.Errorf("%s: %v", path, err)
		}
	}
	openFile := filepath.Join(t.TempDir(), "approvals.db")
	open(t, openFile, nil)
	if _, err := bolt.Inspect(openFile); !errors.Is(err, bolt.ErrHeld) {
		t.Errorf("Inspect of a file that a gateway has open: %v", err)
	}
}
