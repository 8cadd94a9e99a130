package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// asProgram makes the test binary behave like the program.
const asProgram = "PORTCULLIS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	stdiotest.Main()
	if os.Getenv(asProgram) != "" {
		os.Exit(Main())
	}
	os.Exit(programtest.Main(func() int { return browsertest.Main(m) }))
}

// A process is the program as a child process.
type process struct {
	*program
	cmd    *exec.Cmd
	stdout *bufio.Scanner
}

func startProcess(t *testing.T, dir string, env ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.OK(t, err)
	addr := local.Addr(t)
	p := &process{program: &program{Client: agenttest.Client{T: t, URL: "http://" + addr}, dir: dir, out: &local.Buffer{}, log: &local.Buffer{}}}
	p.cmd = exec.CommandContext(t.Context(), self, "serve", "--dir", dir, "--addr", addr)
	p.cmd.Env = append(append(os.Environ(), asProgram+"=1"), env...)
	p.cmd.Stderr = p.log
	stdout, err := p.cmd.StdoutPipe()
	require.OK(t, err)
	p.stdout = bufio.NewScanner(stdout)
	require.OK(t, p.cmd.Start())
	return p
}

// terminate sends SIGTERM and returns the remaining output; the exit code must be 0.
func (p *process) terminate() string {
	p.T.Helper()
	require.OK(p.T, p.cmd.Process.Signal(syscall.SIGTERM))
	return p.ends()
}

// drains waits until the program says that it drains.
func (p *process) drains() {
	p.T.Helper()
	local.Until(p.T, "the gateway drains", func() bool {
		return p.Send("/readyz", "").Body == `{"status":"draining"}`
	})
}

// ends waits for the end of the program, and returns the remaining output; the exit code must be 0.
func (p *process) ends() string {
	p.T.Helper()
	var rest strings.Builder
	for p.stdout.Scan() {
		rest.WriteString(p.stdout.Text() + "\n")
	}
	if err := p.cmd.Wait(); err != nil {
		p.T.Errorf("after SIGTERM: %v\n%s", err, p.log)
	}
	return rest.String()
}

func TestSIGTERMDuringACall(t *testing.T) {
	t.Parallel()
	called, release := make(chan struct{}), make(chan struct{})
	s := upstreamtest.New(t, upstreamtest.Options{
		Tools: []json.RawMessage{upstreamtest.Tool("wait", "Wait.", `{"readOnlyHint":true}`)},
		Call: func(context.Context, upstreamtest.Call) (json.RawMessage, error) {
			close(called)
			<-release
			return json.RawMessage(`{"content":[{"type":"text","text":"it was worth it"}]}`), nil
		},
	})
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers": {"s": {"url": %q, "approval": "off"}}}`, s.URL))
	p := startProcess(t, dir)
	for p.stdout.Scan() && !strings.Contains(p.stdout.Text(), "config") {
	}
	answered := make(chan agenttest.Result, 1)
	go func() { answered <- p.Call("call_tool_read", map[string]any{"name": "s:wait"}) }()
	<-called
	require.OK(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.drains()
	refused := p.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if refused.Status != 503 || !strings.Contains(refused.Body, "the gateway is shutting down") {
		t.Errorf("a new request gets %d %s", refused.Status, refused.Body)
	}
	for path, want := range map[string]int{"/livez": 200, "/healthz": 200} {
		if got := p.Send(path, ""); got.Status != want {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	close(release)
	p.ends()
	if got := <-answered; got.IsError || got.Text != "it was worth it" {
		t.Errorf("the active call answers %s", got.Raw)
	}
}

// startHanging starts the program with a call that never ends. It returns the error of the call's
// answer; nil: there is an answer.
func startHanging(t *testing.T, env ...string) (p *process, ended <-chan error) {
	t.Helper()
	called := make(chan struct{})
	s := upstreamtest.New(t, upstreamtest.Options{
		Tools: []json.RawMessage{upstreamtest.Tool("wait", "Wait.", `{"readOnlyHint":true}`)},
		Call: func(ctx context.Context, _ upstreamtest.Call) (json.RawMessage, error) {
			close(called)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	dir := t.TempDir()
	config := fmt.Sprintf(`{"mcpServers": {"s": {"url": %q, "approval": "off"}}}`, s.URL)
	programtest.WriteConfig(t, dir, config)
	p = startProcess(t, dir, env...)
	for p.stdout.Scan() && !strings.Contains(p.stdout.Text(), "config") {
	}
	gone := make(chan error, 1)
	go func() {
		resp, err := http.Post(p.URL+"/mcp", "application/json", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call",`+
				`"params":{"name":"call_tool_read","arguments":{"name":"s:wait"}}}`))
		if err == nil {
			err = resp.Body.Close()
		}
		gone <- err
	}()
	<-called
	return p, gone
}

// A second signal ends the program at once.
func TestSecondSIGTERM(t *testing.T) {
	t.Parallel()
	p, ended := startHanging(t, "PORTCULLIS_DRAIN=1h")
	require.OK(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.drains()
	require.OK(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if err := <-ended; err == nil {
		t.Error("the running call got an answer")
	}
	for p.stdout.Scan() {
	}
	if err := p.cmd.Wait(); p.cmd.ProcessState.ExitCode() != exitSignal+int(syscall.SIGTERM) {
		t.Errorf("after a second signal: %v\n%s", err, p.log)
	}
}

// After PORTCULLIS_DRAIN the program ends, even if a call still runs.
func TestDrainEnds(t *testing.T) {
	t.Parallel()
	p, ended := startHanging(t, "PORTCULLIS_DRAIN=10ms")
	p.terminate()
	<-ended
	if log := p.log.String(); !strings.Contains(log, `msg="requests are cut short" after=10ms`) {
		t.Errorf("the log is %s", log)
	}
}

func TestSIGTERMDuringASync(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Options{})
	s.Fail(upstreamtest.Hang())
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers": {"s": {"url": %q}}}`, s.URL))
	p := startProcess(t, dir)
	local.Until(t, "the server is asked", func() bool { return s.Total() > 0 })
	for path, want := range map[string]int{"/healthz": 200, "/livez": 200, "/readyz": 503} {
		if got := p.Send(path, ""); got.Status != want {
			t.Errorf("during the first sync %s answers %d %s", path, got.Status, got.Body)
		}
	}
	if rest := p.terminate(); strings.Contains(rest, "ready") {
		t.Errorf("the program got a signal during its start, but prints %s", rest)
	}
}

func TestSIGTERMEndsTheSessions(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Options{
		Protocols: upstreamtest.Legacy, Sessions: true, Tools: []json.RawMessage{upstreamtest.Tool("look", "Look.", `{"readOnlyHint":true}`)},
	})
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers": {"s": {"url": %q, "approval": "off"}}}`, s.URL))
	p := startProcess(t, dir)
	for p.stdout.Scan() && !strings.Contains(p.stdout.Text(), "config") {
	}
	if got := p.Call("call_tool_read", map[string]any{"name": "s:look"}); got.IsError {
		t.Errorf("the call answers %s", got.Raw)
	}
	if n := len(s.Sessions()); n != 2 {
		t.Errorf("%d sessions are open, want the agent's and the sync's", n)
	}
	p.terminate()
	if n := len(s.Sessions()); n != 0 {
		t.Errorf("%d sessions are open after the program ended, want 0", n)
	}
}

// An endless request does not keep the program running: the program cancels the request, and then
// closes its connection.
func TestStopEndsEndlessRequest(t *testing.T) {
	for _, listens := range []bool{true, false} {
		requests, cancel := context.WithCancel(t.Context())
		begun, never := make(chan struct{}), make(chan struct{})
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(begun)
			if listens {
				<-r.Context().Done()
			} else {
				<-never
			}
		}))
		s.Config.BaseContext = func(net.Listener) context.Context { return requests }
		s.Start()
		ended := make(chan error, 1)
		go func() {
			resp, err := http.Get(s.URL)
			if err == nil {
				err = resp.Body.Close()
			}
			ended <- err
		}()
		<-begun
		log := &local.Buffer{}
		logger := slog.New(slog.NewTextHandler(log, nil))
		stop(t.Context(), s.Config, nil, time.Millisecond, cancel, logger)
		if err := <-ended; (err == nil) != listens {
			t.Errorf("a request that handles cancellation: %t, ends with %v", listens, err)
		}
		if !strings.Contains(log.String(), "requests are cut short") {
			t.Errorf("the log does not report the canceled requests: %s", log)
		}
		close(never)
	}
}

// loopOf runs the sync loop on stores in memory, with the clock of the bubble.
func loopOf(t *testing.T, data string) (objects *objecttest.Mem, log *local.Buffer) {
	t.Helper()
	objects, log = &objecttest.Mem{}, &local.Buffer{}
	if _, err := objects.Put(t.Context(), config.Key, []byte(data), ""); err != nil {
		t.Fatal(err)
	}
	p := boot.New(boot.Settings{}, boot.Stores{Objects: objects, Approvals: &approvaltest.Mem{}}, boot.Options{
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		syncLoop(ctx, p, nil, &banner{out: io.Discard, program: p}, lookEvery)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return objects, log
}

func TestSyncLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const off = `{"mcpServers": {"s": {"url": "https://mcp.example.com/mcp", "enabled": false}}}`
		objects, log := loopOf(t, off)
		syncs := func(after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := strings.Count(log.String(), `msg="catalog synced"`); got != want {
				t.Errorf("%d syncs, want %d:\n%s", got, want, log)
			}
		}
		syncs(time.Second, 1)
		syncs(57*time.Second, 1)
		syncs(3*time.Second, 2)
		syncs(time.Minute, 3)
		for i, file := range []struct{ key, data string }{{config.Key, off + " "}, {policy.Key, "// nothing is forbidden"}} {
			if _, err := objects.Put(t.Context(), file.key, []byte(file.data), ""); err != nil {
				t.Fatal(err)
			}
			syncs(lookEvery, 4+i)
			syncs(lookEvery, 4+i)
		}
	})
}

func TestProgress(t *testing.T) {
	ended := func(done int, id string, s outcome.Status) catalog.Progress {
		return catalog.Progress{Outcome: outcome.Outcome{ServerID: id, Status: s}, Done: done, Total: 3}
	}
	synctest.Test(t, func(t *testing.T) {
		terminal := &local.Buffer{}
		p := newProgress(terminal, false, "syncing", "server")
		show := func(after time.Duration, now catalog.Progress) { time.Sleep(after); synctest.Wait(); p.sync(now) }
		show(0, catalog.Progress{Total: 3})
		show(2500*time.Millisecond, ended(1, "a", outcome.Available))
		show(100*time.Millisecond, ended(2, "b", outcome.Permanent))
		show(3*time.Second, ended(3, "c", outcome.Transient))
		time.Sleep(time.Minute)
		want := "syncing: 0 of 3 servers, 1 s\nsyncing: 0 of 3 servers, 2 s\nsyncing: 2 of 3 servers, 4 s, \"b\" is permanent\n"
		if got := terminal.String(); got != want {
			t.Errorf("a long sync prints\n%swant\n%s", got, want)
		}

		show(0, catalog.Progress{Total: 3}) // a short sync
		for i := range 3 {
			show(200*time.Millisecond, ended(i+1, "a", outcome.Available))
		}
		show(0, catalog.Progress{}) // a sync of no server
		time.Sleep(time.Minute)
		if got := terminal.String(); got != want {
			t.Errorf("then a short sync prints\n%s", strings.TrimPrefix(got, want))
		}
	})
}

func TestProgressOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terminal := &local.Buffer{}
		p := newProgress(terminal, true, "approving", "tool")
		p.begin(4)
		time.Sleep(1300 * time.Millisecond)
		p.step(1, "\x1b[2J\u202efs:read")
		time.Sleep(200 * time.Millisecond)
		p.end()
		p.end()
		none, some := strings.Repeat("-", barWidth), strings.Repeat("#", barWidth/4)+strings.Repeat("-", 3*barWidth/4)
		want := "\r[" + none + "] approving: 0 of 4 tools, 1 s\x1b[K\r[" + none + "] approving: 0 of 4 tools, 1 s\x1b[K\r[" + some + "] approving: 1 of 4 tools, 1 s, [2Jfs:read\x1b[K\r\x1b[K"
		if got := terminal.String(); got != want {
			t.Errorf("the progress draws\n%q, want\n%q", got, want)
		}
		p.begin(0)
		time.Sleep(1100 * time.Millisecond)
		p.end()
		if got := strings.TrimPrefix(terminal.String(), want); got != "\rapproving: 1 s\x1b[K\r\x1b[K" {
			t.Errorf("for an unknown total it draws %q", got)
		}
	})
}
