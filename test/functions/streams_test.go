package functions_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A worker is an upstream call that runs step by step. The test sends each step.
type worker struct {
	steps chan int      // progress values; the worker answers when the channel is closed
	ended chan struct{} // closed when the call ends without cancellation
}

// newWorker returns a worker that answers the next call of a server.
func newWorker(t *testing.T, s *upstreamtest.Server) worker {
	t.Helper()
	k := worker{make(chan int), make(chan struct{})}
	s.FailOn("tools/call", 1, func(s *upstreamtest.Server, w http.ResponseWriter, r *http.Request, _ http.Handler) {
		calls := s.Calls()
		call := calls[len(calls)-1]
		params := require.JSON[struct {
			Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
		}](t, call.Params)
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case n, more := <-k.steps:
				if !more {
					_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"found\"}]}}\n\n", call.ID)
					close(k.ended)
					return
				}
				_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":%d}}\n\n", params.Meta.ProgressToken, n)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	return k
}

// step makes the worker report progress.
func (k worker) step(t *testing.T, n int) {
	t.Helper()
	select {
	case k.steps <- n:
	case <-time.After(20 * time.Second):
		t.Fatalf("the worker does not take step %d", n)
	}
}

// searching calls a tool through the front and returns the answer as soon as its head has arrived.
func searching(ctx context.Context, t *testing.T, front *lambdatest.Front) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, front.URL+"/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"call_tool_read","arguments":{"name":"github:search_issues","args":{"query":"x"}},"_meta":{"progressToken":"mine"}}}`))
	require.OK(t, err)
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"} {
		r.Header.Set(name, value)
	}
	a, err := http.DefaultClient.Do(r)
	require.OK(t, err)
	t.Cleanup(func() { _ = a.Body.Close() })
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(a.Body)
		t.Fatalf("%d %v %s", a.StatusCode, a.Header, body)
	}
	return a
}

// event returns the data of the next event, or "" at the end.
func event(t *testing.T, events *bufio.Scanner) string {
	t.Helper()
	for events.Scan() {
		if data, ok := strings.CutPrefix(events.Text(), "data: "); ok {
			return data
		}
	}
	require.OK(t, events.Err())
	return ""
}

// A server's messages reach the client before the server ends the call.
func (g suite) streamsProgress(t *testing.T) {
	w := g.fixture(t)
	w.Sync(t)
	front := w.Front(t, "PORTCULLIS_STREAMING", "url")

	k := newWorker(t, w.github)
	go func() { k.steps <- 1 }()
	events := bufio.NewScanner(searching(t.Context(), t, front).Body)
	for n := 1; ; n++ {
		if got, want := event(t, events), fmt.Sprintf(`"progress":%d`, n); !strings.Contains(got, want) || !strings.Contains(got, `"mine"`) {
			t.Errorf("event %d is %s", n, got)
		}
		if n == 3 {
			break
		}
		k.step(t, n+1) // the test has read the previous event
	}
	close(k.steps)
	if last := event(t, events); !strings.Contains(last, `"found"`) || !strings.Contains(last, `"id":7`) {
		t.Errorf("last event: %s", last)
	}
	if more := event(t, events); more != "" {
		t.Errorf("event after the result: %s", more)
	}

	k = newWorker(t, w.github)
	ctx, leave := context.WithCancel(t.Context())
	go func() { k.steps <- 1 }()
	events = bufio.NewScanner(searching(ctx, t, front).Body)
	event(t, events)
	leave()
	k.step(t, 2) // Lambda does not tell the function that the client left, so the server continues
	close(k.steps)
	select {
	case <-k.ended:
	case <-time.After(20 * time.Second):
		t.Error("the call did not end")
	}
}
