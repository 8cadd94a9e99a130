package audit_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A clock is a time that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

func day(n int) time.Time { return time.Date(2026, 3, n, 23, 59, 0, 0, time.UTC) }

// A folder is a Dir with its path, clock and log.
type folder struct {
	*audit.Dir
	t     *testing.T
	path  string
	clock *clock
	log   *local.Buffer
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	f := &folder{t: t, path: filepath.Join(t.TempDir(), "audit"), clock: &clock{now: day(4)}, log: &local.Buffer{}}
	f.open()
	return f
}

// open opens the folder as a starting program does.
func (f *folder) open() {
	f.t.Helper()
	d, err := audit.OpenDir(f.path, &audit.DirOptions{Now: f.clock.Now, Log: slog.New(slog.NewTextHandler(f.log, nil)), Days: func() int { return 3 }})
	require.OK(f.t, err)
	f.Dir = d
	f.t.Cleanup(func() { _ = d.Close() })
}

func (f *folder) reopen() {
	f.t.Helper()
	require.OK(f.t, f.Close())
	f.open()
}

// write writes one line about a call for each tool.
func (f *folder) write(tools ...string) {
	f.t.Helper()
	for _, name := range tools {
		require.OK(f.t, f.Write(f.t.Context(), audit.Line{V: 1, Time: f.clock.Now(), Kind: audit.KindCall, Agent: "ci", Tool: name, Decision: audit.Allowed}))
	}
}

// all returns the tools of calls and the kinds of other lines, the newest first.
func (f *folder) all() string {
	f.t.Helper()
	lines, next, err := f.Read(f.t.Context(), audit.Filter{}, "", 1000)
	if err != nil || next != "" {
		f.t.Fatalf("next %q, %v", next, err)
	}
	var out []string
	for _, l := range lines {
		if l.Kind == audit.KindCall {
			out = append(out, l.Tool)
		} else {
			out = append(out, l.Kind)
		}
	}
	return strings.Join(out, " ")
}

// files returns the names of the files with lines.
func (f *folder) files() string {
	f.t.Helper()
	entries, err := os.ReadDir(f.path)
	require.OK(f.t, err)
	var out []string
	for _, e := range entries {
		if day, ok := strings.CutSuffix(e.Name(), ".jsonl"); ok {
			out = append(out, day)
		}
	}
	return strings.Join(out, " ")
}

func (f *folder) file(n int) string {
	return filepath.Join(f.path, fmt.Sprintf("2026-03-%02d.jsonl", n))
}

// change rewrites the file of a day.
func (f *folder) change(n int, do func([]byte) []byte) {
	f.t.Helper()
	raw, err := os.ReadFile(f.file(n))
	require.OK(f.t, err)
	require.OK(f.t, os.WriteFile(f.file(n), do(raw), 0o600))
}

// verify runs the script that checks the files without this program.
func (f *folder) verify() (said string, ok bool) {
	f.t.Helper()
	return runPython(f.t, "verify.py", f.path)
}

// runPython runs a script, and reports whether its exit code is 0.
func runPython(t testing.TB, args ...string) (said string, ok bool) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "python3", args...).CombinedOutput()
	if exit, failed := errors.AsType[*exec.ExitError](err); err != nil && (!failed || exit.ExitCode() != 1 || bytes.Contains(out, []byte("Traceback"))) {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out), err == nil
}

// WriteAll writes the same lines as a Write for each line. If the lines cannot be written, the Dir
// counts each of them.
func TestDirWritesTogether(t *testing.T) {
	lines := func(f *folder, names ...string) (all []audit.Line) {
		for _, name := range names {
			all = append(all, audit.Line{V: 1, Time: f.clock.Now(), Kind: audit.KindCall, Agent: "ci", Tool: name, Decision: audit.Allowed})
		}
		return all
	}
	one, many := newFolder(t), newFolder(t)
	one.write("a:1", "a:2", "a:3", "a:4")
	many.write("a:1")
	require.OK(t, audit.NewLog(many.Dir).WriteAll(t.Context(), lines(many, "a:2", "a:3", "a:4")))
	require.OK(t, many.WriteAll(t.Context(), nil))
	want, err := os.ReadFile(one.file(4))
	require.OK(t, err)
	if got, err := os.ReadFile(many.file(4)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("at once:\n%s\n%v, one by one:\n%s", got, err, want)
	}
	if said, ok := many.verify(); !ok {
		t.Error(said)
	}
	require.OK(t, os.RemoveAll(many.path))
	require.OK(t, os.WriteFile(many.path, nil, 0o600))
	if err := many.WriteAll(t.Context(), lines(many, "b:1", "b:2")); err == nil {
		t.Error("WriteAll succeeded without a folder")
	}
	require.OK(t, os.Remove(many.path))
	many.write("b:3")
	if got := many.all(); got != "b:3 note" {
		t.Errorf("read %q, want \"b:3 note\"", got)
	}
	found, _, err := many.Read(t.Context(), audit.Filter{}, "", 2)
	if err != nil || !strings.HasPrefix(found[1].Note, "2 lines could not be written") {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestDirChain(t *testing.T) {
	zeros := strings.Repeat("0", 64)
	whole := func(t *testing.T) *folder {
		f := newFolder(t)
		f.write("a:1", "a:2", "a:3")
		f.clock.set(day(5))
		f.write("a:4", "a:5\nx")
		f.reopen()
		f.write("a:6")
		f.clock.set(day(6))
		f.reopen()
		f.write("a:7")
		require.OK(t, f.Close())
		return f
	}
	line := func(raw []byte, n int) (from, to int) {
		for range n {
			from += bytes.IndexByte(raw[from:], '\n') + 1
		}
		return from, from + bytes.IndexByte(raw[from:], '\n') + 1
	}
	f := whole(t)
	if said, ok := f.verify(); !ok || !strings.HasPrefix(said, "begins after "+zeros+"\nends with ") {
		t.Errorf("whole: %s", said)
	}
	if got, files := f.all(), f.files(); got != "a:7 a:6 a:5\uFFFDx a:4 a:3 a:2 a:1" || files != "2026-03-04 2026-03-05 2026-03-06" {
		t.Errorf("read %q of %s", got, files)
	}
	info, err := os.Stat(f.file(4))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, test := range []struct {
		name  string
		do    func(f *folder)
		where string
	}{
		{"changed", func(f *folder) {
			f.change(4, func(raw []byte) []byte { return bytes.Replace(raw, []byte("a:2"), []byte("b:2"), 1) })
		}, "2026-03-04.jsonl:3 "},
		{"removed", func(f *folder) {
			f.change(4, func(raw []byte) []byte { from, to := line(raw, 1); return append(raw[:from:from], raw[to:]...) })
		}, "2026-03-04.jsonl:2 "},
		{"the last of a day", func(f *folder) {
			f.change(5, func(raw []byte) []byte { from, _ := line(raw, 2); return raw[:from] })
		}, "2026-03-06.jsonl:1 "},
		{"put in", func(f *folder) {
			f.change(5, func(raw []byte) []byte { from, to := line(raw, 0); return append(raw[from:to:to], raw...) })
		}, "2026-03-05.jsonl:2 "},
		{"two changed places", func(f *folder) {
			f.change(5, func(raw []byte) []byte { a, b := line(raw, 0); return append(raw[b:len(raw):len(raw)], raw[a:b]...) })
		}, "2026-03-05.jsonl:1 "},
		{"a day removed", func(f *folder) { require.OK(t, os.Remove(f.file(5))) }, "2026-03-06.jsonl:1 "},
		{"no line", func(f *folder) {
			f.change(6, func(raw []byte) []byte { return append([]byte("\x00\xff\n"), raw...) })
		}, "2026-03-06.jsonl:1 cannot be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := whole(t)
			test.do(f)
			if said, ok := f.verify(); ok || !strings.Contains(said, test.where) {
				t.Errorf("%s", said)
			}
			file, _, _ := strings.Cut(test.where, ":")
			if c := f.chain(time.Time{}, time.Time{}); c.Count == 0 || !strings.HasPrefix(c.Faults[0], file) {
				t.Errorf("Check found %q", c.Faults)
			}
		})
	}
}

func TestDirDays(t *testing.T) {
	f := newFolder(t)
	f.write("a:4")
	f.clock.set(day(3)) // set back
	f.write("a:5")
	f.reopen()
	f.write("a:6")
	if f.files() != "2026-03-04" || f.all() != "a:6 a:5 a:4" {
		t.Errorf("%s: %s", f.files(), f.all())
	}
	for n := 5; n <= 9; n++ {
		f.clock.set(day(n))
		f.write(fmt.Sprintf("b:%d", n))
	}
	if f.files() != "2026-03-06 2026-03-07 2026-03-08 2026-03-09" {
		t.Errorf("kept: %s", f.files())
	}
	if said, ok := f.verify(); !ok || strings.Contains(said, "begins after 0000") {
		t.Errorf("after the first days are gone: %s", said)
	}
	f.clock.set(day(30))
	f.reopen()
	if f.files() != "2026-03-06 2026-03-07 2026-03-08 2026-03-09" {
		t.Errorf("the newest file was removed before there was a newer file: %s", f.files())
	}
	f.write("c:1")
	if said, ok := f.verify(); f.files() != "2026-03-30" || !ok {
		t.Errorf("%s: %s", f.files(), said)
	}
}

func TestDirDamage(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(raw []byte) []byte
		want string // the lines after a start and one more call
	}{
		{"torn", func(raw []byte) []byte { return raw[:len(raw)-20] }, "a:3 note damaged a:1"},
		{"zeros after a loss of power", func(raw []byte) []byte { return append(raw, make([]byte, 100)...) }, "a:3 note damaged a:2 a:1"},
		{"a line of zeros", func(raw []byte) []byte { return append(append(raw, make([]byte, 100)...), '\n') }, "a:3 note damaged a:2 a:1"},
		{"a line without its line end", func(raw []byte) []byte { return raw[:len(raw)-1] }, "a:3 note a:2 a:1"},
		{"a long damaged line", func(raw []byte) []byte { return append(raw, bytes.Repeat([]byte("x"), 1<<20)...) }, "a:3 note damaged a:2 a:1"},
		{"nothing is left", func([]byte) []byte { return nil }, "a:3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFolder(t)
			f.write("a:1", "a:2")
			require.OK(t, f.Close())
			f.change(4, test.do)
			f.open()
			f.write("a:3")
			if got := f.all(); got != test.want {
				t.Errorf("read %q, want %q", got, test.want)
			}
			said, ok := f.verify()
			if damaged := strings.Contains(test.want, "damaged"); ok == damaged || strings.Count(said, "follows") > 1 {
				t.Errorf("verification says: %s", said)
			}
			f.reopen()
			if got := f.all(); got != test.want {
				t.Errorf("after another start %q, want %q", got, test.want)
			}
		})
	}
	t.Run("while it is open", func(t *testing.T) {
		for name, do := range map[string]func(f *folder){
			"a line is inserted": func(f *folder) { f.change(4, func(raw []byte) []byte { return append(raw, "{\"v\":1}\n"...) }) },
			"a line is removed": func(f *folder) {
				f.change(4, func(raw []byte) []byte { return raw[:bytes.IndexByte(raw, '\n')+1] })
			},
			"the file is removed":   func(f *folder) { require.OK(t, os.Remove(f.file(4))) },
			"the folder is removed": func(f *folder) { require.OK(t, os.RemoveAll(f.path)) },
		} {
			f := newFolder(t)
			f.write("a:1", "a:2")
			do(f)
			require.OK(t, f.Ready(t.Context()))
			f.write("a:3", "a:4")
			if got := f.all(); !strings.HasPrefix(got, "a:4 a:3") {
				t.Errorf("%s: %s", name, got)
			}
			said, ok := f.verify()
			if begins := "begins after " + strings.Repeat("0", 64); ok && strings.HasPrefix(said, begins) {
				t.Errorf("%s, but verification does not report it: %s", name, said)
			}
		}
	})
}

// If another file replaces the open file, as when an editor saves it, the Dir continues with the
// new file, even if its content is the same.
func TestDirCopyInPlace(t *testing.T) {
	f := newFolder(t)
	f.write("a:1", "a:2")
	raw, err := os.ReadFile(f.file(4))
	require.OK(t, err)
	require.OK(t, os.WriteFile(f.path+".copy", raw, 0o600))
	require.OK(t, os.Rename(f.path+".copy", f.file(4)))
	f.write("a:3")
	if got := f.all(); got != "a:3 a:2 a:1" {
		t.Errorf("read %q", got)
	}
	if said, ok := f.verify(); !ok {
		t.Error(said)
	}
}

// Calls of eight goroutines and a reader run at once: each line is in the files once, and the chain
// is whole.
func TestDirParallel(t *testing.T) {
	f := newFolder(t)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := range 50 {
				if err := errors.Join(f.Ready(t.Context()), f.Write(t.Context(), audit.Line{Kind: audit.KindCall, Time: f.clock.Now(), Tool: fmt.Sprintf("w%d:%d", w, n)})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			if _, _, err := f.Read(t.Context(), audit.Filter{}, "", 1000); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	if got := strings.Fields(f.all()); len(got) != 400 {
		t.Errorf("%d lines", len(got))
	}
	if said, ok := f.verify(); !ok {
		t.Error(said)
	}
}

// A program that is killed during its calls leaves a whole chain, except for an unfinished line.
// Verification and a note both name that line.
func TestDirKilled(t *testing.T) {
	if path := os.Getenv("AUDIT_TEST_DIR"); path != "" {
		d, err := audit.OpenDir(path, nil)
		require.OK(t, err)
		for n := 0; ; n++ {
			require.OK(t, d.Write(t.Context(), audit.Line{Kind: audit.KindCall, Time: time.Now(), Tool: fmt.Sprintf("k:%d", n)}))
			fmt.Println("written", n)
		}
	}
	f := newFolder(t)
	require.OK(t, f.Close())
	written := -1
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDirKilled$")
		cmd.Env = append(os.Environ(), "AUDIT_TEST_DIR="+f.path)
		out, err := cmd.StdoutPipe()
		require.OK(t, err)
		require.OK(t, cmd.Start())
		said := bufio.NewScanner(out)
		for n := 0; n < 500 && said.Scan(); n++ {
			_, _ = fmt.Sscanf(said.Text(), "written %d", &written)
		}
		require.OK(t, cmd.Process.Signal(syscall.SIGKILL))
		_ = cmd.Wait()
	}
	f.open()
	torn := strings.Contains(strings.Join(f.notes(), "\n"), "is incomplete: the program ended while it wrote that line")
	require.OK(t, f.Close())
	if said, ok := f.verify(); ok == torn || torn && !strings.Contains(said, "cannot be read") {
		t.Errorf("a line is torn: %v; verification says %s", torn, said)
	}
	lines, _, err := audit.Folder(f.path).Read(t.Context(), audit.Filter{Tool: fmt.Sprintf("k:%d", written)}, "", 10)
	if err != nil || len(lines) == 0 {
		t.Errorf("line %d was written, but is missing: %v", written, err)
	}
	for range 2 { // only the first start after a kill adds a note
		f.open()
		notes := f.notes()
		for _, note := range notes {
			if !strings.Contains(note, "Lines after it may be missing") {
				t.Errorf("%q", note)
			}
		}
		if len(notes) != 3 {
			t.Errorf("%d notes: %q", len(notes), notes)
		}
		require.OK(t, f.Close())
	}
}

// A line that is written after Close is lost. The next start notes that lines may be missing.
func TestDirLineAfterClose(t *testing.T) {
	f := newFolder(t)
	f.write("a:1")
	f.reopen()
	if notes := f.notes(); len(notes) > 0 {
		t.Errorf("after a clean end: %q", notes)
	}
	require.OK(t, f.Close())
	if f.Write(t.Context(), audit.Line{Kind: audit.KindCall, Tool: "a:2"}) == nil {
		t.Error("Write succeeds after Close")
	}
	f.open()
	if notes := f.notes(); len(notes) != 1 || !strings.Contains(notes[0], "Lines after it may be missing. The program wrote that line at 2026-03-04T23:59:00Z.") {
		t.Errorf("%q", notes)
	}
}

func TestDirCannotWrite(t *testing.T) {
	f := newFolder(t)
	f.write("a:1")
	require.OK(t, f.Close())
	if err := f.Ready(t.Context()); err == nil {
		t.Error("a closed Dir is ready")
	}
	f.open()
	f.write("a:2")
	require.OK(t, os.RemoveAll(f.path))
	require.OK(t, os.WriteFile(f.path, nil, 0o600)) // prevents making a folder there
	for range 3 {
		if err := f.Write(context.Background(), audit.Line{Kind: audit.KindCall, Time: f.clock.Now(), Tool: "a:3"}); err == nil {
			t.Error("Write succeeds without a folder")
		}
	}
	if f.Failures() == 0 {
		t.Error("no failure is counted")
	}
	if f.Fault() == nil || f.Ready(t.Context()) == nil || strings.Count(f.log.String(), "a line of the audit is lost") != 1 {
		t.Errorf("fault %v, log %s", f.Fault(), f.log)
	}
	require.OK(t, os.Remove(f.path))
	f.clock.set(f.clock.Now().Add(time.Second / 2))
	if f.Ready(t.Context()) == nil {
		t.Error("Ready tries again at once")
	}
	f.clock.set(f.clock.Now().Add(time.Second))
	if err := errors.Join(f.Ready(t.Context()), f.Fault()); err != nil {
		t.Errorf("after the folder is possible again: %v", err)
	}
	f.write("a:4")
	lines, _, err := f.Read(t.Context(), audit.Filter{Kind: audit.KindNote}, "", 10)
	if err != nil || len(lines) != 1 || !strings.HasPrefix(lines[0].Note, "3 lines could not be written") || f.all() != "a:4 note" {
		t.Errorf("%+v, %v, %s", lines, err, f.all())
	}
}
