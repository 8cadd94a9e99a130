package bolt_test

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// used returns the bytes of a file that a gateway has used, with pages of every kind.
func used(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "used.db")
	s, err := bolt.Open(path, nil)
	require.OK(t, err)
	for i := range 60 {
		r := approval.Record{Server: fmt.Sprint("s", i%3), Tool: fmt.Sprint("t", i), State: approval.Pending, Current: bytes.Repeat([]byte("d"), 100*(i%50))}
		for range 2 {
			e := &approval.Entry{Server: r.Server, Tool: r.Tool, Actor: "sync", Action: "observe"}
			if r, err = s.Put(t.Context(), r, e); err != nil {
				t.Fatal(err)
			}
		}
	}
	require.OK(t, errors.Join(exercise(t.Context(), s), s.Close()))
	data, err := os.ReadFile(path)
	require.OK(t, err)
	return data
}

// exercise calls every method of a store, and returns the errors.
func exercise(ctx context.Context, s *bolt.Store) error {
	var errs []error
	for i := range 3 {
		id := tool.ID{Server: fmt.Sprint("s", i), Name: fmt.Sprint("t", i+30)}
		r, err := s.Get(ctx, id)
		if err == nil {
			_, err = s.Put(ctx, r, &approval.Entry{Server: r.Server, Tool: r.Tool, Actor: "ada", Action: "disable"})
		}
		_, put := s.Put(ctx, approval.Record{Server: id.Server, Tool: crand.Text(), State: approval.Pending, Current: make([]byte, 9000)}, nil)
		_, records := s.Records(ctx, id.Server)
		_, audit := s.Audit(ctx, id.Server, approval.Cursor{}, 100)
		errs = append(errs, err, put, records, audit)
	}
	_, _, changes := s.Changes(ctx, time.Time{}, "")
	return errors.Join(append(errs, changes, exerciseDocuments(ctx, s))...)
}

// exerciseDocuments reads, writes, lists, touches and deletes documents.
func exerciseDocuments(ctx context.Context, s *bolt.Store) error {
	one := doc("ASK#", crand.Text(), "one")
	one.Keep = time.Now().Add(time.Hour)
	put := s.PutDocs(ctx, one, doc("ASK#"+one.ID, "ASKED", "{}"))
	stops, read := s.Docs(ctx, document.Key{Part: "STOP", ID: "STOP"})
	if read == nil {
		stops[0].Data = []byte("{}")
		read = s.PutDocs(ctx, stops...)
	}
	_, _, list := s.ListDocs(ctx, "ASK#")
	touch := s.TouchDoc(ctx, one.Key, "a mark")
	_, docs, with := s.GetWith(ctx, tool.ID{Server: "s0", Name: "t0"}, one.Key)
	if errors.Is(with, approval.ErrNotFound) {
		with = nil
	}
	if with == nil && len(docs) == 1 {
		docs[0].Data = nil
		with = s.PutDocs(ctx, docs...)
	}
	return errors.Join(put, read, list, touch, with)
}

func TestOpenDamagedFile(t *testing.T) {
	whole := used(t)
	for name, damage := range map[string]func([]byte) []byte{
		"empty":             func([]byte) []byte { return nil },
		"one byte":          func(b []byte) []byte { return b[:1] },
		"cut in half":       func(b []byte) []byte { return b[:len(b)/2] },
		"cut within a page": func(b []byte) []byte { return b[:len(b)/2+100] },
		"random bytes": func(b []byte) []byte {
			for i := range b {
				b[i] = byte(rand.Uint32())
			}
			return b
		},
		"zeros":                    func(b []byte) []byte { clear(b); return b },
		"text":                     func([]byte) []byte { return bytes.Repeat([]byte("no database"), 10_000) },
		"without its first pages":  func(b []byte) []byte { clear(b[:2*os.Getpagesize()]); return b },
		"random bytes in the rest": func(b []byte) []byte { copy(b[2*os.Getpagesize():], bytes.Repeat([]byte{0xA5}, len(b))); return b },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "approvals.db")
			data := damage(bytes.Clone(whole))
			require.OK(t, os.WriteFile(path, data, 0o600))
			_, err := bolt.Open(path, nil)
			if !errors.Is(err, bolt.ErrDamaged) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "portcullis restore --dir") {
				t.Errorf("Open = %v, want ErrDamaged, the file and the command that restores", err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, data) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
}

// A changed byte anywhere in the file never causes a panic, neither in the caller nor on a
// goroutine of bbolt.
func TestDamageAnywhere(t *testing.T) {
	whole := used(t)
	rng := rand.New(rand.NewPCG(1, 2))
	folder := t.TempDir()
	refused, failed, harmless := 0, 0, 0
	const tries = 60
	for n := range tries {
		data := bytes.Clone(whole)
		at := rng.IntN(len(data))
		if n%2 == 0 { // the beginnings of pages matter most
			at = at/os.Getpagesize()*os.Getpagesize() + rng.IntN(64)
		}
		for i := range 1 + rng.IntN(8) {
			data[min(at+i, len(data)-1)] = byte(rng.Uint32())
		}
		path := filepath.Join(folder, fmt.Sprint(n)) // a damaged file stays locked
		require.OK(t, os.WriteFile(path, data, 0o600))
		s, err := bolt.Open(path, nil)
		if err != nil {
			if !errors.Is(err, bolt.ErrDamaged) {
				t.Fatalf("bytes from %d changed: %v", at, err)
			}
			refused++
			continue
		}
		if exercise(t.Context(), s) != nil {
			failed++
		} else {
			harmless++
		}
		if err := s.Close(); err != nil {
			t.Fatalf("bytes from %d changed: Close: %v", at, err)
		}
	}
	if refused == 0 || failed == 0 || harmless == 0 {
		t.Errorf("of %d files, %d were refused, %d caused errors later and %d caused none: want each case", tries, refused, failed, harmless)
	}
}

// If an open file is damaged, the gateway continues and answers with an error.
func TestDamageWhileOpen(t *testing.T) {
	whole := used(t)
	for name, damage := range map[string]func(f *os.File, size int64) error{
		"cut in half": func(f *os.File, size int64) error { return f.Truncate(size / 2) },
		"cut off":     func(f *os.File, _ int64) error { return f.Truncate(0) },
		"random bytes": func(f *os.File, size int64) error {
			junk := make([]byte, size)
			for i := range junk {
				junk[i] = byte(rand.Uint32())
			}
			_, err := f.WriteAt(junk, 0)
			return err
		},
		"zeros after the head": func(f *os.File, size int64) error {
			_, err := f.WriteAt(make([]byte, size-8192), 8192)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "approvals.db")
			require.OK(t, os.WriteFile(path, whole, 0o600))
			s, err := bolt.Open(path, nil)
			require.OK(t, err)
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			require.OK(t, err)
			defer f.Close()
			require.OK(t, damage(f, int64(len(whole))))
			var wg sync.WaitGroup
			errs := make([]error, 4)
			for i := range errs {
				wg.Go(func() { errs[i] = exercise(t.Context(), s) })
			}
			wg.Wait()
			for i, err := range errs {
				if !errors.Is(err, bolt.ErrDamaged) {
					t.Errorf("caller %d: %v, want ErrDamaged", i, err)
				}
			}
			if n := s.Failures(); n < int64(len(errs)) {
				t.Errorf("%d failures are counted, want one of each caller", n)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A file with branches is intact after any writes in any order. If a branch names a page by a wrong
// first key, the file is damaged, because bbolt would later read wrong pages.
func TestDamagedBranch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "approvals.db")
	rng := rand.New(rand.NewPCG(3, 4))
	s, err := bolt.Open(path, nil)
	require.OK(t, err)
	for range 600 {
		id := tool.ID{Server: "s", Name: fmt.Sprint("t", rng.IntN(300))}
		r, err := s.Get(t.Context(), id)
		if errors.Is(err, approval.ErrNotFound) {
			r, err = approval.Record{Server: id.Server, Tool: id.Name, State: approval.Pending}, nil
		}
		require.OK(t, err)
		r.Current = make([]byte, rng.IntN(900))
		_, err = s.Put(t.Context(), r, &approval.Entry{Server: "s", Tool: id.Name, Actor: "ada", Action: "observe"})
		require.OK(t, err)
		if rng.IntN(100) == 0 {
			require.OK(t, s.Close())
			s, err = bolt.Open(path, nil)
			require.OK(t, err)
		}
	}
	require.OK(t, s.Close())
	data, err := os.ReadFile(path)
	require.OK(t, err)
	branches := 0
	for at := 0; at < len(data); at += os.Getpagesize() {
		const branch = 1
		head := data[at:]
		key := binary.NativeEndian.Uint32(head[16:]) + 16 // of the first element
		if binary.NativeEndian.Uint16(head[8:]) != branch || binary.NativeEndian.Uint64(head) != uint64(at/os.Getpagesize()) {
			continue
		}
		harmed := bytes.Clone(data)
		harmed[at+int(key)]--
		require.OK(t, os.WriteFile(path, harmed, 0o600))
		if s, err := bolt.Open(path, nil); err == nil { // the page is no longer in use
			require.OK(t, s.Close())
		} else if branches++; !errors.Is(err, bolt.ErrDamaged) {
			t.Errorf("page %d: %v", at/os.Getpagesize(), err)
		}
	}
	if branches == 0 {
		t.Error("no branch was damaged")
	}
}
