package bolt_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A killed program leaves a part of a copy, a whole copy, or pages that no meta page names.
func TestConvertKilledAtEachWrite(t *testing.T) {
	folder := t.TempDir()
	path, entries := filepath.Join(folder, "approvals.db"), oldEntries(t)
	writeOld(t, path, entries)
	before := read(t, path)
	convert := func(step string) {
		t.Helper()
		s, err := bolt.Open(path, &store.Options{Now: atOldNow})
		if err != nil {
			t.Fatalf("killed %s: %v", step, err)
		}
		wantDocs(t, s, entries)
		require.OK(t, s.Close())
		if left := names(t, folder); len(left) != 2 {
			t.Errorf("killed %s: files left: %q", step, left)
		}
	}
	temp := filepath.Join(folder, store.TempName+"approvals.db"+beforeName+"-A")
	for _, size := range []int{0, 1, len(before) / 2, len(before)} {
		require.OK(t, os.WriteFile(temp, before[:size], 0o600))
		convert(fmt.Sprintf("at byte %d of the copy", size))
		if !bytes.Equal(read(t, path+beforeName), before) {
			t.Error("the copy differs from the file before")
		}
		require.OK(t, os.WriteFile(path, before, 0o600))
	}
	convert("after the copy")
	after, page := read(t, path), os.Getpagesize()
	var changed []int // pages; the meta pages are last, because bbolt writes them last
	for at := 0; at < len(after); at += page {
		if at >= len(before) || !bytes.Equal(before[at:at+page], after[at:at+page]) {
			changed = append(changed, at)
		}
	}
	slices.SortStableFunc(changed, func(a, b int) int {
		meta := func(at int) int { return map[bool]int{true: 1}[at < 2*page] }
		return meta(a) - meta(b)
	})
	written := make([]byte, len(after))
	copy(written, before)
	for n, at := range changed {
		torn := bytes.Clone(written)
		copy(torn[at:], after[at:at+page/16]) // the disk has only the beginning of the page
		copy(written[at:], after[at:at+page])
		for step, data := range map[string][]byte{"within": torn, "after": written} {
			require.OK(t, os.WriteFile(path, data, 0o600))
			convert(fmt.Sprintf("%s write %d of %d", step, n+1, len(changed)))
		}
	}
	if len(changed) < 4 {
		t.Errorf("only %d pages were written", len(changed))
	}
}

// If several processes open the file at the same time, one process converts it, and all read it.
func TestConvertAtOnce(t *testing.T) {
	path, entries := filepath.Join(t.TempDir(), "approvals.db"), oldEntries(t)
	writeOld(t, path, entries)
	before := read(t, path)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := bolt.Open(path, &store.Options{Now: atOldNow, LockWait: time.Minute})
			if err != nil {
				t.Error(err)
				return
			}
			wantDocs(t, s, entries)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if !bytes.Equal(read(t, path+beforeName), before) {
		t.Error("the copy differs from the file before")
	}
}
