//go:build unix

// Package operator walks the whole way of an operator, as it is typed: from an empty folder to a locked
// tool that an agent finds, to the same tool unlocked by a lock file, to a change of the server that
// locks it again, with the gateway running and without. The program is any binary of it, so that what
// a release holds is walked with as well as what this tree builds. The way is typed into a shell of Unix.
package operator

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// way is the script. It ends with an error at the first thing that is not as it has to be.
//
//go:embed testdata/way.sh
var way string

// Walk walks with the program at a path, once with a server that has a URL, once with one that is a program.
func Walk(t *testing.T, program string) {
	t.Helper()
	bin := t.TempDir()
	program, err := filepath.Abs(program)
	require.OK(t, err)
	require.OK(t, os.Symlink(program, filepath.Join(bin, "portcullis")))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "others"), "github.com/portcullis-mcp/portcullis/test/operator/others")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server and the agent: %v\n%s", err, out)
	}
	t.Run("url", func(t *testing.T) { walk(t, bin, "url") })
	t.Run("command", func(t *testing.T) { walk(t, bin, "command") })
}

func walk(t *testing.T, bin, kind string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", way)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(),
		"KIND=" + kind, "GATE=" + local.Addr(t), "TICKETS=" + local.Addr(t),
	}
	// Processes that the script starts are in its group, and end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	log := &local.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	err := cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually nothing is left
	if err != nil {
		t.Fatalf("the way ends with %v:\n%s", err, log)
	}
	t.Log(log)
}
