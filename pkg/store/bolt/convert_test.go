package bolt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const beforeName = ".before-documents"

func atOldNow() time.Time { return oldNow }

// dump returns the keys and values in the buckets of a file. keep chooses the buckets by name.
func dump(t *testing.T, path string, keep func(bucket string) bool) map[string]string {
	t.Helper()
	out := map[string]string{}
	var walk func(path string, b *bbolt.Bucket) error
	walk = func(path string, b *bbolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			if v == nil {
				return walk(path+"/"+string(k), b.Bucket(k))
			}
			out[path+"/"+string(k)] = string(v)
			return nil
		})
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	require.OK(t, err)
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			if !keep(string(name)) {
				return nil
			}
			out[string(name)] = "a bucket"
			return walk(string(name), b)
		})
	})
	require.OK(t, errors.Join(err, db.Close()))
	return out
}

// isUntouched reports whether a conversion does not change the bucket.
func isUntouched(bucket string) bool {
	return bucket != "documents" && !slices.Contains(oldBuckets, bucket)
}

func everything(string) bool { return true }

// wantDocs checks that a store has the documents of the entries, and no other documents.
func wantDocs(t *testing.T, s document.Store, entries []oldEntry) {
	t.Helper()
	want, parts := []document.Doc{}, map[string]bool{}
	for _, e := range entries {
		if e.doc.Rev > 0 {
			want = append(want, e.doc)
			parts[e.doc.Part] = true
		}
	}
	parts["ASK#"], parts["TOKENS"] = true, true
	got := []document.Doc{}
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		docs, all, err := s.ListDocs(t.Context(), part)
		if err != nil || !all {
			t.Errorf("ListDocs(%q): all: %v, %v", part, all, err)
		}
		got = append(got, docs...)
	}
	byKey := func(a, b document.Doc) int {
		return strings.Compare(a.Part+"\x00"+a.ID, b.Part+"\x00"+b.ID)
	}
	slices.SortFunc(want, byKey)
	slices.SortFunc(got, byKey)
	if reflect.DeepEqual(want, got) { // much faster than cmp.Diff
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("documents (-want +got):\n%s", d)
	}
}

// wantMarks checks the file from the view of the previous build. Everything is stopped, and the
// build cannot read which servers had their first lists.
func wantMarks(t *testing.T, path string) {
	t.Helper()
	require.OK(t, onBucket(path, "stop", func(b *bbolt.Bucket) error {
		s, err := stop.Decode(b.Get([]byte("stop")))
		all, is := s.Find(stop.Target{All: true})
		names := strings.Contains(all.Reason, "approvals.db"+beforeName)
		if err != nil || !is || all.By != "portcullis" || !names {
			t.Errorf("the previous build reads the stops as %+v, %v", s, err)
		}
		return nil
	}))
	require.OK(t, onBucket(path, "baselines", func(b *bbolt.Bucket) error {
		bad := 0
		err := b.ForEach(func(_, data []byte) error {
			var one approval.Baseline
			err := json.Unmarshal(data, &one)
			if err != nil && strings.Contains(err.Error(), "newer version") {
				bad++
			}
			return nil
		})
		if bad != 1 {
			t.Errorf("the previous build fails to read %d baselines, want 1", bad)
		}
		return err
	}))
	left := dump(t, path, func(name string) bool { return slices.Contains(oldBuckets, name) })
	if len(left) != 4 { // two buckets with one key each
		t.Errorf("entries of the previous build: %q", left)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.OK(t, err)
	return data
}

func TestConvert(t *testing.T) {
	folder := t.TempDir()
	path, entries := filepath.Join(folder, "approvals.db"), oldEntries(t)
	writeOld(t, path, entries)
	before, untouched := read(t, path), dump(t, path, isUntouched)
	v, err := bolt.View(path, &store.Options{Now: atOldNow}) // converts a copy in another folder
	require.OK(t, err)
	wantDocs(t, v, entries)
	require.OK(t, v.Close())
	if left := names(t, folder); len(left) != 1 || !bytes.Equal(read(t, path), before) {
		t.Errorf("a view changed the file, or left %q", left)
	}
	for n := range 3 { // from the second time on, the file has the form of this version
		s, err := bolt.Open(path, &store.Options{Now: atOldNow})
		require.OK(t, err)
		wantDocs(t, s, entries)
		if got := s.CopyBefore(); (got == path+beforeName) != (n == 0) {
			t.Errorf("opened %d times: CopyBefore = %q", n+1, got)
		}
		if all, err := s.Records(t.Context(), "s"); err != nil || len(all) != 3 {
			t.Errorf("Records = %d, %v; want 3", len(all), err)
		}
		require.OK(t, s.Close())
		wantMarks(t, path)
		if d := cmp.Diff(untouched, dump(t, path, isUntouched)); d != "" {
			t.Errorf("opened %d times: approvals, audit or usage (-want +got):\n%s", n+1, d)
		}
		info, err := os.Stat(path + beforeName)
		same := bytes.Equal(read(t, path+beforeName), before)
		if err != nil || info.Mode().Perm() != 0o600 || !same {
			t.Errorf("the copy: %v, %v; want the file as it was before, readable only by its owner", info, err)
		}
		if left := names(t, folder); len(left) != 2 {
			t.Errorf("files in the folder: %q", left)
		}
	}
	// After a rollback and a new upgrade, the file has the documents that the previous build wrote
	// in the meantime.
	require.OK(t, os.WriteFile(path, read(t, path+beforeName), 0o600))
	require.OK(t, onBucket(path, "stop", func(b *bbolt.Bucket) error {
		return b.Delete([]byte("stop"))
	}))
	first := before
	before = read(t, path)
	s, err := bolt.Open(path, &store.Options{Now: atOldNow})
	require.OK(t, err)
	wantDocs(t, s, slices.DeleteFunc(entries, func(e oldEntry) bool { return e.bucket == "stop" }))
	require.OK(t, s.Close())
	if !bytes.Equal(read(t, path+beforeName), before) {
		t.Error("the copy of the second conversion differs from the file before")
	}
	kept, err := filepath.Glob(path + beforeName + "-*")
	if err != nil || len(kept) != 1 || !bytes.Equal(read(t, kept[0]), first) {
		t.Errorf("the copy of the first conversion is missing: %q, %v", kept, err)
	}
}

// A new file also has the marks, because the previous build may open it.
func TestMarksOfNewFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "approvals.db")
	require.OK(t, open(t, path, nil).Close())
	wantMarks(t, path)
	if left := names(t, folder); len(left) != 1 {
		t.Errorf("files in the folder: %q", left)
	}
}

// If one document cannot be read, the conversion changes nothing, and the error names the document.
func TestConvertDamaged(t *testing.T) {
	entries := oldEntries(t)
	id := func(bucket string) string {
		is := func(e oldEntry) bool { return e.bucket == bucket }
		return entries[slices.IndexFunc(entries, is)].key
	}
	for bucket, bad := range map[string]oldEntry{
		"stop": {}, "tokens": {}, "token_uses": {}, "asked": {}, "granted": {},
		"request_keys": {}, "requests_used": {}, "outbox": {}, "baselines": {},
		"firsts":                   {},
		"granted of another agent": {bucket: "granted", key: "agent", data: "{}"},
		"use without a time":       {bucket: "requests_used", key: "R-1", data: "{}"},
		"request, no agent":        {bucket: "request_keys", key: "R-1", data: "{}"},
		"list without a kind":      {bucket: "firsts", key: "0a1b", data: "{}"},
	} {
		t.Run(bucket, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, "approvals.db")
			if bad.bucket == "" {
				bad = oldEntry{bucket: bucket, key: id(bucket), data: "{"}
			}
			writeOld(t, path, append(slices.Clone(entries), bad))
			before := read(t, path)
			for range 2 {
				_, err := bolt.Open(path, &store.Options{Now: atOldNow})
				want := fmt.Sprintf("%q cannot be read", bad.key)
				if !errors.Is(err, bolt.ErrUnconverted) || !strings.Contains(err.Error(), want) {
					t.Errorf("Open = %v, want an error that names %q", err, bad.key)
				}
			}
			if !bytes.Equal(read(t, path), before) {
				t.Error("the file was changed")
			}
			if _, err := bolt.View(path, nil); !errors.Is(err, bolt.ErrUnconverted) {
				t.Errorf("View = %v, want ErrUnconverted", err)
			}
			if !bytes.Equal(read(t, path), before) {
				t.Error("a view changed the file")
			}
		})
	}
}

// An old program that opens a converted file makes its own buckets again. The next conversion adds
// the documents in them, including the stops.
func TestConvertWhatAnOldProgramWroteSince(t *testing.T) {
	path, entries := filepath.Join(t.TempDir(), "approvals.db"), oldEntries(t)
	writeOld(t, path, entries)
	before := read(t, path)
	reopen := func() *bolt.Store {
		s, err := bolt.Open(path, &store.Options{Now: atOldNow})
		require.OK(t, err)
		return s
	}
	oldProgram := func(change func(stop.Stops) stop.Stops, more ...oldEntry) {
		t.Helper()
		db, err := bbolt.Open(path, 0o600, nil)
		require.OK(t, err)
		err = db.Update(func(tx *bbolt.Tx) error {
			if err := putOld(tx, more); err != nil {
				return err
			}
			b := tx.Bucket([]byte("stop"))
			stops, err := stop.Decode(b.Get([]byte("stop")))
			require.OK(t, err)
			_, data, err := change(stops).Encode()
			require.OK(t, err)
			return b.Put([]byte("stop"), data)
		})
		require.OK(t, errors.Join(err, db.Close()))
	}
	require.OK(t, reopen().Close())

	oldProgram(func(s stop.Stops) stop.Stops { return s })
	s := reopen()
	wantDocs(t, s, entries)
	require.OK(t, s.Close())
	wantMarks(t, path)

	x := sampleToken(9, oldNow)
	_, data, err := x.Encode()
	require.OK(t, err)
	d := document.Doc{Key: document.Key{Part: "TOKENS", ID: x.ID}, Data: data, Rev: 1}
	added := oldEntry{"tokens", x.ID, string(data), d}
	known := oldEntry{"tokens", sampleToken(1, oldNow).ID, string(data), document.Doc{}}
	later := oldNow.Add(time.Minute)
	x = sampleToken(3, oldNow).Revoke("ann", later)
	_, data, err = x.Encode()
	require.OK(t, err)
	revoked := oldEntry{"tokens", x.ID, string(data), document.Doc{}}
	oldProgram(func(s stop.Stops) stop.Stops {
		for _, target := range []stop.Target{{Server: "git"}, {Server: "mail"}, {Server: "chat"}} {
			s, err = s.Add(stop.Stop{Target: target, Reason: "again", By: "ann", At: later})
			require.OK(t, err)
		}
		s, err = s.Undo(stop.Target{Server: "chat"})
		require.OK(t, err)
		s, err = s.Undo(stop.Target{All: true})
		require.OK(t, err)
		return s
	}, added, known, revoked)
	s = reopen()
	docs, err := s.Docs(t.Context(), document.Key{Part: "STOP", ID: "STOP"})
	require.OK(t, err)
	got, err := stop.Decode(docs[0].Data)
	require.OK(t, err)
	want := sampleStops()
	want.List[0].At = later // the stop of git, which the old program made again
	mail, chat := stop.Target{Server: "mail"}, stop.Target{Server: "chat"}
	want.List = append(want.List, stop.Stop{Target: mail, Reason: "again", By: "ann", At: later})
	want.Ended = append([]stop.Ended{{Target: chat, At: later}}, want.Ended...)
	want.Rev = 4
	if d := cmp.Diff(want, got); d != "" || docs[0].Rev != 4 {
		t.Errorf("stops at revision %d (-want +got):\n%s", docs[0].Rev, d)
	}
	ended := wantRevoked(t, s, x.ID, later)
	isOther := func(e oldEntry) bool { return e.bucket == "stop" || e.doc.ID == x.ID }
	entries = append(slices.DeleteFunc(entries, isOther), added, oldEntry{doc: ended})
	wantDocs(t, s, entries)
	require.OK(t, s.Close())
	wantMarks(t, path)
	if !bytes.Equal(read(t, path+beforeName), before) {
		t.Error("the copy of the first conversion was replaced")
	}
}

// wantRevoked checks that a token is revoked by ann, and returns its document.
func wantRevoked(t *testing.T, s *bolt.Store, id string, at time.Time) document.Doc {
	t.Helper()
	docs, err := s.Docs(t.Context(), document.Key{Part: "TOKENS", ID: id})
	require.OK(t, err)
	x, err := token.Decode(docs[0].Data, docs[0].Mark)
	if err != nil || !x.RevokedAt.Equal(at) || x.RevokedBy != "ann" {
		t.Errorf("the token that the old program revoked is %+v, %v", x, err)
	}
	return docs[0]
}

// Inspect and RestoreBackup accept a backup of the previous build like a backup of this version.
func TestRestoreBackupOfOldCopy(t *testing.T) {
	temporary, folder := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	path, entries := filepath.Join(folder, "old.db"), oldEntries(t)
	damaged := oldEntry{bucket: "logins", key: "bad", data: "{"} // no restore reads it
	writeOld(t, path, append(slices.Clone(entries), damaged))
	before := read(t, path)
	c, err := bolt.Inspect(path)
	if err != nil || c.Records != 3 || c.Approved != 2 || c.Bytes != int64(len(before)) {
		t.Errorf("Inspect = %+v, %v", c, err)
	}
	lost := open(t, filepath.Join(t.TempDir(), "approvals.db"), atOldNow)
	o := bolt.RestoreOptions{KeepTokens: true, Actor: "kim"}
	out, err := lost.RestoreBackup(t.Context(), path, o)
	if err != nil || out.Records != 3 || out.Tokens != 3 || out.Revoked != 0 {
		t.Errorf("RestoreBackup = %+v, %v", out, err)
	}
	kept := []oldEntry{}
	for _, e := range entries {
		if p := e.doc.Part; p == "TOKENS" {
			x := getToken(t, lost, e.doc.ID)
			if x.Rev != e.doc.Rev+1 {
				t.Errorf("token %q has revision %d, want %d", x.ID, x.Rev, e.doc.Rev+1)
			}
		} else if p == "STOP" || strings.HasPrefix(p, "BASE#") || strings.HasPrefix(p, "SRV#") {
			kept = append(kept, e)
		} else if p != "" {
			if docs, _, err := lost.ListDocs(t.Context(), p); err != nil || len(docs) != 0 {
				t.Errorf("%q was restored as %+v, %v", p, docs, err)
			}
		}
	}
	for _, e := range kept {
		docs, err := lost.Docs(t.Context(), e.doc.Key)
		if err != nil || !cmp.Equal(docs[0], e.doc) {
			t.Errorf("%q was restored as %+v, %v", e.doc.Key, docs, err)
		}
	}
	left := append(names(t, folder), names(t, temporary)...)
	if len(kept) != 6 || !bytes.Equal(read(t, path), before) || len(left) != 1 {
		t.Errorf("%d copies are kept; the copy was changed, or files left: %q", len(kept), left)
	}
	for _, bucket := range []string{"tokens", "stop"} {
		require.OK(t, os.WriteFile(path, before, 0o600))
		require.OK(t, onBucket(path, bucket, func(b *bbolt.Bucket) error {
			return b.Put([]byte("stop"), []byte("{"))
		}))
		_, err := bolt.Inspect(path)
		if !errors.Is(err, bolt.ErrNoCopy) || errors.Is(err, bolt.ErrDamaged) {
			t.Errorf("Inspect with damaged %s = %v, want ErrNoCopy", bucket, err)
		}
	}
	if left := names(t, temporary); len(left) > 0 {
		t.Errorf("files left: %q", left)
	}
}
