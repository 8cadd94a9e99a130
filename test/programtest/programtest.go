// Package programtest runs cmd/portcullis in a separate process, as an operator does. Tests can use
// the whole program, and kill it.
//
//	func TestMain(m *testing.M) { os.Exit(programtest.Main(m.Run)) }
//
//	programtest.WriteConfig(t, dir, `{"mcpServers": {}}`)
//	p := programtest.Start(t, dir)
//	p.Call("retrieve_tools", `{"query": "weather"}`)
//	p.Kill()
//	p.Start() // again, at the same address
package programtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/secrettest"
)

// build is the program, which is built once for each test binary.
var build struct {
	sync.Mutex
	folder string // "": Main is not running
	path   string
}

// Main runs the tests of a package that starts the program, removes the program, and returns the
// exit code.
func Main(run func() int) int {
	folder, err := os.MkdirTemp("", "portcullis")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	build.folder = folder
	return run()
}

// Build builds the program, unless it is built already, and returns its path.
func Build(t testing.TB) string {
	t.Helper()
	if built := repo.Programs(); built != "" {
		return filepath.Join(built, "portcullis")
	}
	build.Lock()
	defer build.Unlock()
	if build.folder == "" {
		t.Fatal("TestMain of this package has to call programtest.Main, which removes the program")
	}
	if build.path == "" {
		path := filepath.Join(build.folder, "portcullis")
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/portcullis-mcp/portcullis/cmd/portcullis")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build cmd/portcullis: %v\n%s", err, out)
		}
		build.path = path
	}
	return build.path
}

// A Program is a running gateway. Its requests to /admin contain the admin key, if there is one.
type Program struct {
	agenttest.Client
	Dir  string
	Link string // sign-in link for /admin; "": none
	Log  local.Buffer

	path, addr  string
	descriptors int
	args, env   []string
	cmd         *exec.Cmd
	out         *local.Buffer
	ended       chan error
}

// Start runs the program with a folder and a free port until the test ends. It returns after the
// first sync.
func Start(t testing.TB, dir string, args ...string) *Program {
	t.Helper()
	return StartWith(t, Access{}, dir, args...)
}

// An Access contains the settings for agents and for /admin. The zero Access is the access of a
// laptop: every agent may connect, and /admin needs the key in the program's folder.
type Access struct {
	Env         map[string]string // added to the environment of this process
	Admin       string            // credentials for /admin; "": the key in the folder
	Descriptors int               // limit of open descriptors; 0: the limit of this process
	Program     string            // path of a built program; "": the program of this commit
}

// Tokens returns an access that accepts only tokens. Admin is the bootstrap token, which can create
// agent tokens.
func Tokens() Access {
	first := token.New()
	return Access{
		Env: map[string]string{
			"PORTCULLIS_AUTH": "token", "PORTCULLIS_TOKEN_KEY": strings.Repeat("0f", 32), "PORTCULLIS_BOOTSTRAP_SHA256": token.Digest(first),
		},
		Admin: first.Reveal(),
	}
}

// StartWith is [Start] with the access a.
func StartWith(t testing.TB, a Access, dir string, args ...string) *Program {
	t.Helper()
	p := &Program{
		Client: agenttest.Client{T: t, Admin: a.Admin}, Dir: dir, path: a.Program, addr: "127.0.0.1:0",
		args: args, descriptors: a.Descriptors,
	}
	if p.path == "" {
		p.path = Build(t)
	}
	for name, value := range a.Env {
		p.env = append(p.env, name+"="+value)
	}
	t.Cleanup(func() {
		if p.cmd != nil {
			p.Stop()
		}
		secrettest.Absent(t, "the log of the program", p.Log.String())
		secrettest.AbsentBelow(t, p.Dir)
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", p.Log.String())
		}
	})
	p.Start()
	return p
}

// Start runs the program again, at the same address.
func (p *Program) Start() {
	p.T.Helper()
	p.out, p.ended = &local.Buffer{}, make(chan error, 1)
	args := append([]string{p.path, "serve", "--dir", p.Dir, "--addr", p.addr}, p.args...)
	if p.descriptors > 0 {
		args = append([]string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, p.descriptors)}, args...)
	}
	cmd := exec.CommandContext(context.WithoutCancel(p.T.Context()), args[0], args[1:]...)
	cmd.Env = append(append(os.Environ(), "PORTCULLIS_LOG_LEVEL=WARN"), p.env...)
	cmd.Stdout, cmd.Stderr = p.out, &p.Log
	require.OK(p.T, cmd.Start())
	p.cmd = cmd
	go func(ended chan<- error) { ended <- cmd.Wait() }(p.ended)
	local.Until(p.T, "the gateway is ready", func() bool { // it shows its banner in one write
		if len(p.ended) > 0 {
			p.cmd = nil
			p.T.Fatalf("the gateway ended before it was ready: %v\n%s", <-p.ended, p.Log.String())
		}
		return strings.Contains(p.out.String(), "portcullis is")
	})
	p.URL = p.out.Find(`MCP endpoint +(\S+)/mcp`)
	p.addr = strings.TrimPrefix(p.URL, "http://")
	p.Link = p.out.Find(`sign in +(\S+)`)
	if key, err := os.ReadFile(filepath.Join(p.Dir, "admin.key")); err == nil { // no key, no file
		p.Admin = strings.TrimSpace(string(key))
	}
}

// Setenv sets an environment variable of later starts.
func (p *Program) Setenv(name, value string) { p.env = append(p.env, name+"="+value) }

// PID returns the id of the process.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Stop ends the program with SIGTERM. The test fails if the exit code is not 0.
func (p *Program) Stop() {
	p.T.Helper()
	require.OK(p.T, p.cmd.Process.Signal(syscall.SIGTERM))
	if err := <-p.ended; err != nil {
		p.T.Errorf("after SIGTERM: %v\n%s", err, p.Log.String())
	}
	p.cmd = nil
}

// Kill ends the program with SIGKILL.
func (p *Program) Kill() { p.T.Helper(); p.Quit(syscall.SIGKILL) }

// Quit ends the program with a signal that does not allow an orderly shutdown. After SIGQUIT, Log
// contains the stacks of its goroutines.
func (p *Program) Quit(s syscall.Signal) {
	p.T.Helper()
	require.OK(p.T, p.cmd.Process.Signal(s))
	if _, killed := errors.AsType[*exec.ExitError](<-p.ended); !killed {
		p.T.Errorf("the gateway had ended before %v", s)
	}
	p.cmd = nil
}

// Token creates a token for an agent that may see and call everything, or for an admin. The program
// must have the access of [Tokens].
func (p *Program) Token(name string, admin bool) string {
	p.T.Helper()
	var made struct{ Token string }
	p.Ask(http.StatusCreated, "/admin/tokens", map[string]any{
		"name": name, "servers": []string{"*"}, "tiers": []string{"read", "write", "destructive"}, "admin": admin, "days": 1,
	}, &made)
	return made.Token
}

// Configure writes the config and syncs.
func (p *Program) Configure(data string) {
	p.T.Helper()
	WriteConfig(p.T, p.Dir, data)
	p.Sync()
}

// Sync runs a sync.
func (p *Program) Sync() {
	p.T.Helper()
	p.Ask(http.StatusOK, "/admin/sync", `{}`, nil)
}

// UntilLoaded syncs until every server was loaded. The first sync of a slow machine can end before
// a slow server has answered.
func (p *Program) UntilLoaded() {
	p.T.Helper()
	local.Until(p.T, "the gateway loaded every server", func() bool {
		var report struct {
			Servers []struct{ Outcome struct{ Status string } }
		}
		p.Ask(http.StatusOK, "/admin/sync", `{}`, &report)
		for _, s := range report.Servers {
			if s.Outcome.Status != "available" {
				return false
			}
		}
		return true
	})
}

// WriteConfig replaces the config in a gateway's folder atomically, as editors do.
func WriteConfig(t testing.TB, dir, data string) { t.Helper(); write(t, dir, "mcp_config.json", data) }

// WritePolicy replaces the policy in a gateway's folder atomically.
func WritePolicy(t testing.TB, dir, data string) { t.Helper(); write(t, dir, "policy.cedar", data) }

func write(t testing.TB, dir, name, data string) {
	t.Helper()
	folder := filepath.Join(dir, "config")
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "new"), []byte(data), 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(folder, "new"), filepath.Join(folder, name))
	}
	require.OK(t, err)
}
