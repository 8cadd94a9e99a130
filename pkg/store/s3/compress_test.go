package s3_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const shardKey = "catalog/0123.snap"

// kept returns a wire that stores one object.
func kept(stored *[]byte) *wire {
	return &wire{answer: func(r *http.Request) *http.Response {
		if r.Method == http.MethodPut {
			if *stored = nil; r.Body != nil {
				*stored, _ = io.ReadAll(r.Body)
			}
			return says(http.StatusOK, "", `ETag: "new"`)
		}
		return says(http.StatusOK, string(*stored), `ETag: "new"`)
	}}
}

// noise returns text that compresses well, and numbers that do not.
func noise(n int) []byte {
	out := []byte(strings.Repeat(`{"name":"read_file","description":"Reads a file."}`, n/100))
	rng := rand.NewChaCha8([32]byte{1})
	rest := make([]byte, n/2)
	_, _ = rng.Read(rest)
	return append(out, rest...)
}

func TestCompressed(t *testing.T) {
	for _, size := range []int{0, 1, 100, 1 << 20, 9 << 20} {
		var stored []byte
		s := kept(&stored).store()
		data := noise(size)
		if _, err := s.Put(t.Context(), shardKey, data, ""); err != nil {
			t.Fatal(err)
		}
		if size >= 1<<20 && len(stored) > len(data)*6/10 {
			t.Errorf("%d bytes are stored as %d", len(data), len(stored))
		}
		o, err := s.Get(t.Context(), shardKey, "")
		if err != nil || !bytes.Equal(o.Data, data) {
			t.Errorf("%d bytes come back as %d, %v", len(data), len(o.Data), err)
		}
		if cap(o.Data) > len(data)+64 {
			t.Errorf("%d bytes take a buffer of %d", len(data), cap(o.Data))
		}
	}
}

// Files that people edit, and the file by which a program detects that it is too old, are stored
// unchanged.
func TestNotCompressed(t *testing.T) {
	for _, key := range []string{"config/mcp_config.json", "catalog/current.json", "policies/policies.cedar"} {
		var stored []byte
		if _, err := kept(&stored).store().Put(t.Context(), key, noise(1000), object.IfAbsent); err != nil || !bytes.Equal(stored, noise(1000)) {
			t.Errorf("%s is stored as %d bytes, %v", key, len(stored), err)
		}
	}
}

// An earlier version of the program stored shards uncompressed.
func TestCompressedReadsOthers(t *testing.T) {
	var streamed bytes.Buffer // compressed without a known size
	w, err := zstd.NewWriter(&streamed)
	require.OK(t, err)
	if _, err := w.Write(noise(1 << 20)); err != nil {
		t.Fatal(err)
	}
	require.OK(t, w.Close())
	for name, stored := range map[string][]byte{"uncompressed": noise(1 << 20), "without a size": streamed.Bytes()} {
		o, err := kept(&stored).store().Get(t.Context(), shardKey, "")
		if err != nil || !bytes.Equal(o.Data, noise(1<<20)) {
			t.Errorf("%s: %d bytes, %v", name, len(o.Data), err)
		}
	}
}

func TestCompressedDamage(t *testing.T) {
	var good []byte
	if _, err := kept(&good).store().Put(t.Context(), shardKey, noise(1<<20), ""); err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	// 1 KiB that expands to 600 MiB of zeros: longer than any shard.
	w, err := zstd.NewWriter(nil)
	require.OK(t, err)
	var bomb bytes.Buffer
	w.Reset(&bomb)
	for range 600 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	require.OK(t, w.Close())
	for name, stored := range map[string][]byte{"cut off": good[:len(good)-10], "a bit flipped": flipped, "a bomb": bomb.Bytes()} {
		o, err := kept(&stored).store().Get(t.Context(), shardKey, "")
		if !errors.Is(err, object.ErrDamaged) || len(o.Data) > 0 || o.ETag == "" {
			t.Errorf("%s: %d bytes, ETag %q, %v", name, len(o.Data), o.ETag, err)
		}
	}
	// If a transfer is interrupted, the object does not count as damaged.
	broken := &wire{answer: func(*http.Request) *http.Response {
		a := says(http.StatusOK, "", `ETag: "new"`)
		a.Body = io.NopCloser(io.MultiReader(bytes.NewReader(good[:len(good)/2]), iotest.ErrReader(io.ErrUnexpectedEOF)))
		a.ContentLength = int64(len(good))
		return a
	}}
	if o, err := broken.store().Get(t.Context(), shardKey, ""); err == nil || errors.Is(err, object.ErrDamaged) {
		t.Errorf("after an interrupted transfer: %d bytes, %v", len(o.Data), err)
	}
}

// Get reads any stored bytes, or reports them as damaged.
func FuzzGet(f *testing.F) {
	var good []byte
	if _, err := kept(&good).store().Put(f.Context(), shardKey, noise(2000), ""); err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(append(bytes.Clone(good), good...))
	f.Add([]byte("PCAT"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		if _, err := kept(&stored).store().Get(t.Context(), shardKey, ""); err != nil && !errors.Is(err, object.ErrDamaged) {
			t.Errorf("Get = %v, want ErrDamaged", err)
		}
	})
}
