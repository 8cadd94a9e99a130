package cli

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
	"testing/synctest"
	"time"

	"github.com/alecthomas/kong"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// stdio starts portcullis stdio as an MCP client does, and connects a client of the SDK to it.
func stdio(t *testing.T, args ...string) (*mcp.ClientSession, *local.Buffer, error) {
	t.Helper()
	self, err := os.Executable()
	require.OK(t, err)
	cmd := exec.Command(self, append([]string{"stdio"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", client.TokenVariable+"=t0ken-of-mine")
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
	// agents have request_access, because the owner can sign in and decide
	if n := len(tools.Tools); n != 7 || tools.Tools[n-1].Name != "request_access" {
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
	t.Parallel()
	p := start(t, echoing(t))
	session, log, err := stdio(t, "--url", p.URL)
	require.OK(t, err)
	works(t, session)
	// Close waits for the program, which must end without a signal
	if err := session.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if strings.Contains(log.String(), "t0ken-of-mine") {
		t.Errorf("the credential is in the log: %s", log)
	}
}

// Two clients start at the same time on a folder without a catalog, and share one gateway. The
// first answer to each waits for the first sync. The second client continues after the first has
// left.
func TestStdioDir(t *testing.T) {
	t.Parallel()
	dir, addr := echoing(t), local.Addr(t)
	sessions := make([]*mcp.ClientSession, 2)
	var starting sync.WaitGroup
	for i := range sessions {
		starting.Go(func() {
			session, log, err := stdio(t, "--dir", dir, "--addr", addr)
			if err != nil {
				t.Errorf("client %d: %v; log %s", i, err, log)
				return
			}
			if got := session.InitializeResult().Instructions; !strings.Contains(got, "Gateway to the tools of: s.") {
				t.Errorf("client %d: %s", i, got)
			}
			sessions[i] = session
		})
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	resp, err := http.Get("http://" + addr + "/healthz")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("/healthz of the gateway that stdio started: %v, %v", resp, err)
	}
	for _, session := range sessions {
		works(t, session)
		// Close waits for the program, which must end without a signal
		require.OK(t, session.Close())
	}
	// no process has the file open now
	store, err := bolt.Open(filepath.Join(dir, folder.ApprovalsFile), nil)
	require.OK(t, err)
	require.OK(t, store.Close())
}

// Answers to agents wait for the first sync, but not longer than their limit. Other answers do not
// wait.
func TestAnswersWaitForFirstSync(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		after      time.Duration // when the sync ends; 0: before the start
		want       time.Duration
	}{
		{"it ends", "/mcp", time.Second, time.Second},
		{"narrowed", "/mcp/readonly", time.Second, time.Second},
		{"the sync has ended", "/mcp", 0, 0},
		{"it lasts", "/mcp", time.Minute, firstAnswer},
		{"health", "/healthz", time.Minute, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newClientGateway(t.TempDir(), &local.Buffer{})
			if tt.after == 0 {
				g.synced(true)
			} else {
				time.AfterFunc(tt.after, func() { g.synced(true) })
			}
			began := time.Now()
			w := httptest.NewRecorder()
			g.handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, tt.path, nil))
			if took := time.Since(began); took != tt.want || w.Code != http.StatusNotFound {
				t.Errorf("%s: %d after %v, want it after %v", tt.name, w.Code, took, tt.want)
			}
		})
	}
}

// A gateway whose client has left ends when its first sync has ended and no program is being
// installed. It also ends when the time for an installation is over.
func TestFirstSyncGoesOn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		syncs  []bool // one a minute: whether a program is starting
		want   time.Duration
		wanted string
	}{
		{"the sync has ended", []bool{false}, 0, ""},
		{"a program is installed", []bool{true, true, false}, 2 * time.Minute, goesOn + "\n"},
		{"a program never answers", []bool{true}, firstSync, goesOn + "\n"},
		{"the sync never ends", nil, firstSync, goesOn + "\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			out := &local.Buffer{}
			g := newClientGateway(t.TempDir(), out)
			for i, starting := range tt.syncs {
				if i == 0 {
					g.synced(starting)
				} else {
					time.AfterFunc(time.Duration(i)*time.Minute, func() { g.synced(starting) })
				}
			}
			began := time.Now()
			g.wait(t.Context(), strings.NewReader(""))
			if took := time.Since(began); took != tt.want || out.String() != tt.wanted {
				t.Errorf("%s: after %v the output is %q, want %v, %q", tt.name, took, out, tt.want, tt.wanted)
			}
		})
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
			t.Errorf("%q: %v, want a usage error", args, err)
		}
	}
	_, log, err := stdio(t, "--url", "http://"+local.Addr(t))
	if err == nil || !strings.Contains(err.Error(), "The gateway cannot be reached. Is it running, and is its URL right?") || strings.Contains(log.String(), "t0ken") {
		t.Errorf("no gateway at the URL: %v; log %s", err, log)
	}
}

// If the gateway of a folder cannot start or serve, the person who started stdio gets the reason.
func TestStdioDirSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, `{"mcpServers": {"s": {"url": "nonsense"}}}`)
	session, log, err := stdio(t, "--dir", dir, "--addr", local.Addr(t))
	require.OK(t, err)
	local.Until(t, "the banner", func() bool {
		return strings.Contains(log.String(), "portcullis is running and cannot serve yet") && strings.Contains(log.String(), "mcp_config.json:1:")
	})
	require.OK(t, session.Close())

	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	_, log, err = stdio(t, "--dir", dir, "--addr", taken.Listener.Addr().String())
	if got := log.String(); err == nil || strings.Count(got, "address already in use") != 1 || !strings.Contains(got, "if a gateway runs there, start this command with --url\n") {
		t.Errorf("%v; log %s", err, got)
	}
}

// An approval of a program's tools applies only to this program. If the command line changes, the
// tools wait again. If only the environment changes, they stay approved.
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
		t.Error("the tool is approved, but not callable")
	}
	p.configure(file(``, `, "LEVEL": "debug"`))
	if !callable() {
		t.Error("the tool is locked after only the environment changed")
	}
	p.configure(file(`"--other"`, ``))
	if callable() {
		t.Error("an approval for one program applies to another program")
	}
	if strings.Contains(p.log.String(), "panic") {
		t.Error(p.log)
	}
}
