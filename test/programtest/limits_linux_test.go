package programtest_test

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A smallProgram is the program with 256 descriptors and one upstream server.
type smallProgram struct {
	*programtest.Program
	server *upstreamtest.Server
}

func startSmall(t *testing.T) smallProgram {
	t.Helper()
	server := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("get_file", "Read a file.", `{"readOnlyHint":true}`)}})
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, `{"mcpServers": {"files": {"url": "`+server.URL+`"}}}`)
	return smallProgram{programtest.StartWith(t, programtest.Access{Descriptors: 256}, dir), server}
}

const callBody = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"call_tool_read","arguments":{"name":"files:get_file","args":{}}}}`

type health struct {
	Reasons  []struct{ Code string }
	Capacity capacity.Facts
}

func (s smallProgram) health() (h health) {
	s.T.Helper()
	s.Ask(http.StatusOK, "/admin/health", "", &h)
	return h
}

// Idle connections without credentials leave enough descriptors for calls, stores and health
// checks.
func TestIdleConnectionsOfStrangers(t *testing.T) {
	s := startSmall(t)
	for range 300 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		require.OK(t, err)
		defer c.Close()
	}
	for range 5 {
		if r := s.Call("call_tool_read", `{"name":"files:get_file","args":{}}`); r.IsError {
			t.Errorf("a call: %s", r.Text)
		}
	}
	s.Sync()
	h := s.health()
	if len(h.Reasons) > 0 || h.Capacity.Connections > 128 {
		t.Errorf("health %+v", h)
	}
	if n := local.UsageOf(t, s.PID()).Descriptors; n > 200 {
		t.Errorf("%d descriptors are open", n)
	}
}

// The waiting calls of one agent use at most half of the limit. The gateway refuses further calls
// with 503. It still answers health checks and /admin, which show why it refuses calls.
func TestTooManyCalls(t *testing.T) {
	s := startSmall(t)
	hang := make(chan struct{})
	s.server.FailOn("tools/call", -1, func(_ *upstreamtest.Server, w http.ResponseWriter, r *http.Request, serve http.Handler) {
		<-hang
		serve.ServeHTTP(w, r)
	})
	const calls, allowed = 60, 32 // half of half of half of 256
	answers := make(chan agenttest.Answer, calls)
	var waiting sync.WaitGroup
	for range calls {
		waiting.Go(func() { answers <- s.Send("/mcp", callBody) })
	}
	for range calls - allowed {
		a := <-answers
		if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || !strings.Contains(a.Body, `"id":7`) || !strings.Contains(a.Body, "did nothing with this one") {
			t.Fatalf("a call over the limit: %d %v %s", a.Status, a.Header, a.Body)
		}
	}
	if a := s.Send("/healthz", ""); a.Status != http.StatusOK {
		t.Errorf("/healthz: %d %s", a.Status, a.Body)
	}
	local.Until(t, "health reports it", func() bool {
		h := s.health()
		return len(h.Reasons) == 1 && h.Reasons[0].Code == "overloaded" && h.Capacity.Refused == calls-allowed && h.Capacity.Requests >= allowed
	})
	close(hang)
	waiting.Wait()
	if r := s.Call("call_tool_read", `{"name":"files:get_file","args":{}}`); r.IsError {
		t.Errorf("a call afterwards: %s", r.Text)
	}
}
