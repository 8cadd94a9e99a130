package mcphttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A talk is the code of a tool, for the test's backend.
type talk = func(ctx context.Context, r mcp.Request, c mcp.Client) (json.RawMessage, error)

const done = `{"content":[]}`

// object returns params in the form that servers send.
func object(t testing.TB, text string) rawjson.Object {
	t.Helper()
	o, err := rawjson.Split([]byte(text), rawjson.Strict)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

// streaming returns a handler whose answers can be streams.
func streaming(t testing.TB, f talk) http.Handler {
	t.Helper()
	o := laptop()
	o.Timeout = 0
	return newHandler(t, &backend{talk: f}, o)
}

// telling returns a call that asks for progress and log messages.
func (e protocol) telling(t testing.TB, token, level string) *http.Request {
	t.Helper()
	var meta []string
	if e.meta != "" {
		meta = append(meta, e.meta)
	}
	if token != "" {
		meta = append(meta, `"progressToken":`+token)
	}
	if level != "" {
		meta = append(meta, `"io.modelcontextprotocol/logLevel":"`+level+`"`)
	}
	e.meta = ""
	r := e.request(t, "tools/call", `"name":"echo","_meta":{`+strings.Join(meta, ",")+`}`)
	r.Header.Set("Mcp-Method", "tools/call")
	r.Header.Set("Mcp-Name", "echo")
	return r
}

// messages returns the JSON-RPC messages of a stream.
func messages(t testing.TB, body string) (out []string) {
	t.Helper()
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		if strings.HasPrefix(event, ":") {
			continue
		}
		data, ok := strings.CutPrefix(event, "event: message\ndata: ")
		if !ok || !json.Valid([]byte(data)) || strings.ContainsAny(data, "\r\n") {
			t.Fatalf("not an event with a message: %q", event)
		}
		out = append(out, data)
	}
	return out
}

// The golden file has the messages of calls, byte for byte, in both protocols.
func TestStreams(t *testing.T) {
	progress := func(c mcp.Client, params string) { c.Notify("notifications/progress", object(t, params)) }
	message := func(c mcp.Client, params string) { c.Notify("notifications/message", object(t, params)) }
	var out strings.Builder
	for _, tt := range []struct {
		name, token, level string
		talk               talk
	}{
		{"nothing", `"p"`, "debug", func(context.Context, mcp.Request, mcp.Client) (json.RawMessage, error) { return nil, nil }},
		{"progress", `"p"`, "", func(_ context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
			progress(c, `{"progress":1,"total":2.0,"message":"half <b>"}`)
			return nil, nil
		}},
		{"progress that does not grow", `9007199254740993`, "", func(_ context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
			for _, p := range []string{`{"progress":2}`, `{"progress":2}`, `{"progress":1}`, `{"progress":"3"}`, `{}`, `{"progress":1e400}`} {
				progress(c, p)
			}
			return nil, nil
		}},
		{"another's token", `1`, "", func(_ context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
			progress(c, `{"progressToken":"theirs","progress":2}`)
			return nil, nil
		}},
		{"log messages", "", "warning", func(_ context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
			message(c, `{"level":"emergency","data":{"a": 1.0}}`)
			message(c, `{"level":"loud","data":"no level"}`)
			return nil, nil
		}},
		{"line breaks", "", "info", func(_ context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
			message(c, "{\"level\":\"error\",\"data\":[1,\n2,\r\n3,\r4]}")
			return json.RawMessage("{\n\"content\":\r\n[]\r}"), nil
		}},
		{"an error", `"p"`, "", func(_ context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
			progress(c, `{"progress":1}`)
			return nil, &mcp.Error{Code: -32602, Message: "no such row", Data: json.RawMessage(`[1]`)}
		}},
		{"a refusal with a status", `"p"`, "", func(_ context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
			progress(c, `{"progress":1}`)
			return nil, &mcp.Error{Code: 503, Message: "busy", Status: 503, RetryAfter: time.Second}
		}},
		{"a panic", `"p"`, "", func(_ context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
			progress(c, `{"progress":1}`)
			panic("boom")
		}},
		{"notifications that belong to no call", `"p"`, "debug", func(_ context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
			c.Notify("notifications/tools/list_changed", rawjson.Object{})
			c.Notify("notifications/cancelled", object(t, `{"requestId":7}`))
			return nil, nil
		}},
	} {
		for _, e := range []protocol{legacy, modern} {
			h := streaming(t, func(ctx context.Context, r mcp.Request, c mcp.Client) (json.RawMessage, error) {
				if c.Notify == nil {
					return json.RawMessage(`{"content":[],"unheard":true}`), nil
				}
				result, err := tt.talk(ctx, r, c)
				if result == nil {
					result = json.RawMessage(done)
				}
				return result, err
			})
			got := send(h, e.telling(t, tt.token, tt.level))
			fmt.Fprintf(&out, "%s %s\n%d %s %s\n%s\n\n", e.name, tt.name, got.status, got.header.Get("Content-Type"), got.header.Get("X-Accel-Buffering"), strings.TrimSuffix(got.body, "\n\n"))
			if got.header.Get("Content-Type") == "text/event-stream" {
				messages(t, got.body)
			}
		}
	}
	golden.Check(t, "testdata/streams.golden", out.String())
}

// The answer is JSON if the client accepts only JSON, or if the platform cannot send an answer in
// parts.
func TestNoStream(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, e protocol) {
		var heard atomic.Bool
		b := &backend{talk: func(_ context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
			heard.Store(c.Notify != nil || c.Progress || c.LogLevel != "" || c.Ask != nil)
			return json.RawMessage(done), nil
		}}
		plain := send(newHandler(t, b, nil), e.telling(t, `"p"`, ""))
		for name, change := range map[string]func(r *http.Request, o *mcphttp.Options){
			"accepts no stream":        func(r *http.Request, o *mcphttp.Options) { r.Header.Set("Accept", "*/*, text/event-stream;q=0") },
			"accepts only JSON":        func(r *http.Request, o *mcphttp.Options) { r.Header.Set("Accept", "application/json") },
			"platform without streams": func(r *http.Request, o *mcphttp.Options) { o.Stream = false },
			"alone without streams":    func(r *http.Request, o *mcphttp.Options) { o.Stream, o.Alone = false, true },
		} {
			r, o := e.telling(t, `"p"`, ""), mcphttp.Options{Stream: true}
			change(r, &o)
			if got := send(newHandler(t, b, &o), r); heard.Load() || got.body != plain.body || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: client accepts messages = %v, body %s", name, heard.Load(), got.body)
			}
		}
	})
}

func TestStreamTimes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		takes time.Duration
		want  string // times of the comments
	}{
		{"9 s", 9 * time.Second, ""},
		{"11 s", 11 * time.Second, "10s"},
		{"24 s", 24 * time.Second, "10s"},
		{"60 s", 60 * time.Second, "10s 25s 40s 55s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHandler(t, &backend{call: func(context.Context, mcp.Request) (json.RawMessage, error) {
					time.Sleep(tt.takes)
					return json.RawMessage(done), nil
				}}, &mcphttp.Options{Stream: true, Timeout: 2 * time.Minute})
				start := time.Now()
				w := &timed{ResponseRecorder: httptest.NewRecorder(), start: start}
				h.ServeHTTP(w, legacy.request(t, "tools/call", `"name":"echo"`))
				if got := strings.Join(w.comments, " "); got != tt.want {
					t.Errorf("comments at %s, want %s", got, tt.want)
				}
				want, kind := `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`, "application/json"
				body := w.Body.String()
				if tt.want != "" {
					kind = "text/event-stream"
					body = strings.Join(messages(t, body), "|")
				}
				if body != want || w.Header().Get("Content-Type") != kind {
					t.Errorf("%s %q", w.Header().Get("Content-Type"), body)
				}
			})
		})
	}
}

// A timed records when comments were written.
type timed struct {
	*httptest.ResponseRecorder
	start    time.Time
	comments []string
}

func (w *timed) Write(b []byte) (int, error) {
	if b[0] == ':' {
		w.comments = append(w.comments, time.Since(w.start).String())
	}
	return w.ResponseRecorder.Write(b)
}

// A server that sends messages without end has a bounded rate and bounded memory. The client gets
// the number of dropped messages.
func TestStreamFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, takes = 5_000, 10 * time.Second
		h := streaming(t, func(_ context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
			for i := range n {
				c.Notify("notifications/progress", object(t, fmt.Sprintf(`{"progress":%d}`, i)))
				c.Notify("notifications/message", object(t, fmt.Sprintf(`{"level":"info","data":%d}`, i)))
				time.Sleep(takes / n)
			}
			c.Notify("notifications/message", object(t, `{"level":"info","data":"`+strings.Repeat("x", 1<<20)+`"}`))
			return json.RawMessage(done), nil
		})
		got := messages(t, send(h, modern.telling(t, "1", "info")).body)
		progress, logs := 0, 0
		for _, m := range got {
			progress += strings.Count(m, `"notifications/progress"`)
			logs += strings.Count(m, `"notifications/message"`)
		}
		if progress < 150 || progress > 300 || logs < 1000 || logs > 1300 {
			t.Errorf("the client got %d progress events and %d log messages in %v", progress, logs, takes)
		}
		last := got[len(got)-3:]
		if !strings.Contains(strings.Join(last, ""), fmt.Sprintf(`"progress":%d}`, n-1)) {
			t.Errorf("the client did not get the newest progress: %s", last)
		}
		if want := fmt.Sprintf("Left out: %d log messages", n+1-(logs-1)); !strings.Contains(last[1], want) || !strings.Contains(last[1], `"level":"warning"`) {
			t.Errorf("want %q in %s", want, last[1])
		}
	})
}

func TestStreamAfterAnswer(t *testing.T) {
	kept := make(chan mcp.Client, 1)
	h := streaming(t, func(_ context.Context, r mcp.Request, c mcp.Client) (json.RawMessage, error) {
		kept <- c
		if string(r.Arguments) == "1" {
			c.Notify("notifications/progress", object(t, `{"progress":1}`))
		}
		return json.RawMessage(done), nil
	})
	for _, arguments := range []string{"0", "1"} {
		r := legacy.request(t, "tools/call", `"name":"echo","arguments":`+arguments+`,"_meta":{"progressToken":1}`)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		before := w.Body.String()
		(<-kept).Notify("notifications/progress", object(t, `{"progress":2}`))
		if w.Body.String() != before || strings.Contains(before, `"progress":2`) {
			t.Errorf("the client got a message after the answer: %s", w.Body)
		}
	}
}

// serve runs h in an HTTP server whose connections are pipes, and returns a connection.
func serve(t *testing.T, h http.Handler) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	conns := make(chan net.Conn, 1)
	conns <- theirs
	l := &oneConn{conns: conns, closed: make(chan struct{})}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		ours.Close()
		s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return ours
}

type oneConn struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error   { close(l.closed); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// write writes a request to a connection.
func write(t *testing.T, c net.Conn, r *http.Request) {
	t.Helper()
	if err := r.Write(c); err != nil {
		t.Fatal(err)
	}
}

// If a client disconnects from a stream, its call ends, because nobody could ever read the result.
// In the handshake protocol, a call continues if its client disconnects before the first message.
func TestStreamClientGone(t *testing.T) {
	for _, tt := range []struct {
		name     string
		protocol protocol
		tells    bool
		ended    bool
	}{
		{"stateless", modern, false, true},
		{"stateless, after a message", modern, true, true},
		{"handshake", legacy, false, false},
		{"handshake, after a message", legacy, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				result := make(chan time.Duration, 1)
				begun := make(chan struct{})
				h := streaming(t, func(ctx context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
					if tt.tells {
						c.Notify("notifications/progress", object(t, `{"progress":1}`))
					}
					close(begun)
					start := time.Now()
					select {
					case <-ctx.Done():
					case <-time.After(20 * time.Second):
					}
					c.Notify("notifications/progress", object(t, `{"progress":2}`))
					result <- time.Since(start)
					return json.RawMessage(done), nil
				})
				c := serve(t, h)
				write(t, c, tt.protocol.telling(t, "1", ""))
				<-begun
				if tt.tells {
					_, _ = io.ReadFull(c, make([]byte, 200))
				}
				c.Close()
				if took := <-result; (took < time.Second) != tt.ended {
					t.Errorf("the call went on for %v", took)
				}
			})
		})
	}
}

// If a client does not read, it delays its call only for a bounded time. Meanwhile the messages of
// the called server use bounded memory.
func TestStreamClientStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := make(chan time.Duration, 1)
		h := newHandler(t, &backend{talk: func(ctx context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
			start := time.Now()
			for i := 0; ctx.Err() == nil; i++ {
				c.Notify("notifications/message", object(t, `{"level":"info","data":"`+strings.Repeat("x", 1000)+`"}`))
				time.Sleep(10 * time.Millisecond)
			}
			result <- time.Since(start)
			return nil, ctx.Err()
		}}, laptop())
		write(t, serve(t, h), legacy.request(t, "tools/call", `"name":"echo"`))
		if took := <-result; took > 30*time.Second {
			t.Errorf("the client delayed the call for %v", took)
		}
	})
}

// If a client does not read a long JSON answer, the gateway waits for it only a bounded time. A
// client that reads gets the whole answer.
func TestClientStallsAtJSON(t *testing.T) {
	for _, reads := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			result := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}`
			h := newHandler(t, &backend{call: answers(result)}, laptop())
			ended := make(chan struct{})
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r)
				close(ended)
			}))
			r, start := legacy.request(t, "tools/call", `"name":"echo"`), time.Now()
			write(t, c, r)
			if reads {
				res, err := http.ReadResponse(bufio.NewReader(c), r)
				require.OK(t, err)
				body, err := io.ReadAll(res.Body)
				require.OK(t, err)
				require.OK(t, res.Body.Close())
				if want := `{"jsonrpc":"2.0","id":7,"result":` + result + `}`; string(body) != want {
					t.Errorf("the client read %d bytes, want %d", len(body), len(want))
				}
			}
			<-ended
			if took := time.Since(start); took > 15*time.Second {
				t.Errorf("client reads = %v: the request took %v", reads, took)
			}
		})
	}
}
