package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A program is the local gateway, running as main runs it.
type program struct {
	t      testing.TB
	dir    string
	base   string
	link   string // that signs in at /admin; "": there is none
	key    string // that opens /admin; "": there is none
	log    *syncBuffer
	said   chan string // what it printed after it was ready, once it has ended
	cancel context.CancelFunc
	ended  chan error
}

// noEnv is an environment without variables.
func noEnv(string) string { return "" }

// start runs the gateway on a free port until the test ends, and waits until it is ready.
func start(t testing.TB, dir string, args ...string) *program {
	t.Helper()
	return startWith(t, nil, dir, args...)
}

// startWith is start with an environment.
func startWith(t testing.TB, env map[string]string, dir string, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{t: t, dir: dir, log: &syncBuffer{}, said: make(chan string, 1), cancel: cancel, ended: make(chan error, 1)}
	r, w := io.Pipe()
	go func() {
		err := run(ctx, append([]string{"serve", "--dir", dir, "--addr", "127.0.0.1:0"}, args...), &environment{getenv: func(name string) string { return env[name] }, stdout: w, stderr: p.log})
		w.CloseWithError(io.EOF)
		p.ended <- err
	}()
	t.Cleanup(func() { p.stop() })
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "MCP endpoint"); ok {
			p.base = strings.TrimSuffix(strings.TrimSpace(url), "/mcp")
		}
		if link, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "sign in"); ok {
			p.link = strings.TrimSpace(link)
		}
		if strings.Contains(lines.Text(), "config") {
			key, _ := os.ReadFile(filepath.Join(dir, keyFile)) // where none is used there is none
			p.key = strings.TrimSpace(string(key))
			go func() {
				var said strings.Builder
				for lines.Scan() {
					fmt.Fprintln(&said, lines.Text())
				}
				p.said <- said.String()
			}()
			return p
		}
	}
	t.Fatalf("the gateway never got ready: %v\n%s", <-p.ended, p.log)
	return nil
}

// stop ends the program as SIGTERM does; more than once is harmless.
func (p *program) stop() error {
	p.cancel()
	err, ok := <-p.ended
	if ok {
		close(p.ended)
	}
	return err
}

// A result is what a call of a tool gave: its one text block and its fault flag.
type result struct {
	Text    string
	IsError bool
	Meta    map[string]json.RawMessage
	Raw     json.RawMessage
}

// call calls one of the gateway's tools over HTTP.
func (p *program) call(name string, args any, header ...string) result {
	p.t.Helper()
	a, err := json.Marshal(args)
	if err != nil {
		p.t.Fatal(err)
	}
	raw := p.rpc("tools/call", map[string]any{"name": name, "arguments": json.RawMessage(a)}, header...)
	var r struct {
		Content []struct{ Text string }
		IsError bool
		Meta    map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) != 1 {
		p.t.Fatalf("%s: %v: %s", name, err, raw)
	}
	return result{r.Content[0].Text, r.IsError, r.Meta, raw}
}

// rpc sends one request and returns its result.
func (p *program) rpc(method string, params any, header ...string) json.RawMessage {
	p.t.Helper()
	var a struct {
		Result json.RawMessage
		Error  json.RawMessage
	}
	p.json(http.MethodPost, "/mcp", map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, http.StatusOK, &a, header...)
	if a.Error != nil {
		p.t.Fatalf("%s: %s", method, a.Error)
	}
	return a.Result
}

// json sends body and reads the answer into out; any other status fails the test. To /admin
// goes the key of the folder, unless header has other credentials.
func (p *program) json(method, path string, body any, want int, out any, header ...string) {
	p.t.Helper()
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			p.t.Fatal(err)
		}
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.base+path, sent)
	if err != nil {
		p.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	if p.key != "" && strings.HasPrefix(path, "/admin") && req.Header.Get("Authorization") == "" {
		req.Header.Set("Authorization", "Bearer "+p.key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if resp.StatusCode != want {
		p.t.Fatalf("%s %s: status %d, want %d: %s", method, path, resp.StatusCode, want, data)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(data, out); err != nil {
		p.t.Fatalf("%s %s: %v: %s", method, path, err, data)
	}
}

// configure writes the config whole, as an editor that saves does, and syncs.
func (p *program) configure(data string) {
	p.t.Helper()
	writeConfig(p.t, p.dir, data)
	p.json(http.MethodPost, "/admin/sync", map[string]any{}, http.StatusOK, nil)
}

func writeConfig(t testing.TB, dir, data string) {
	t.Helper()
	folder := filepath.Join(dir, "config")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "new"), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(folder, "new"), filepath.Join(folder, "mcp_config.json")); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what the program does in its own time.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for range 600 {
		if done() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("it never came true that %s", what)
}

// A syncBuffer is a buffer that one side writes while the other reads.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// freeAddr returns a loopback address that was free a moment ago.
func freeAddr(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
