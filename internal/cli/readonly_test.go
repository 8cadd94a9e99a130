package cli

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// readings are the read-only commands, without --dir, and their exit codes on a folder that was
// served.
var readings = []struct {
	words string
	code  int
}{
	{"status", 0}, {"doctor", 0}, {"doctor --probe", 0}, {"tools", 0}, {"tools s:ping", 0}, {"tools --hashes", 0},
	{"diff s:ping", exitDrift}, {"audit", 0}, {"requests", 0}, {"requests show R-7KQ2M4XD", 1}, {"stop", 0},
	{"try ping", 0}, {"connect cursor", 0}, {"open", 1}, {"approvals write /dev/null", 0}, {"approvals check", 1},
}

// A read-only command changes no name, byte or time in the folder of a gateway: before the first
// start, after it, and after a gateway was killed and left its files.
func TestReadingCommandsWriteNothing(t *testing.T) {
	_, config := ping(t)
	for name, env := range map[string]map[string]string{"none": {}, "token": programtest.Tokens().Env} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			dir, s := t.TempDir(), newTerminal(t, nil)
			s.env = maps.Clone(env)
			delete(s.env, "PORTCULLIS_TOKEN_KEY") // so that the key is in a file of the folder
			programtest.WriteConfig(t, dir, config(""))
			readAll(t, s, dir, false)
			p := startWith(t, s.env, dir)
			require.OK(t, p.stop())
			require.OK(t, folder.WriteInfo(dir, folder.Info{Address: "http://127.0.0.1:1", PID: os.Getpid()}))
			readAll(t, s, dir, true)
			if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
				t.Errorf("temporary files were not removed: %v, %v", left, err)
			}
		})
	}
}

func readAll(t *testing.T, s *terminal, dir string, wasServed bool) {
	t.Helper()
	aged := time.Now().Add(-time.Hour)
	require.OK(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		require.OK(t, err)
		return os.Chtimes(path, aged, aged)
	}))
	before := snapshot(t, dir)
	unchanged := func(words string) {
		if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
			t.Fatalf("%s changes the folder (-before +after):\n%s\n%s", words, diff, s.text.String())
		}
	}
	for _, r := range readings {
		_, code := s.run(append(strings.Fields(r.words), "--dir", dir)...)
		if wasServed && code != r.code {
			t.Errorf("%s ends with %d, want %d:\n%s", r.words, code, r.code, s.text.String())
		}
		unchanged(r.words)
	}
	_, code := s.run("token", "--dir", dir)
	if want := map[bool]int{true: 0, false: 1}[s.env["PORTCULLIS_AUTH"] != ""]; code != want {
		t.Errorf("token ends with %d, want %d:\n%s", code, want, s.text.String())
	}
	unchanged("token")
	s.must(0, "check", dir)
	unchanged("check")
}

// snapshot returns the names, modes, times and bytes in a folder.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.OK(t, err)
		info, err := d.Info()
		require.OK(t, err)
		out[path] = info.Mode().String() + " " + info.ModTime().String()
		if info.Mode().IsRegular() {
			out[path] += "\n" + contents(t, path)
		}
		return nil
	}))
	return out
}
