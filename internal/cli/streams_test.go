package cli

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A talker is a real server with a tool that reports progress until its call is canceled, and a
// tool that asks the client.
type talker struct {
	URL       string
	cancelled chan time.Time
}

func startTalker(t *testing.T) *talker {
	t.Helper()
	tk := &talker{cancelled: make(chan time.Time, 10)}
	s := sdk.NewServer(&sdk.Implementation{Name: "talker", Version: "1"}, nil)
	readOnly := &sdk.ToolAnnotations{ReadOnlyHint: true}
	sdk.AddTool(s, &sdk.Tool{Name: "slow", Annotations: readOnly}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		for i := 1; ; i++ {
			if token := r.Params.GetProgressToken(); token != nil {
				_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(i)})
			}
			select {
			case <-ctx.Done():
				tk.cancelled <- time.Now()
				return nil, nil, ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	sdk.AddTool(s, &sdk.Tool{Name: "ask", Annotations: readOnly}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		said, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Who are you?"})
		if err != nil {
			return nil, nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: said.Action}}}, nil, nil
	})
	srv := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(srv.Close)
	tk.URL = srv.URL
	return tk
}

// startStreaming runs the program in front of a talker, in direct mode.
func startStreaming(t *testing.T) (*program, *talker) {
	t.Helper()
	tk, dir := startTalker(t), t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers":{"up":{"url":%q,"approval":"off","protocol":"2025-11-25","timeout":"5m"}},"gateway":{"mode":"direct"}}`, tk.URL))
	return start(t, dir), tk
}

// If a client leaves, or cancels its request, the call at the upstream server ends within a second.
func TestClientLeaves(t *testing.T) {
	p, tk := startStreaming(t)
	// leaves makes a client leave, up to a few times, until the server notices it within a second.
	// A busy machine may delay a single try, but rarely all of them.
	leaves := func(what string, leave func() (left time.Time)) {
		t.Helper()
		var took time.Duration
		for range 5 {
			left := leave()
			select {
			case at := <-tk.cancelled:
				if took = at.Sub(left); took <= time.Second {
					return
				}
			case <-time.After(local.Patience):
				t.Fatalf("%s: the server did not notice that the client left", what)
			}
		}
		t.Errorf("%s: the server noticed it only after %v", what, took)
	}
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		leaves(version, func() time.Time {
			ctx, leave := context.WithCancel(t.Context())
			events := bufio.NewScanner(slow(ctx, t, p, version))
			told := 0
			for told < 3 && events.Scan() {
				if strings.Contains(events.Text(), `"progressToken":"mine"`) {
					told++
				}
			}
			if told < 3 {
				t.Fatalf("%s: the client got %d progress notifications, want 3 or more",
					version, told)
			}
			left := time.Now()
			leave()
			return left
		})
	}

	progress := make(chan struct{}, 1000)
	c := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { progress <- struct{}{} },
	})
	s, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: p.URL + "/mcp"}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	require.OK(t, err)
	leaves("notifications/cancelled", func() (left time.Time) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-progress
			<-progress
			left = time.Now()
			cancel()
		}()
		params := &sdk.CallToolParams{Name: "up__slow"}
		params.SetProgressToken("p")
		if r, err := s.CallTool(ctx, params); err == nil {
			t.Errorf("a cancelled call was answered %+v", r)
		}
		return left
	})
	require.OK(t, s.Close())
}

// slow calls the endless tool, and returns the body of the answer.
func slow(ctx context.Context, t *testing.T, p *program, version string) *bodyOf {
	t.Helper()
	meta := `"progressToken":"mine"`
	if version == "2026-07-28" {
		meta += `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__slow","arguments":{},"_meta":{` + meta + `}}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+"/mcp", strings.NewReader(body))
	require.OK(t, err)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": version,
		"Mcp-Method": "tools/call", "Mcp-Name": "up__slow",
	} {
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	require.OK(t, err)
	t.Cleanup(func() { res.Body.Close() })
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("%s: the content type of the answer is %s", version, kind)
	}
	return &bodyOf{res}
}

type bodyOf struct{ *http.Response }

func (b *bodyOf) Read(p []byte) (int, error) { return b.Body.Read(p) }

// A question from a server of the handshake protocol reaches the client, and the client's answer
// reaches the server.
func TestServerAsks(t *testing.T) {
	p, _ := startStreaming(t)
	c := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "decline"}, nil
		},
	})
	s, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: p.URL + "/mcp"}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	require.OK(t, err)
	defer s.Close()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "up__ask"})
	require.OK(t, err)
	if text := r.Content[0].(*sdk.TextContent).Text; r.IsError || text != "decline" {
		t.Errorf("the tool answers %q", text)
	}
}

// The program stops at once, even if clients have open streams.
func TestStopWithStreams(t *testing.T) {
	p, _ := startStreaming(t)
	c := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, nil)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		s, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: p.URL + "/mcp"}, &sdk.ClientSessionOptions{ProtocolVersion: version})
		require.OK(t, err)
		defer s.Close()
	}
	listen, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	require.OK(t, err)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
	} {
		listen.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(listen)
	require.OK(t, err)
	defer res.Body.Close()
	events := bufio.NewScanner(res.Body)
	events.Scan()
	start := time.Now()
	require.OK(t, p.stop())
	if took := time.Since(start); took > patience/2 {
		t.Errorf("the program stopped only after %v", took)
	}
	var last string
	for events.Scan() {
		if events.Text() != "" {
			last = events.Text()
		}
	}
	if !strings.Contains(last, `"result"`) {
		t.Errorf("the stream ends with %q", last)
	}
}
