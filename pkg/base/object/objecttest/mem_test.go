package objecttest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
)

func TestMem(t *testing.T) {
	objecttest.Run(t, func(*testing.T) object.Store { return new(objecttest.Mem) })
}

func TestMemHooksOfWrites(t *testing.T) {
	gone := errors.New("connection reset")
	for name, kept := range map[string]bool{"before the write": false, "after the write": true} {
		t.Run(name, func(t *testing.T) {
			m := &objecttest.Mem{OnPut: func(context.Context, string, []byte) (bool, error) { return kept, gone }}
			if _, err := m.Put(t.Context(), "a", []byte("x"), ""); !errors.Is(err, gone) {
				t.Errorf("Put = %v, want the hook's error", err)
			}
			if _, err := m.Get(t.Context(), "a", ""); errors.Is(err, object.ErrNotFound) == kept {
				t.Errorf("Get = %v, want kept %v", err, kept)
			}
		})
	}
}

func TestMemHooksOfReads(t *testing.T) {
	gone := errors.New("connection reset")
	m := &objecttest.Mem{OnGet: func(context.Context, string) error { return gone }}
	if _, err := m.Get(t.Context(), "a", ""); !errors.Is(err, gone) {
		t.Errorf("Get = %v, want the hook's error", err)
	}
}
