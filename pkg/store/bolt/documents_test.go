package bolt_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestDocuments(t *testing.T) {
	documenttest.Run(t, func(t *testing.T, now func() time.Time) document.Store {
		return open(t, filepath.Join(t.TempDir(), "approvals.db"), now)
	})
}

// doc returns a document for a write.
func doc(part, id, data string) document.Doc {
	return document.Doc{Key: document.Key{Part: part, ID: id}, Data: []byte(data)}
}

// Open removes expired documents. A write also removes them, if the last removal was an hour ago.
func TestDocumentsAreSwept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "approvals.db")
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	s := open(t, path, func() time.Time { return now })
	put := func(id string, life time.Duration) {
		t.Helper()
		d := doc("LOGIN#SESSIONS", id, "{}")
		if life > 0 {
			d.Keep = now.Add(life)
		}
		require.OK(t, s.PutDocs(t.Context(), d))
	}
	wantIDs := func(step, want string) {
		t.Helper()
		require.OK(t, s.Close())
		got := ""
		require.OK(t, onBucket(path, "documents", func(b *bbolt.Bucket) error {
			return b.ForEach(func(k, _ []byte) error { got += string(k[len(k)-1:]); return nil })
		}))
		if got != want {
			t.Errorf("%s: the file has %q, want %q", step, got, want)
		}
		s = open(t, path, func() time.Time { return now })
	}
	put("1", time.Minute)
	put("2", 2*time.Hour)
	put("3", 0)
	now = now.Add(59 * time.Minute)
	put("4", time.Minute)
	wantIDs("59 minutes later", "1234")
	wantIDs("opened again", "234")
	now = now.Add(30 * time.Minute)
	put("5", time.Minute)
	wantIDs("half an hour after that", "2345") // the program started, and swept, 30 minutes ago
	now = now.Add(time.Minute)
	wantIDs("opened late", "235")
	now = now.Add(31 * time.Minute)
	wantIDs("after two hours", "23")
	put("6", 61*time.Minute)
	now = now.Add(time.Hour)
	put("7", time.Hour)
	now = now.Add(time.Hour)
	put("8", time.Hour)
	wantIDs("an hour after the last removal", "38")
}

// A document that cannot be read is an error, and never counts as absent. It hides no other
// document.
func TestDamagedDocuments(t *testing.T) {
	for name, damage := range map[string]func(data []byte) []byte{
		"another form":     func(b []byte) []byte { b[0]++; return b },
		"nothing":          func([]byte) []byte { return nil },
		"cut off":          func(b []byte) []byte { return b[:3] },
		"revision 0":       func(b []byte) []byte { b[1] = 0; return b },
		"a mark too long":  func(b []byte) []byte { b[4] = 0x7f; return b },
		"too many numbers": func([]byte) []byte { return []byte(strings.Repeat("\xff", 99)) },
		"endless numbers":  func([]byte) []byte { return []byte("\x01" + strings.Repeat("\xff", 99)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "approvals.db")
			s := open(t, path, nil)
			good, bad := doc("ASK#", "R-1", "a"), doc("ASK#", "R-2", "b")
			require.OK(t, s.PutDocs(t.Context(), good, bad))
			require.OK(t, s.Close())
			require.OK(t, onBucket(path, "documents", func(b *bbolt.Bucket) error {
				key := []byte("ASK#\x00R-2")
				return b.Put(key, damage(append([]byte{}, b.Get(key)...)))
			}))
			s = open(t, path, nil)
			_, docsErr := s.Docs(t.Context(), good.Key, bad.Key)
			_, _, withErr := s.GetWith(t.Context(), tool.ID{Server: "s", Name: "t"}, bad.Key)
			again := bad
			again.Data, again.Rev = nil, 1
			for call, err := range map[string]error{
				"Docs": docsErr, "GetWith": withErr,
				"PutDocs":              s.PutDocs(t.Context(), bad),
				"PutDocs without data": s.PutDocs(t.Context(), again),
				"TouchDoc":             s.TouchDoc(t.Context(), bad.Key, "m"),
			} {
				if !errors.Is(err, bolt.ErrUnreadable) || !strings.Contains(err.Error(), `"R-2"`) {
					t.Errorf("%s = %v, want an error that names the document", call, err)
				}
			}
			if docs, err := s.Docs(t.Context(), good.Key); err != nil || docs[0].Rev != 1 {
				t.Errorf("the other document = %+v, %v", docs, err)
			}
			docs, all, err := s.ListDocs(t.Context(), "ASK#")
			if err != nil || all || len(docs) != 1 || docs[0].ID != "R-1" {
				t.Errorf("ListDocs = %+v, all: %v, %v; want R-1, and all: false", docs, all, err)
			}
		})
	}
}

func TestPartWithZeroByte(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "approvals.db"), nil)
	require.OK(t, s.PutDocs(t.Context(), doc("a", "b\x00c", "1")))
	err := s.PutDocs(t.Context(), doc("a\x00b", "c", "2"))
	if err == nil || errors.Is(err, document.ErrConflict) {
		t.Errorf("PutDocs = %v, want a refusal", err)
	}
}

// GetWith also returns the documents of a tool that has no record.
func TestGetWith(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "approvals.db"), nil)
	d := doc("STOP", "STOP", "{}")
	require.OK(t, s.PutDocs(t.Context(), d))
	absent, id := document.Key{Part: "GRANT#ci", ID: "GRANTED"}, tool.ID{Server: "s", Name: "t"}
	d.Rev = 1
	for _, want := range []error{approval.ErrNotFound, nil} {
		r, docs, err := s.GetWith(t.Context(), id, absent, d.Key)
		if !errors.Is(err, want) || (r.ID() == id) != (want == nil) {
			t.Errorf("GetWith = %+v, %v, want %v", r, err, want)
		}
		if diff := cmp.Diff([]document.Doc{{Key: absent}, d}, docs); diff != "" {
			t.Errorf("documents (-want +got):\n%s", diff)
		}
		if want != nil {
			r = approval.Record{Server: "s", Tool: "t", State: approval.Pending}
			_, err = s.Put(t.Context(), r, nil)
			require.OK(t, err)
		}
	}
}

// onBucket calls a function with a bucket of a closed file.
func onBucket(path, name string, do func(*bbolt.Bucket) error) error {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error { return do(tx.Bucket([]byte(name))) })
	return errors.Join(err, db.Close())
}
