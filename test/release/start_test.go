package release

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// unpacked returns the path of this platform's program, from its archive.
func unpacked(t *testing.T) string {
	t.Helper()
	for _, a := range artifacts(t, "Archive") {
		if a.Extra.ID != "portcullis" || a.Goos != runtime.GOOS || a.Goarch != runtime.GOARCH {
			continue
		}
		program := filepath.Join(t.TempDir(), "portcullis")
		require.OK(t, os.WriteFile(program, unpack(t, a.Path)["portcullis"].data, 0o755))
		return program
	}
	t.Fatalf("the snapshot has no archive for %s/%s", runtime.GOOS, runtime.GOARCH)
	return ""
}

func TestVersionOfTheRelease(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), unpacked(t), "version", "-o", "json").Output()
	require.OK(t, err)
	got := require.JSON[struct{ Version, Commit, Date, Go string }](t, out)
	text, err := os.ReadFile(filepath.Join(dist(t), "metadata.json"))
	require.OK(t, err)
	made := require.JSON[struct{ Version, Commit string }](t, text)
	if got.Version != "v"+made.Version || got.Commit != made.Commit || len(made.Commit) != 40 || got.Go != runtime.Version() {
		t.Errorf("the program says %s, want v%s, commit %s and %s", out, made.Version, made.Commit, runtime.Version())
	}
	if _, err := time.Parse(time.RFC3339, got.Date); err != nil {
		t.Errorf("date: %v", err)
	}
}

// serveUntil starts serve, waits until it prints a text, and returns how long that took. serve ends
// with the test.
func serveUntil(t *testing.T, cmd *exec.Cmd, text string) time.Duration {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	require.OK(t, err)
	log := &local.Buffer{}
	cmd.Stderr = log
	begun := time.Now()
	require.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			go func() { // keep reading, so that further output does not fill the pipe
				for lines.Scan() {
				}
			}()
			return time.Since(begun)
		}
	}
	t.Fatalf("serve did not print %q:\n%s", text, log)
	return 0
}

func TestServeOfTheRelease(t *testing.T) {
	program, dir, addr := unpacked(t), t.TempDir(), local.Addr(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first := serveUntil(t, exec.CommandContext(ctx, program, "serve", "--demo", "--dir", dir, "--addr", addr), "portcullis is ready")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/healthz", nil)
	require.OK(t, err)
	res, err := http.DefaultClient.Do(req)
	require.OK(t, err)
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("/healthz answers %s", res.Status)
	}
	t.Logf("from the start of the program to ready, with two servers read: %v", first.Round(time.Millisecond))
}

// TestRestartOfTheRelease measures the time from a restart with a stored catalog to the first
// answer.
func TestRestartOfTheRelease(t *testing.T) {
	program, dir := unpacked(t), t.TempDir()
	best := time.Hour
	for range 5 {
		addr := local.Addr(t)
		cmd := exec.CommandContext(t.Context(), program, "serve", "--demo", "--dir", dir, "--addr", addr)
		begun := time.Now()
		require.OK(t, cmd.Start())
		local.Until(t, "it answers", func() bool {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/healthz", nil)
			require.OK(t, err)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return false
			}
			res.Body.Close()
			best = min(best, time.Since(begun))
			return true
		})
		require.OK(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait() // it got a signal to end
	}
	t.Logf("from the start of the program to the first answer, the best of five: %v", best.Round(time.Millisecond))
}
