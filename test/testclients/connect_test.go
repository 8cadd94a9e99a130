package testclients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// An agent is an agent program of another project, with its own folders for its home and a project.
type agent struct {
	t             *testing.T
	program       *programtest.Program
	guide         connect.Guide
	id, token     string // the agent and its token; "": the gateway needs none
	home, project string
	path          string // PATH of the programs
}

// A look makes a client connect to the servers in its config.
type look func(a *agent)

// looks contains a function for each client that a registry offers. The function makes the client
// connect without a person and without a model. Cursor, VS Code and Devin Desktop are missing
// because they are not packages, and claude.ai because it is not a program.
var looks = map[string]look{
	"claude-code": func(a *agent) {
		if out := a.run(nil, "claude", "mcp", "list"); !strings.Contains(out, "Connected") {
			a.t.Errorf("claude mcp list: %s", out)
		}
	},
	// the command list does not connect, but app-server, for editors, does
	"codex": func(a *agent) {
		if out := a.run(nil, "codex", "mcp", "list"); !strings.Contains(out, connect.DefaultName) || !strings.Contains(out, "enabled") {
			a.t.Errorf("codex mcp list: %s", out)
		}
		out := a.talk([]string{"codex", "app-server"}, nil, `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}`,
			`{"method":"initialized"}`, `{"id":2,"method":"mcpServerStatus/list","params":{}}`)
		if !strings.Contains(out, "retrieve_tools") {
			a.t.Errorf("codex app-server: %s", out)
		}
	},
	"gemini": func(a *agent) {
		if out := a.run(nil, "gemini", "mcp", "list"); !strings.Contains(out, "Disabled") {
			a.t.Errorf("gemini mcp list in a folder that nobody trusts: %s", out)
		}
		if out := a.run([]string{"GEMINI_CLI_TRUST_WORKSPACE=true"}, "gemini", "mcp", "list"); !strings.Contains(out, "Connected") {
			a.t.Errorf("gemini mcp list: %s", out)
		}
	},
	"claude": func(a *agent) { // Claude Desktop starts the program that its file names
		for _, f := range a.guide.Files {
			var file struct {
				Servers map[string]struct {
					Command string
					Args    []string
					Env     map[string]string
				} `json:"mcpServers"`
			}
			require.OK(a.t, json.Unmarshal([]byte(strings.ReplaceAll(f.Text, "pct_…", a.token)), &file))
			entry := file.Servers[connect.DefaultName]
			var env []string
			for name, value := range entry.Env {
				env = append(env, name+"="+value)
			}
			out := a.talk(append([]string{entry.Command}, entry.Args...), env,
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"claude-ai","version":"0.1"}}}`,
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
			if !strings.Contains(out, "retrieve_tools") {
				a.t.Errorf("%s %q: %s", entry.Command, entry.Args, out)
			}
		}
	},
}

// names contains the names with which the clients identify themselves.
var names = map[string]string{"claude-code": "claude-code", "codex": "codex-mcp-client", "gemini": "mcp-test-client", "claude": "claude-ai"}

// Each client from a registry gets the command and the files of its guide. It then connects, and
// the gateway reports the client.
func TestConnect(t *testing.T) {
	path := findAgents(t)
	for _, auth := range []connect.Auth{connect.None, connect.Bearer} {
		access := programtest.Access{}
		if auth == connect.Bearer {
			access = programtest.Tokens()
		}
		p := programtest.StartWith(t, access, t.TempDir(), "--demo")
		for _, c := range connect.Clients() {
			guide, err := connect.For(c.ID, connect.Endpoint{URL: p.URL + "/mcp", Auth: auth})
			require.OK(t, err)
			machine := func(t *testing.T) *agent {
				a := &agent{t: t, program: p, guide: guide, home: t.TempDir(), project: t.TempDir(), path: path}
				if auth == connect.Bearer {
					name := strings.ReplaceAll(t.Name(), "/", ".")
					a.id, a.token = "token:"+name, p.Token(name, false)
				}
				return a
			}
			t.Run(string(auth)+"/"+c.ID, func(t *testing.T) {
				if looks[c.ID] == nil {
					t.Skipf("%s cannot be installed from a registry: its forms are compared with %s of %s", c.Name, c.Docs, c.Checked)
				}
				if guide.Command != "" {
					t.Run("command", func(t *testing.T) {
						a := machine(t)
						a.run(nil, "sh", "-c", guide.Command)
						a.connects()
					})
				}
				t.Run("file", func(t *testing.T) {
					a := machine(t)
					a.write()
					a.connects()
				})
			})
		}
	}
}

// findAgents returns the folder with the installed agent programs.
func findAgents(t *testing.T) string {
	t.Helper()
	if lanes != "full" {
		t.Skip("the clients are 900 MB of packages: make lanes without SMALL installs and runs them")
	}
	bin := repo.Path("test/testclients/agents/node_modules/.bin")
	if _, err := os.Stat(filepath.Join(bin, "claude")); err != nil {
		local.Missing(t, "the agent programs are not installed: make agents")
	}
	node, err := exec.LookPath(findNode(t))
	require.OK(t, err)
	return strings.Join([]string{bin, filepath.Dir(node), filepath.Dir(programtest.Build(t)), os.Getenv("PATH")}, string(os.PathListSeparator))
}

// write runs portcullis connect --write, which adds the entry to the client's own file.
func (a *agent) write() {
	a.t.Helper()
	a.run(nil, "portcullis", "connect", a.guide.ID, "--url", a.program.URL, "--write")
}

// connects makes the client connect. The gateway must then report the client, and no file may
// contain the token.
func (a *agent) connects() {
	a.t.Helper()
	before := time.Now()
	looks[a.guide.ID](a)
	var answer struct{ Seen []connect.Visit }
	a.program.Ask(http.StatusOK, "/admin/connect", nil, &answer)
	seen := slices.DeleteFunc(slices.Clone(answer.Seen), func(v connect.Visit) bool {
		return v.At.Before(before) || a.id != "" && v.Agent != a.id
	})
	if len(seen) == 0 || seen[0].Client != names[a.guide.ID] || seen[0].Tools == 0 {
		a.t.Errorf("the gateway has seen %+v", answer.Seen)
		return
	}
	a.t.Logf("seen: %s/%s, agent %s, %d tools, MCP %s", seen[0].Client, seen[0].Version, seen[0].Agent, seen[0].Tools, seen[0].Protocol)
	if a.token == "" || a.guide.ID == "claude" { // the token of claude is in its own file
		return
	}
	for _, folder := range []string{a.home, a.project} {
		require.OK(a.t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if bytes.Contains(data, []byte(a.token)) {
				a.t.Errorf("%s contains the token", path)
			}
			return err
		}))
	}
}

// command returns a command with the agent's folders, and with the token in its environment.
func (a *agent) command(ctx context.Context, env []string, words ...string) *exec.Cmd {
	a.t.Helper()
	cmd := exec.CommandContext(ctx, "/usr/bin/env", words...)
	cmd.Dir = a.project
	if words[0] == "npx" { // npx uses the pinned package of that folder, and loads no newer one
		cmd.Dir = repo.Path("test/testclients/agents")
	}
	cmd.Env = append([]string{
		"HOME=" + a.home, "PATH=" + a.path, "NO_COLOR=1", "TERM=dumb", "CI=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "NPM_CONFIG_OFFLINE=true",
	}, env...)
	if a.token != "" && a.guide.Token == connect.InVariable {
		cmd.Env = append(cmd.Env, connect.DefaultVariable+"="+a.token)
	}
	return cmd
}

// run runs a program to its end and returns its output.
func (a *agent) run(env []string, words ...string) string {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Minute)
	defer cancel()
	out, err := a.command(ctx, env, words...).CombinedOutput()
	if err != nil {
		a.t.Errorf("%q: %v\n%s", words, err, out)
	}
	return string(out)
}

// talk starts a program, writes the lines to its input, and returns its output up to the answer to
// the last line, which has the id 2.
func (a *agent) talk(words, env []string, lines ...string) string {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	cmd := a.command(ctx, env, words...)
	in, err := cmd.StdinPipe()
	require.OK(a.t, err)
	out, err := cmd.StdoutPipe()
	require.OK(a.t, err)
	var log local.Buffer
	cmd.Stderr = &log
	require.OK(a.t, cmd.Start())
	_, err = fmt.Fprintln(in, strings.Join(lines, "\n"))
	require.OK(a.t, err)
	var said strings.Builder
	answers := bufio.NewReader(out)
	for {
		line, err := answers.ReadString('\n')
		said.WriteString(line)
		if err != nil {
			a.t.Errorf("%q ended: %v\n%s%s", words, err, said.String(), log.String())
			break
		}
		var answer struct{ ID any }
		if json.Unmarshal([]byte(line), &answer) == nil && answer.ID == 2.0 {
			break
		}
	}
	_ = in.Close() // the program ends then, or with ctx
	cancel()
	_ = cmd.Wait()
	return said.String()
}
