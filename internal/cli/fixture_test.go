package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/secrettest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A program is the running gateway, started like main, with the key that opens its /admin.
type program struct {
	agenttest.Client
	dir      string
	link     string // sign-in link; "": none
	out, log *local.Buffer
	cancel   context.CancelFunc
	ended    chan error
}

// noEnv is an environment without variables.
func noEnv(string) string { return "" }

// bears returns an environment with a credential.
func bears(token string) func(string) string {
	return func(name string) string { return map[string]string{client.TokenVariable: token}[name] }
}

// start runs the gateway on a free port until the test ends, and waits until it is ready.
func start(t testing.TB, dir string, args ...string) *program {
	t.Helper()
	return startWith(t, nil, dir, args...)
}

// startWith does the same as start, with an environment.
func startWith(t testing.TB, env map[string]string, dir string, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{dir: dir, out: &local.Buffer{}, log: &local.Buffer{}, cancel: cancel, ended: make(chan error, 1)}
	go func() {
		getenv := func(name string) string { return env[name] }
		args := append([]string{"serve", "--dir", dir, "--addr", "127.0.0.1:0"}, args...)
		p.ended <- run(ctx, args, &environment{
			getenv: getenv, stdout: p.out, stderr: p.log, look: 50 * time.Millisecond,
		})
	}()
	t.Cleanup(func() {
		p.stop()
		secrettest.Absent(t, "the log", p.log.String())
		secrettest.AbsentBelow(t, dir)
	})
	local.Until(t, "the gateway is ready", func() bool { // the banner is one write
		if len(p.ended) > 0 {
			t.Fatalf("the gateway did not become ready: %v\n%s", p.stop(), p.log)
		}
		return strings.Contains(p.out.String(), "portcullis is")
	})
	// a gateway without an admin key has no such file
	key, _ := os.ReadFile(filepath.Join(dir, folder.KeyFile))
	p.Client = agenttest.Client{T: t, URL: p.out.Find(`MCP endpoint +(\S+)/mcp`), Admin: strings.TrimSpace(string(key))}
	p.link = p.out.Find(`sign in +(\S+)`)
	return p
}

// stop ends the program like SIGTERM; repeated calls are harmless.
func (p *program) stop() error {
	p.cancel()
	err, ok := <-p.ended
	if ok {
		close(p.ended)
	}
	return err
}

// with returns the program for a subtest.
func (p *program) with(t *testing.T) *program {
	other := *p
	other.T = t
	return &other
}

// stranger returns a client without the admin key.
func (p *program) stranger() *agenttest.Client { return &agenttest.Client{T: p.T, URL: p.URL} }

// configure writes the whole config, like an editor, and syncs.
func (p *program) configure(data string) {
	p.T.Helper()
	programtest.WriteConfig(p.T, p.dir, data)
	p.Ask(200, "/admin/sync", `{}`, nil)
}

// servers maps names to upstream servers.
type servers map[string]*upstreamtest.Server

// config returns a config of the servers: settings returns the members of each (", …"), and rest is
// the rest of the file.
func (s servers) config(settings func(name string) string, rest string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		list = append(list, fmt.Sprintf(`%q: {"url": %q%s}`, name, s[name].URL, settings(name)))
	}
	return `{"mcpServers": {` + strings.Join(list, ", ") + `}` + rest + `}`
}

// each gives every server the same settings.
func each(settings string) func(string) string { return func(string) string { return settings } }

// ping returns a server with one tool, and a config that names it with more keys.
func ping(t *testing.T) (server *upstreamtest.Server, config func(more string) string) {
	t.Helper()
	s := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("ping", "Answer a ping.", `{"readOnlyHint":true}`)}})
	return s, func(more string) string {
		return fmt.Sprintf(`{"mcpServers": {"s": {"url": %q, "approval": "off"%s}}}`, s.URL, more)
	}
}
