package tokenfile_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/tokenfile"
	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func open(folder string, now func() time.Time, log *local.Buffer) *tokenfile.Store {
	return &tokenfile.Store{
		Objects: dir.New(folder), Now: now, Log: slog.New(slog.NewTextHandler(log, nil)),
	}
}

func TestDocuments(t *testing.T) {
	documenttest.Run(t, func(t *testing.T, now func() time.Time) document.Store {
		return open(filepath.Join(t.TempDir(), "portcullis"), now, &local.Buffer{})
	})
}

var key = document.Key{Part: "CRED#gateway", ID: "1"}

// Documents are readable in the file, and only the person can read the file.
func TestFile(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "portcullis")
	s := open(folder, time.Now, &local.Buffer{})
	require.OK(t, s.PutDocs(t.Context(), document.Doc{Key: key, Data: []byte(`{"server":"u"}`)}))
	path := filepath.Join(folder, tokenfile.Name)
	data, err := os.ReadFile(path)
	require.OK(t, err)
	const want = `{"version":1,"documents":[{"part":"CRED#gateway","id":"1","rev":1,` +
		`"data":{"server":"u"}}]}` + "\n"
	if string(data) != want {
		t.Errorf("file %s, want %s", data, want)
	}
	for name, mode := range map[string]os.FileMode{path: 0o600, folder: 0o700} {
		info, err := os.Stat(name)
		require.OK(t, err)
		if got := info.Mode().Perm(); got != mode {
			t.Errorf("%s has mode %v, want %v", name, got, mode)
		}
	}
}

// A damaged file counts as empty, and the next write replaces it. A file of a newer program is an
// error, and stays as it is.
func TestUnusableFile(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "truncated": `{"version":1,` +
			`"documents":[{"part"`, "other JSON": `{"tokens":{}}`,
		"other type": `[]`, "newer": `{"version":2,"documents":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			folder, log := t.TempDir(), &local.Buffer{}
			path := filepath.Join(folder, tokenfile.Name)
			require.OK(t, os.WriteFile(path, []byte(text), 0o600))
			s := open(folder, time.Now, log)
			d, err := document.Get(t.Context(), s, key)
			put := s.PutDocs(t.Context(), document.Doc{Key: key, Data: []byte(`{}`)})
			if name == "newer" {
				if err == nil || put == nil ||
					!strings.Contains(err.Error(), "update this program") {
					t.Errorf("read %v, write %v", err, put)
				}
				data, err := os.ReadFile(path)
				require.OK(t, err)
				if string(data) != text {
					t.Errorf("the file was replaced with %s", data)
				}
				return
			}
			require.OK(t, errors.Join(err, put))
			if d.Rev != 0 || !strings.Contains(log.String(), "damaged file of sign-ins ignored") {
				t.Errorf("revision %d, log %s", d.Rev, log)
			}
			if d, err = document.Get(t.Context(), s, key); err != nil || d.Rev != 1 {
				t.Errorf("after a write: revision %d, %v", d.Rev, err)
			}
		})
	}
}

// Stores that share a file lose no document of each other, as two processes do.
func TestTwoStores(t *testing.T) {
	folder := t.TempDir()
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			s := open(folder, time.Now, &local.Buffer{})
			for n := range 10 {
				k := document.Key{Part: "p", ID: fmt.Sprint(w, n)}
				err := s.PutDocs(t.Context(), document.Doc{Key: k, Data: []byte("{}")})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	docs, _, err := open(folder, time.Now, &local.Buffer{}).ListDocs(t.Context(), "p")
	if err != nil || len(docs) != 20 {
		t.Errorf("%d documents, %v; want 20", len(docs), err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"version":1,"documents":[{"part":"p","id":"i","rev":1,"data":{"a":1}}]}`))
	f.Add([]byte(`{"version":1,"documents":[{"bytes":"AA==","rev":-1,"keep":"x"}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		folder := t.TempDir()
		require.OK(t, os.WriteFile(filepath.Join(folder, tokenfile.Name), data, 0o600))
		s := open(folder, time.Now, &local.Buffer{})
		if docs, err := s.Docs(t.Context(), key); err == nil && docs[0].Key != key {
			t.Errorf("document %+v", docs[0])
		}
	})
}
