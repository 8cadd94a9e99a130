package upstream

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// If a server's question does not name its call, the server sends it on the stream that the client
// holds open.
func TestAskedBesideTheCall(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "ask"}, func(_ context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		// not the context of the call
		apart, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = req.Session.Log(apart, &sdk.LoggingMessageParams{Level: "warning", Data: "apart"}) //nolint:staticcheck // servers of the handshake protocol use it
		e, err := req.Session.Elicit(apart, &sdk.ElicitParams{Message: "sure?"})
		if err != nil {
			return nil, nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "it was " + e.Action}}}, nil, nil
	})
	var gets, open atomic.Int32
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			gets.Add(1)
			open.Add(1)
			defer open.Add(-1)
		}
		handler.ServeHTTP(w, r)
	}))
	defer s.Close()
	c := newClient(t, Options{Holds: true})
	target := Target{ID: "s", URL: s.URL, Handshake: true}
	var l listener
	client := mcp.Client{LogLevel: "info", Notify: l.notify, Capabilities: json.RawMessage(allOfThem), Ask: answers(`{"action":"accept","content":{}}`)}
	for range 3 {
		got, err := c.Call(t.Context(), target, Call{Owner: owner("a"), Name: "ask", Client: client})
		if err != nil || !strings.Contains(string(got), "it was accept") {
			t.Fatalf("Call = %s, %v", got, err)
		}
	}
	if got := strings.Join(l.notes(), "\n"); !strings.HasPrefix(got, `message {"data":"apart","level":"warning"}`) {
		t.Errorf("told %s", got)
	}
	if gets.Load() != 1 || open.Load() != 1 {
		t.Errorf("%d streams were opened, %d are open", gets.Load(), open.Load())
	}
	c.EndSessions(t.Context())
	local.Until(t, "the stream is closed", func() bool { return open.Load() == 0 })

	if _, err := c.Call(t.Context(), target, Call{Owner: owner("b"), Name: "ask"}); err != nil { // this call wants no messages, and so opens no stream
		t.Error(err)
	}
	if gets.Load() != 1 {
		t.Errorf("%d streams were opened", gets.Load())
	}
}

// A session requests such a stream once. The stream closes when there are no calls.
func TestHeldStreams(t *testing.T) {
	onFakeClock(t, "", func(t *testing.T) {
		var open atomic.Int32
		has := false
		f := newFixture(t, Options{Holds: true}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true, Front: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || !has {
					next.ServeHTTP(w, r)
					return
				}
				open.Add(1)
				defer open.Add(-1)
				w.Header().Set("Content-Type", "text/event-stream")
				_ = http.NewResponseController(w).Flush() // fails if the client has disconnected
				<-r.Context().Done()
			})
		}})
		call := func(agent string) {
			t.Helper()
			if _, err := f.call(Call{Owner: owner(agent), Name: "x", Client: mcp.Client{Ask: unanswering, Capabilities: json.RawMessage(allOfThem)}}); err != nil {
				t.Fatal(err)
			}
		}
		gets := func() (n int) {
			for _, r := range f.servers[0].Requests() {
				if r.Verb == http.MethodGet {
					n++
				}
			}
			return n
		}
		start := time.Now()
		call("a")
		call("a")
		if gets() != 1 || time.Since(start) != 0 {
			t.Errorf("%d streams were requested, in %v", gets(), time.Since(start))
		}
		has = true
		call("b")
		call("b")
		if open.Load() != 1 {
			t.Errorf("%d streams are open", open.Load())
		}
		time.Sleep(listenIdle + time.Second)
		if open.Load() != 0 {
			t.Errorf("%d streams are open after the idle time", open.Load())
		}
		call("b")
		f.servers[0].EndSessions()
		call("b")
		if open.Load() != 1 {
			t.Errorf("%d streams are open, want 1, of the new session", open.Load())
		}
		f.Close()
	})
}

// A session waits once for a server that is slow to accept the stream.
func TestHeldStreamIsAwaitedOnce(t *testing.T) {
	onFakeClock(t, "", func(t *testing.T) {
		var gets atomic.Int32
		f := newFixture(t, Options{Holds: true}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true, Front: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					gets.Add(1)
					<-r.Context().Done()
					return
				}
				next.ServeHTTP(w, r)
			})
		}})
		start, slept := time.Now(), time.Duration(0)
		for i := range 5 {
			if _, err := f.call(Call{Owner: owner("a"), Name: "x", Client: mcp.Client{Ask: unanswering, Capabilities: json.RawMessage(allOfThem)}}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start) - slept; took != listenWait {
				t.Errorf("the calls took %v", took)
			}
			if i > 2 { // the stream closes during the sleep and opens again
				time.Sleep(time.Minute)
				slept += time.Minute
			}
		}
		if got := gets.Load(); got != 2 {
			t.Errorf("%d streams were requested", got)
		}
		f.Close()
	})
}
