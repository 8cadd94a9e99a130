package object_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
)

const (
	first, second = "first", "second"
	broken, none  = "broken", "none" // a file that does not parse; no file
)

var (
	errDown   = errors.New("store is down")
	errBroken = errors.New("it does not parse")
)

// optional is a file that may be missing. required must exist.
var (
	required = object.File[string]{Key: "config/file", LastGood: "catalog/last_good_file", Parse: func(data []byte) (*string, error) {
		s := string(data)
		if s == broken {
			return nil, errBroken
		}
		return &s, nil
	}}
	optional = object.File[string]{Key: required.Key, LastGood: required.LastGood, Parse: required.Parse, None: func() *string { return new(string) }}
)

// noon is the time at which the tests read the files.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func put(t *testing.T, objects object.Store, key, data string) {
	t.Helper()
	if _, err := objects.Put(t.Context(), key, []byte(data), ""); err != nil {
		t.Fatal(err)
	}
}

// failing returns a hook that fails reads of a key; "": of every key.
func failing(key string) func(context.Context, string) error {
	return func(_ context.Context, k string) error {
		if key == "" || k == key {
			return errDown
		}
		return nil
	}
}

func TestFileLoad(t *testing.T) {
	for _, tt := range []struct {
		name, file, kept string
		unread           string // key that cannot be read; "": every key can be read
		want             string // the value in use; none: the default value, or no value if unknown
		unknown, stale   bool
	}{
		{"no file and no copy", none, none, "", none, false, false},
		{"no file, and an empty copy", none, "", "", none, false, false},
		{"a file", first, second, "", first, false, false},
		{"an empty file", "", second, "", "", false, false},
		{"a deleted file", none, second, "", second, false, true},
		{"a deleted file, and a copy that does not parse", none, broken, "", none, true, true},
		{"a file that does not parse", broken, second, "", second, false, true},
		{"a file that does not parse, without a copy", broken, none, "", none, true, true},
		{"a file that does not parse, with an empty copy", broken, "", "", none, true, true},
		{"a file that cannot be read", first, second, optional.Key, second, false, true},
		{"a file that cannot be read, without a copy", first, none, optional.Key, none, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := &objecttest.Mem{OnGet: func(ctx context.Context, key string) error {
				if tt.unread == "" {
					return nil
				}
				return failing(tt.unread)(ctx, key)
			}}
			for key, data := range map[string]string{optional.Key: tt.file, optional.LastGood: tt.kept} {
				if data != none {
					put(t, objects, key, data)
				}
			}
			s := optional.Load(t.Context(), objects, object.Source[string]{}, noon)
			version := ""
			if tt.want != none {
				version = object.Version([]byte(tt.want))
			}
			if s.Version != version || (s.Value == nil) != tt.unknown || s.Stale() != tt.stale || s.Stale() != (s.Err() != nil) {
				t.Errorf("version %.8q, unknown %t, stale %t (%v); want %.8q, %t, %t", s.Version, s.Value == nil, s.Stale(), s.Err(), version, tt.unknown, tt.stale)
			}
			if read := tt.unread == ""; s.ReadAt.Equal(noon) != read {
				t.Errorf("read at %v", s.ReadAt)
			}
		})
	}
	t.Run("nothing can be read", func(t *testing.T) {
		s := optional.Load(t.Context(), &objecttest.Mem{OnGet: failing("")}, object.Source[string]{}, noon)
		if s.Value != nil || !errors.Is(s.Unread, errDown) {
			t.Errorf("source = %+v; want no value, and the error %v", s, errDown)
		}
	})
	t.Run("no file, and the copy cannot be read", func(t *testing.T) {
		var objects objecttest.Mem
		held := optional.Load(t.Context(), &objects, object.Source[string]{}, noon)
		objects.OnGet = failing(optional.LastGood)
		if s := optional.Load(t.Context(), &objects, held, noon); s.Value != held.Value || s.Unread == nil {
			t.Errorf("source = %+v, want the last source, stale", s)
		}
		if s := optional.Load(t.Context(), &objects, object.Source[string]{}, noon); s.Value != nil || s.Unread == nil {
			t.Errorf("source = %+v, want no value, and a read error", s)
		}
	})
}

func TestFileLoadAgain(t *testing.T) {
	var objects objecttest.Mem
	later := noon.Add(time.Minute)
	load := func(held object.Source[string]) object.Source[string] {
		return required.Load(t.Context(), &objects, held, later)
	}
	put(t, &objects, required.Key, first)
	good := required.Load(t.Context(), &objects, object.Source[string]{}, noon)
	if good.Stale() || good.Version != object.Version([]byte(first)) || *good.Value != first {
		t.Errorf("source = %+v", good)
	}
	if s := load(good); s.Value != good.Value || !s.ReadAt.Equal(later) {
		t.Errorf("source of an unchanged file = %+v, want the same value", s)
	}

	put(t, &objects, required.Key, broken)
	bad := load(good)
	if !errors.Is(bad.Refused, errBroken) || bad.Unread != nil || bad.Version != good.Version {
		t.Errorf("source with a bad file = %+v", bad)
	}
	once := required
	once.Parse = func([]byte) (*string, error) { t.Error("the same bad file is parsed twice"); return nil, errBroken }
	if s := once.Load(t.Context(), &objects, bad, later); !errors.Is(s.Refused, errBroken) {
		t.Errorf("source with the same bad file = %+v", s)
	}

	objects.OnGet = failing(required.Key)
	away := required.Load(t.Context(), &objects, bad, later.Add(time.Minute))
	if !errors.Is(away.Unread, errDown) || away.Refused == nil || away.Version != good.Version || !away.ReadAt.Equal(later) {
		t.Errorf("source while the store is down = %+v", away)
	}
	objects.OnGet = nil
	if back := load(away); back.Unread != nil || back.Refused == nil {
		t.Errorf("source after the store came back = %+v, want the error of the bad file and no read error", back)
	}
	put(t, &objects, required.Key, second)
	if next := load(away); next.Stale() || *next.Value != second {
		t.Errorf("source of the next good file = %+v", next)
	}
}

func TestFileRequired(t *testing.T) {
	var objects objecttest.Mem
	load := func(held object.Source[string]) object.Source[string] {
		return required.Load(t.Context(), &objects, held, noon)
	}
	absent := load(object.Source[string]{})
	if absent.Value != nil || !errors.Is(absent.Unread, object.ErrNotFound) {
		t.Errorf("source without a file = %+v, want ErrNotFound", absent)
	}
	put(t, &objects, required.Key, broken)
	for _, held := range []object.Source[string]{absent, load(absent)} {
		if s := load(held); s.Value != nil || !errors.Is(s.Unread, errBroken) || errors.Is(s.Err(), object.ErrNotFound) {
			t.Errorf("source of a bad file without a copy = %+v, want its fault", s)
		}
	}
	put(t, &objects, required.LastGood, first)
	if s := load(load(absent)); s.Refused == nil || s.Unread != nil || string(s.Data) != first {
		t.Errorf("source = %+v, want the last good file, stale", s)
	}
}
