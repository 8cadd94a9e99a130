package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// stdio connects a client of the SDK to portcullis stdio, which it starts as clients do.
func stdio(t *testing.T, args ...string) (*mcp.ClientSession, *local.Buffer, error) {
	t.Helper()
	self, err := os.Executable()
	require.OK(t, err)
	cmd := exec.Command(self, append([]string{"stdio"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", tokenVariable+"=t0ken-of-mine")
	log := &local.Buffer{}
	cmd.Stderr = log
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	return session, log, err
}

// works lists the gateway's tools and calls one.
func works(t *testing.T, session *mcp.ClientSession) {
	t.Helper()
	tools, err := session.ListTools(t.Context(), nil)
	require.OK(t, err)
	if n := len(tools.Tools); n != 7 || tools.Tools[n-1].Name != "request_access" { // its owner can sign in, and decide
		t.Errorf("%d tools", n)
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "call_tool_read", Arguments: map[string]any{"name": "s:echo", "args": map[string]any{"text": "hi"}}})
	require.OK(t, err)
	if text, ok := result.Content[0].(*mcp.TextContent); !ok || result.IsError || !strings.Contains(text.Text, "hi") {
		t.Errorf("result %+v", result)
	}
}

// echoing writes the config of a server that echoes into a folder.
func echoing(t *testing.T) (dir string) {
	t.Helper()
	s := upstreamtest.New(t, upstreamtest.Options{
		Tools: []json.RawMessage{upstreamtest.Tool("echo", "Says it again.", `{"readOnlyHint":true}`, "text")},
		Call: func(_ context.Context, c upstreamtest.Call) (json.RawMessage, error) {
			return json.RawMessage(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, c.Arguments)), nil
		},
	})
	dir = t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers": {"s": {"url": %q, "approval": "off"}}}`, s.URL))
	return dir
}

func TestStdioURL(t *testing.T) {
	p := start(t, echoing(t))
	session, log, err := stdio(t, "--url", p.URL)
	require.OK(t, err)
	works(t, session)
	if err := session.Close(); err != nil { // it waits for the program, which must end by itself
		t.Errorf("Close = %v", err)
	}
	if strings.Contains(log.String(), "t0ken-of-mine") {
		t.Errorf("the credential is in the log: %s", log)
	}
}

func TestStdioDir(t *testing.T) {
	dir := echoing(t)
	addr := local.Addr(t)
	session, _, err := stdio(t, "--dir", dir, "--addr", addr)
	require.OK(t, err)
	works(t, session)
	if resp, err := http.Get("http://" + addr + "/healthz"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("/healthz beside it: %v, %v", resp, err)
	}
	second, _, err := stdio(t, "--dir", dir, "--addr", addr) // passes on to the first
	require.OK(t, err)
	works(t, second)
	require.OK(t, second.Close())
	if err := session.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	store, err := bolt.Open(filepath.Join(dir, approvalsFile), nil) // nobody holds it any more
	require.OK(t, err)
	require.OK(t, store.Close())
}

// gated is echoing with a server that lists its tools once gate is closed. It closes asked when it
// was asked for them.
func gated(t *testing.T) (dir string, asked, gate chan struct{}) {
	t.Helper()
	asked, gate = make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(asked) })
	s := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("echo", "Says it again.", "")}})
	s.Fail(func(_ *upstreamtest.Server, w http.ResponseWriter, r *http.Request, next http.Handler) {
		first()
		<-gate
		next.ServeHTTP(w, r)
	})
	dir = t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers": {"s": {"url": %q, "approval": "off"}}}`, s.URL))
	return dir, asked, gate
}

// In a folder without a catalog the first answer waits for the first sync.
func TestStdioWaitsForFirstSync(t *testing.T) {
	dir, asked, gate := gated(t)
	go func() {
		<-asked
		time.Sleep(200 * time.Millisecond) // in which an answer that does not wait has come
		close(gate)
	}()
	session, _, err := stdio(t, "--dir", dir, "--addr", local.Addr(t))
	require.OK(t, err)
	if got := session.InitializeResult().Instructions; !strings.Contains(got, "Gateway to the tools of: s.") {
		t.Error(got)
	}
	require.OK(t, session.Close())
}

// Answers do not wait longer than their time, and not for a second sync.
func TestFirstSyncs(t *testing.T) {
	closed, open := make(chan struct{}), make(chan struct{})
	close(closed)
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	for name, f := range map[string]firstSyncs{
		"it has ended": {closed, open, http.DefaultTransport}, "the time is over": {open, closed, http.DefaultTransport},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		require.OK(t, err)
		resp, err := f.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %v, %v", name, resp, err)
			continue
		}
		require.OK(t, resp.Body.Close())
	}
}

// A client that leaves during the first sync does not end it, and the next client waits for it.
func TestStdioEndsFirstSync(t *testing.T) {
	dir, asked, gate := gated(t)
	self, err := os.Executable()
	require.OK(t, err)
	cmd := exec.Command(self, "stdio", "--dir", dir, "--addr", local.Addr(t))
	cmd.Env = append(os.Environ(), asProgram+"=1")
	in, err := cmd.StdinPipe()
	require.OK(t, err)
	require.OK(t, cmd.Start())
	<-asked
	require.OK(t, in.Close())
	local.Until(t, "it says that it ends", func() bool { s, ok := findServe(dir); return ok && s.Ending })
	next := make(chan string, 1)
	go func() {
		at, err := (&stdioCmd{Dir: dir}).running(t.Context())
		next <- fmt.Sprint(at, err)
	}()
	close(gate)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(catalog.CurrentKey))); err != nil {
		t.Errorf("no catalog: %v", err)
	}
	if got := <-next; got != "<nil>" {
		t.Errorf("the next client is sent to %s", got)
	}
}

func TestStdioRefuses(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, `stdio: there is no gateway in ".": neither config/mcp_config.json nor approvals.db is there; run portcullis init to begin one, or name another folder with --dir, or a gateway that runs with --url`},
		{[]string{"--url", "gateway.example.com"}, "--url: want a URL such as https://gateway.example.com"},
		{[]string{"--url", "https://me:hunter2@gateway.example.com"}, "--url: holds a user or password; a credential is read from PORTCULLIS_TOKEN"},
		{[]string{"--url", "https://gateway.example.com", "--header", "Authorization hunter2"}, "--header: want NAME:VALUE"},
	} {
		err := run(t.Context(), append([]string{"stdio"}, tt.args...), &environment{getenv: noEnv, stdin: strings.NewReader(""), stdout: &local.Buffer{}, stderr: &local.Buffer{}})
		if err == nil || err.Error() != tt.want {
			t.Errorf("%q: %v, want %s", tt.args, err, tt.want)
		}
	}
	for _, args := range [][]string{{"stdio", "--url", "https://a.example", "--dir", "x"}} {
		err := run(t.Context(), args, &environment{getenv: noEnv, stdout: &local.Buffer{}, stderr: &local.Buffer{}})
		if _, usage := errors.AsType[*kong.ParseError](err); !usage {
			t.Errorf("%q: %v, want a fault of the command line", args, err)
		}
	}
	_, log, err := stdio(t, "--url", "http://"+local.Addr(t))
	if err == nil || !strings.Contains(err.Error(), "The gateway cannot be reached. Is it running, and is its URL right?") || strings.Contains(log.String(), "t0ken") {
		t.Errorf("nobody there: %v; log %s", err, log)
	}
}

// What was approved of a program counts for that program: for another command line it waits again,
// for another environment it does not.
func TestApprovalsOfPrograms(t *testing.T) {
	path, _ := stdiotest.Program(t, stdiotest.Legacy)
	file := func(args, env string) string {
		return fmt.Sprintf(`{"mcpServers": {"s": {"command": %q, "args": [%s], "env": {"STDIOTEST_SERVER": "legacy"%s}, "approval": "manual"}}}`, path, args, env)
	}
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, file(``, ``))
	p := start(t, dir, "--allow-commands")
	callable := func() bool {
		return !p.Call("call_tool_read", map[string]any{"name": "s:echo", "args": map[string]any{"text": "hi"}}).IsError
	}
	var tool struct {
		Record map[string]any `json:"record"`
	}
	p.Ask(http.StatusOK, "/admin/tools/s/echo", nil, &tool)
	p.Ask(http.StatusOK, "/admin/tools/s/echo/approve", map[string]any{"hash": tool.Record["current_hash"]}, nil)
	if !callable() {
		t.Error("it is approved, and not callable")
	}
	p.configure(file(``, `, "LEVEL": "debug"`))
	if !callable() {
		t.Error("another environment is another server")
	}
	p.configure(file(`"--other"`, ``))
	if callable() {
		t.Error("what was approved of one program counts for another")
	}
	if strings.Contains(p.log.String(), "panic") {
		t.Error(p.log)
	}
}
