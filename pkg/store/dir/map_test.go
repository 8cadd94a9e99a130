package dir_test

import (
	"bytes"
	"errors"
	"testing"
	"unsafe"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestMap(t *testing.T) {
	s := dir.New(t.TempDir())
	for _, key := range []string{"catalog/a.snap", "catalog", "catalog/a.snap/b"} {
		if _, err := s.Map(t.Context(), key); !errors.Is(err, object.ErrNotFound) {
			t.Errorf("Map(%s) without an object = %v", key, err)
		}
		if key == "catalog/a.snap" {
			if _, err := s.Put(t.Context(), key, []byte("one"), ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Map(t.Context(), "../a"); !errors.Is(err, object.ErrKey) {
		t.Errorf("Map of a key outside the folder = %v", err)
	}
	one, err := s.Map(t.Context(), "catalog/a.snap")
	if err != nil || string(one) != "one" {
		t.Fatalf("Map = %q, %v", one, err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for _, data := range [][]byte{large, {}} {
		if _, err := s.Put(t.Context(), "catalog/a.snap", data, ""); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Map(t.Context(), "catalog/a.snap"); err != nil || !bytes.Equal(got, data) {
			t.Errorf("Map = %d bytes, %v; want %d", len(got), err, len(data))
		}
	}
	two, err := s.Map(t.Context(), "catalog/a.snap")
	require.OK(t, err)
	require.OK(t, s.Delete(t.Context(), "catalog/a.snap"))
	if string(one) != "one" || len(two) != 0 {
		t.Errorf("the mapped data is %q after the file was replaced and removed", one)
	}
}

func TestMapSharesOneMapping(t *testing.T) {
	s := dir.New(t.TempDir())
	put := func(data string) []byte {
		t.Helper()
		if _, err := s.Put(t.Context(), "catalog/a.snap", []byte(data), ""); err != nil {
			t.Fatal(err)
		}
		return mapped(t, s)
	}
	one := put("one")
	if again := mapped(t, s); unsafe.SliceData(again) != unsafe.SliceData(one) {
		t.Error("a mapped file is mapped again")
	}
	two := put("two")
	if unsafe.SliceData(two) == unsafe.SliceData(one) || string(one) != "one" || string(two) != "two" {
		t.Errorf("after a replacement of the same size, %q and %q are mapped", one, two)
	}
}

func mapped(t *testing.T, s *dir.Store) []byte {
	t.Helper()
	data, err := s.Map(t.Context(), "catalog/a.snap")
	require.OK(t, err)
	return data
}
