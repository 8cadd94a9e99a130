package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/lockfile"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// 527 real tools of 70 servers wait. A lock file proposes all of them, and apply approves them at
// the gateway.
func TestApprovalsLockOfRealTools(t *testing.T) {
	w := newReal(t, `, "approval": "manual"`)
	file, md := filepath.Join(w.dir, lockfile.Name), filepath.Join(w.dir, "drift.md")
	s := newTerminal(t, map[string]string{w.dir: "DIR"})
	do := func(code int, args ...string) {
		t.Helper()
		began := time.Now()
		s.must(code, append(append([]string{"approvals"}, args...), "--dir", w.dir)...)
		t.Logf("%v: %v", args[0], time.Since(began).Round(time.Millisecond))
	}
	do(0, "write", file)
	do(3, "check", file, "--markdown", md)
	text, err := os.ReadFile(md)
	require.OK(t, err)
	if len(text) > lockfile.MaxMarkdown || len(text) < lockfile.MaxMarkdown/2 {
		t.Errorf("the Markdown has %d bytes", len(text))
	}
	do(0, "write", file, "--pending")
	do(0, "check", file)
	f, err := lockArg{file}.read()
	require.OK(t, err)
	for id, e := range f { // some have severe findings
		e.Note = "It was read."
		f[id] = e
	}
	require.OK(t, os.WriteFile(file, f.Bytes(), 0o644))
	do(0, "apply", file)
	do(0, "apply", file)
	do(0, "write", file)
	do(0, "check", file)
	data, err := os.ReadFile(file)
	require.OK(t, err)
	if f, err = lockfile.Parse(data); err != nil || len(f) != 527 || f.Pending() != 0 || f.Servers() < 60 {
		t.Errorf("%d entries, %d pending, %d servers, %v", len(f), f.Pending(), f.Servers(), err)
	}
	t.Logf("lock file %d bytes, with a note each; Markdown of everything %d bytes", len(data), len(text))
}
