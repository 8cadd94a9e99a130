package lock_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
)

func TestNot(t *testing.T) {
	for f, want := range map[lock.Fact]lock.Fact{lock.Yes: lock.No, lock.No: lock.Yes, lock.Unknown: lock.Unknown, 7: lock.Unknown} {
		if got := f.Not(); got != want {
			t.Errorf("not %v: %v, want %v", f, got, want)
		}
	}
}
