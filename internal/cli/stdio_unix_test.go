//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
)

// installing writes the config of a program that serves after the file until exists.
func installing(t *testing.T) (dir, until string) {
	t.Helper()
	path, env := stdiotest.Program(t, stdiotest.Late)
	until = filepath.Join(t.TempDir(), "installed")
	env["LATE_UNTIL"] = until
	variables, err := json.Marshal(env)
	require.OK(t, err)
	dir = t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers": {"s": {"command": %q, "env": %s, "approval": "off"}}}`, path, variables))
	return dir, until
}

// If a client leaves during the first sync, the sync continues, no matter how the client ends the
// command. The next client waits for the sync, and still works after the first client's gateway has
// ended.
func TestFirstSyncOutlivesItsClient(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(cmd *exec.Cmd, in io.Closer) error{
		"closes standard input": func(_ *exec.Cmd, in io.Closer) error { return in.Close() },
		"sends SIGTERM to the processes": func(cmd *exec.Cmd, _ io.Closer) error {
			return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		},
		"kills the processes": func(cmd *exec.Cmd, _ io.Closer) error {
			return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, until := installing(t)
			addr := local.Addr(t)
			self, err := os.Executable()
			require.OK(t, err)
			cmd := exec.Command(self, "stdio", "--dir", dir, "--addr", addr, "--allow-commands")
			cmd.Env = append(os.Environ(), asProgram+"=1")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			log := &local.Buffer{}
			cmd.Stderr = log
			in, err := cmd.StdinPipe()
			require.OK(t, err)
			require.OK(t, cmd.Start())
			local.Until(t, "the program is started", func() bool { return strings.Contains(log.String(), "program started") })
			first, runs := folder.FindInfo(dir)
			if !runs {
				t.Fatal("no gateway runs")
			}
			t.Cleanup(func() {
				// if the gateway still runs, the test has failed
				if s, runs := folder.FindInfo(dir); runs {
					_ = syscall.Kill(s.PID, syscall.SIGKILL)
				}
			})
			require.OK(t, leave(cmd, in))
			// portcullis stdio ends at once, even though the program is not installed yet
			_ = cmd.Wait()
			if _, runs, err := folder.Running(dir); !runs {
				t.Fatalf("the gateway ended during its first sync: %v; log %s", err, log)
			}
			err = run(t.Context(), []string{"serve", "--dir", dir, "--addr", local.Addr(t)}, &environment{getenv: noEnv, stdout: &local.Buffer{}, stderr: &local.Buffer{}})
			if want := "process " + strconv.Itoa(first.PID) + " holds the folder: portcullis stdio started that gateway for a client"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("serve while that gateway runs: %v, want %s", err, want)
			}
			next := make(chan *mcp.ClientSession, 1)
			go func() {
				session, log, err := stdio(t, "--dir", dir, "--addr", addr, "--allow-commands")
				if err != nil {
					t.Errorf("the next client: %v; log %s", err, log)
				}
				next <- session
			}()
			require.OK(t, os.WriteFile(until, nil, 0o600))
			session := <-next
			if session == nil {
				return
			}
			if got := session.InitializeResult().Instructions; !strings.Contains(got, "Gateway to the tools of: s.") {
				t.Errorf("the next client gets %s", got)
			}
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(catalog.CurrentKey))); err != nil {
				t.Errorf("no catalog: %v", err)
			}
			local.Until(t, "the gateway of the first client ends", func() bool { s, runs := folder.FindInfo(dir); return !runs || s.PID != first.PID })
			_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "call_tool_read", Arguments: map[string]any{"name": "s:echo", "args": map[string]any{"text": "hi"}}})
			if err != nil {
				t.Errorf("a call after the first client's gateway has ended: %v", err)
			}
			require.OK(t, session.Close())
			// no process has the file open now
			store, err := bolt.Open(filepath.Join(dir, folder.ApprovalsFile), nil)
			require.OK(t, err)
			require.OK(t, store.Close())
		})
	}
}
