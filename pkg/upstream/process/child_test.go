//go:build unix

package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/linereader"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/process"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// sh returns a program that runs a shell script.
func sh(script string) process.Program {
	return process.Program{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}}
}

// A run is a program whose lines are collected.
type run struct {
	*process.Process
	lines chan linereader.Line
}

func start(t *testing.T, script string, o process.Options) run {
	t.Helper()
	h := process.NewHost(1)
	r := run{lines: make(chan linereader.Line, 100)}
	o.Line = func(l linereader.Line) {
		l.Data, l.Tail = bytes.Clone(l.Data), bytes.Clone(l.Tail)
		r.lines <- l
	}
	p, err := h.Start(sh(script), o)
	require.OK(t, err)
	r.Process = p
	t.Cleanup(func() { h.Close(t.Context(), 10*time.Millisecond) })
	return r
}

// next returns the next line.
func (r run) next(t *testing.T) string {
	t.Helper()
	select {
	case l := <-r.lines:
		return string(l.Data)
	case <-time.After(local.Patience):
		t.Fatal("no line came")
		return ""
	}
}

// alive reports whether a process runs and is no zombie.
func alive(t *testing.T, pid string) bool {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), "ps", "-o", "stat=", "-p", pid).Output() // fails if there is no process
	state := strings.TrimSpace(string(out))
	return state != "" && state[0] != 'Z'
}

// gone fails the test if the process does not end in time.
func gone(t *testing.T, pid string) {
	t.Helper()
	if !local.WaitFor(func() bool { return !alive(t, pid) }) {
		t.Errorf("process %s has not ended", pid)
	}
}

func TestLines(t *testing.T) {
	r := start(t, `while read -r line; do echo "got $line"; done; echo bye`, process.Options{})
	for i := range 3 {
		sent, err := r.Send(t.Context(), fmt.Appendf(nil, "line %d", i))
		if !sent || err != nil {
			t.Fatalf("Send = %v, %v", sent, err)
		}
		if got, want := r.next(t), fmt.Sprint("got line ", i); got != want {
			t.Errorf("line %q, want %q", got, want)
		}
	}
	r.Stop(t.Context(), 10*time.Second)
	if got := r.next(t); got != "bye" {
		t.Errorf("last line = %q, want bye: Stop must let a program end after its input", got)
	}
	if exit := r.Exit(); !exit.State.Success() {
		t.Errorf("exit: %v", exit)
	}
	if sent, err := r.Send(t.Context(), []byte("late")); sent || !errors.As(err, new(*process.ExitError)) {
		t.Errorf("Send after the end = %v, %v", sent, err)
	}
}

func TestEnvironment(t *testing.T) {
	ours := map[string]string{
		"PATH": "/bin", "HOME": "/root", "SECRET": "s", "VAULT": "v",
		"http_proxy": "http://p:1", "https_proxy": "http://p:2", "NODE_EXTRA_CA_CERTS": "/ca.pem",
	}
	getenv := func(name string) string { return ours[name] }
	got := process.Environment(getenv, []string{"VAULT", "UNSET"}, map[string]string{"HOME": "/elsewhere", "KEY": "k", "HTTPS_PROXY": "http://own"})
	want := "HOME=/elsewhere HTTPS_PROXY=http://own KEY=k NODE_EXTRA_CA_CERTS=/ca.pem PATH=/bin VAULT=v http_proxy=http://p:1"
	if strings.Join(got, " ") != want {
		t.Errorf("Environment = %q, want %q", got, want)
	}
}

func TestStop(t *testing.T) {
	for name, script := range map[string]string{
		"ends with its input":    `cat`,
		"ends at SIGTERM":        `while :; do sleep 0.01; done`,
		"ignores both":           `trap "" TERM; while :; do sleep 0.01; done`,
		"has closed its output":  `exec >&-; while :; do sleep 0.01; done`,
		"writes without reading": `yes`,
	} {
		t.Run(name, func(t *testing.T) {
			h := process.NewHost(1)
			p, err := h.Start(sh(script), process.Options{Line: func(linereader.Line) {}})
			require.OK(t, err)
			if p.Stop(t.Context(), 100*time.Millisecond); h.Running() != 0 {
				t.Errorf("%d run", h.Running())
			}
		})
	}
}

// A short patience does not interrupt a program that may still finish.
func TestStopLetsFinish(t *testing.T) {
	finished := filepath.Join(t.TempDir(), "finished")
	h := process.NewHost(1)
	p, err := h.Start(sh(`sleep 0.2; echo > "`+finished+`"`), process.Options{
		Line: func(linereader.Line) {}, Finish: func() time.Duration { return time.Minute },
	})
	require.OK(t, err)
	p.Stop(t.Context(), time.Millisecond)
	if _, err := os.Stat(finished); err != nil {
		t.Errorf("the program was interrupted: %v", p.Exit())
	}
}

func TestGroup(t *testing.T) {
	t.Run("stopped", func(t *testing.T) {
		r := start(t, `sleep 1000 & echo $!; sh -c 'trap "" TERM; sleep 1001 & echo $!; wait' & wait`, process.Options{})
		first, second := r.next(t), r.next(t)
		r.Stop(t.Context(), 50*time.Millisecond)
		gone(t, first)
		gone(t, second)
	})
	t.Run("program has ended", func(t *testing.T) {
		r := start(t, `sleep 1000 & echo $!`, process.Options{})
		grandchild := r.next(t)
		<-r.ExitChannel() // even though the grandchild has its streams
		gone(t, grandchild)
	})
	t.Run("out of the group", func(t *testing.T) { // Stop cannot end it, and must not block
		r := start(t, `setsid sleep 1000 & echo $!`, process.Options{})
		pid, err := strconv.Atoi(r.next(t))
		require.OK(t, err)
		defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
		select {
		case <-r.ExitChannel():
		case <-time.After(local.Patience):
			t.Error("a process that left the group keeps the streams open")
		}
	})
}

func TestKilledWithUs(t *testing.T) {
	// A second copy of this test binary starts the program, and SIGKILL ends the copy.
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("only Linux ends programs whose parent was killed")
	}
	exe, err := os.Executable()
	require.OK(t, err)
	c := exec.CommandContext(t.Context(), exe)
	c.Env = append(os.Environ(), parentOf+"=trap '' TERM; echo $$; while :; do sleep 0.01; done")
	out, err := c.StdoutPipe()
	require.OK(t, err)
	require.OK(t, c.Start())
	line := make([]byte, 32)
	n, err := out.Read(line)
	require.OK(t, err)
	require.OK(t, c.Process.Kill())
	_ = c.Wait() // killed
	gone(t, strings.TrimSpace(string(line[:n])))
}

// parentOf makes this binary start a program, print its output, and wait.
const parentOf = "CHILD_TEST_PARENT_OF"

func TestMain(m *testing.M) {
	if script := os.Getenv(parentOf); script != "" {
		if _, err := process.NewHost(1).Start(sh(script), process.Options{Line: func(l linereader.Line) { fmt.Println(string(l.Data)) }}); err != nil {
			panic(err)
		}
		select {}
	}
	os.Exit(m.Run())
}

func TestNoReader(t *testing.T) {
	r := start(t, `exec sleep 1000`, process.Options{})
	var ctx context.Context
	var err error
	for sent := false; !sent; { // sent stays false if the time ends before the write begins
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		// More than a pipe holds: the write of the first line has begun, so it may arrive later.
		if sent, err = r.Send(ctx, make([]byte, 1<<20)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Send = %v, %v", sent, err)
		}
	}
	// The write of the second line has not begun.
	if sent, err := r.Send(ctx, []byte("x")); sent || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Send = %v, %v", sent, err)
	}
	r.Stop(t.Context(), 50*time.Millisecond)
}

func TestInputClosed(t *testing.T) {
	r := start(t, `exec <&-; echo closed; exec sleep 1000`, process.Options{})
	r.next(t)
	if sent, err := r.Send(t.Context(), []byte("x")); sent || !errors.As(err, new(*process.ExitError)) {
		t.Errorf("Send = %v, %v; want the program ended, because it no longer reads", sent, err)
	}
}

func TestLongLine(t *testing.T) {
	r := start(t, `head -c 5000000 /dev/zero | tr '\0' x; echo END; echo short; printf 'no end'`, process.Options{MaxLine: 1000})
	l := <-r.lines
	if !l.Long || l.Size != 5_000_003 || len(l.Data) < 1000 || len(l.Data) > 1010 || !bytes.HasSuffix(l.Tail, []byte("xEND")) {
		t.Errorf("line of %d bytes, long %v, %d and %q", l.Size, l.Long, len(l.Data), l.Tail)
	}
	if got := r.next(t) + ", " + r.next(t); got != "short, no end" {
		t.Errorf("lines after the long line = %q", got)
	}
}

func TestStandardError(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	o := process.Options{
		Log:   slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return log.Write(b) }), nil)),
		Clean: func(line string) string { return strings.ReplaceAll(line, "hunter2", "[secret]") },
	}
	r := start(t, `echo "password hunter2" >&2; yes flood | head -n 200000 >&2; head -c 100000 /dev/zero | tr '\0' y >&2; printf '\033[31mred\n' >&2; exit 4`, o)
	<-r.ExitChannel()
	mu.Lock()
	defer mu.Unlock()
	text := log.String()
	if strings.Contains(text, "hunter2") || !strings.Contains(text, "password [secret]") || strings.ContainsRune(text, 0x1b) {
		t.Errorf("log: %.300s", text)
	}
	if n := strings.Count(text, "\n"); n > 110 || len(text) > 100_000 || !strings.Contains(text, "lines=") {
		t.Errorf("%d lines, %d bytes are logged; want a limited number, and the number of the other lines",
			n, len(text))
	}
	if exit := r.Exit(); !strings.Contains(exit.Error(), "exit status 4") || len(exit.Error()) > 2000 {
		t.Errorf("exit: %s", exit)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestHost(t *testing.T) {
	h := process.NewHost(2)
	o := process.Options{Line: func(linereader.Line) {}}
	for range 2 {
		_, err := h.Start(sh("cat"), o)
		require.OK(t, err)
	}
	if _, err := h.Start(sh("cat"), o); !errors.Is(err, process.ErrFull) {
		t.Errorf("Start = %v, want ErrFull", err)
	}
	h.Close(t.Context(), time.Second)
	if _, err := h.Start(sh("cat"), o); !errors.Is(err, process.ErrClosed) || h.Running() != 0 {
		t.Errorf("Start = %v, %d run", err, h.Running())
	}
	h = process.NewHost(1)
	if _, err := h.Start(process.Program{Path: filepath.Join(t.TempDir(), "none")}, o); !errors.As(err, new(*process.StartError)) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Start = %v", err)
	}
	if _, err := h.Start(process.Program{Path: "/bin/cat", Dir: "/no/such/folder"}, o); !errors.As(err, new(*process.StartError)) || h.Running() != 0 {
		t.Errorf("Start = %v, %d run", err, h.Running())
	}
}

// TestNothingLeft counts descriptors and processes before and after many programs.
func TestNothingLeft(t *testing.T) {
	count := func() (int, int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc here")
		}
		threads, err := filepath.Glob("/proc/self/task/*/children")
		require.OK(t, err)
		n := 0
		for _, thread := range threads {
			children, _ := os.ReadFile(thread) // the thread may have ended
			n += len(strings.Fields(string(children)))
		}
		return len(fds), n
	}
	one := func() {
		h := process.NewHost(8)
		for _, script := range []string{"cat", "yes", "exit 1", "sleep 100 & exit 0", `trap "" TERM; while :; do sleep 0.01; done`} {
			_, err := h.Start(sh(script), process.Options{Line: func(linereader.Line) {}})
			require.OK(t, err)
		}
		_, _ = h.Start(process.Program{Path: "/no/such/program"}, process.Options{}) // fails
		h.Close(t.Context(), 20*time.Millisecond)
	}
	one()
	fds, children := count()
	for range 4 {
		one()
	}
	if f, c := count(); f > fds+1 || c > children {
		t.Errorf("%d descriptors and %d children, before %d and %d", f, c, fds, children)
	}
}
