package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A gateway is a running `portcullis serve` of some commit.
type gateway struct {
	t    testing.TB
	dir  string
	addr string
	cmd  *exec.Cmd
	log  logFile
	http *http.Client
}

// A logFile is the path of a program's log. A pipe would wake this process for each line, which
// would disturb its measurements.
type logFile struct {
	t    testing.TB
	path string
}

func (l logFile) String() string {
	data, err := os.ReadFile(l.path)
	require.OK(l.t, err)
	return string(data)
}

// start starts a program on a folder. It does not wait until the program is ready.
func start(t testing.TB, program, dir string) *gateway {
	t.Helper()
	g := &gateway{t: t, dir: dir, addr: local.Addr(t), log: logFile{t, filepath.Join(t.TempDir(), "log")}, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}
	g.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), program, "serve", "--dir", dir, "--addr", g.addr)
	g.cmd.Env = append(os.Environ(), "PORTCULLIS_LOG_LEVEL=INFO")
	log, err := os.Create(g.log.path)
	require.OK(t, err)
	defer log.Close() // the program has its own descriptor
	g.cmd.Stderr = log
	require.OK(t, g.cmd.Start())
	t.Cleanup(func() {
		if g.cmd != nil {
			_ = g.cmd.Process.Kill()
			_ = g.cmd.Wait()
		}
	})
	return g
}

// stop ends the program with SIGTERM.
func (g *gateway) stop() {
	g.t.Helper()
	require.OK(g.t, g.cmd.Process.Signal(syscall.SIGTERM))
	if err := g.cmd.Wait(); err != nil {
		g.t.Errorf("after SIGTERM: %v", err)
	}
	g.cmd = nil
	g.http.CloseIdleConnections()
}

func (g *gateway) pid() int { return g.cmd.Process.Pid }

// syncs returns how many syncs the program has ended.
func (g *gateway) syncs() int { return strings.Count(g.log.String(), `msg="catalog synced"`) }

// waitForSync waits until a sync has ended.
func (g *gateway) waitForSync() {
	g.t.Helper()
	for end := time.Now().Add(10 * time.Minute); g.syncs() == 0; {
		if time.Now().After(end) {
			g.t.Fatalf("no sync within 10 minutes; the program wrote:\n%.3000s", g.log.String())
		}
		<-time.After(10 * time.Millisecond)
	}
}

// post sends JSON and returns the body of the answer. Another status than 200 is an error.
func (g *gateway) post(path, body string, headers ...string) ([]byte, error) {
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, "http://"+g.addr+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := g.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.300s", path, answer.Status, data)
	}
	return data, err
}

// sync requests a sync, as a person does.
func (g *gateway) sync() error {
	key, err := os.ReadFile(filepath.Join(g.dir, "admin.key"))
	if err != nil {
		return err
	}
	_, err = g.post("/admin/sync", "{}", "Authorization", "Bearer "+strings.TrimSpace(string(key)))
	return err
}

var errNothingFound = errors.New("a search found nothing")

// ask makes the i-th search. Every second search includes locked tools.
func (g *gateway) ask(i int) ([]byte, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"retrieve_tools","arguments":{"query":%q,"include_disabled":%t}}}`,
		i, queries[i/2%len(queries)], i%2 == 0)
	return g.post("/mcp", body)
}

// search makes the i-th search, and returns an error if it finds no tool.
func (g *gateway) search(i int) error {
	data, err := g.ask(i)
	if err == nil {
		err = found(data)
	}
	return err
}

// found returns an error if an answer of retrieve_tools has no tool.
func found(data []byte) error {
	var a struct {
		Result struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	var list struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(data, &a); err != nil {
		return err
	}
	if len(a.Result.Content) == 0 || a.Result.IsError {
		return fmt.Errorf("a search answers %.300s", data)
	}
	if err := json.Unmarshal([]byte(a.Result.Content[0].Text), &list); err != nil || len(list.Tools) == 0 {
		return fmt.Errorf("%w: %.300s (%w)", errNothingFound, data, errors.Join(err))
	}
	return nil
}

// ping sends a ping, which measures the time of a request without a search.
func (g *gateway) ping(i int) ([]byte, error) {
	return g.post("/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
}

// pinged returns an error if data is not an answer to a ping.
func pinged(data []byte) error {
	if !bytes.Contains(data, []byte(`"result"`)) {
		return fmt.Errorf("ping answers %.300s", data)
	}
	return nil
}

// initialize starts a session, as each client does first.
func (g *gateway) initialize(i int) error {
	_, err := g.post("/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"scale","version":"1"}}}`, i))
	return err
}
