package relay_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/relay"
)

// An endpoint is an HTTP server that answers with a test's function and records the requests.
type endpoint struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string // short forms of the requests
}

func newEndpoint(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, m map[string]any)) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // the body of a broken request counts as empty
		var m map[string]any
		_ = json.Unmarshal(body, &m) // GET and DELETE have no message
		method, _ := m["method"].(string)
		e.mu.Lock()
		e.seen = append(e.seen, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, method, r.Header.Get("Mcp-Session-Id"))))
		e.mu.Unlock()
		answer(w, r, m)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) requests() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.seen, ", ")
}

// A client is the other end of a relay.
type client struct {
	t   *testing.T
	in  *io.PipeWriter
	out *bufio.Reader
	log *bytes.Buffer
	end chan error
}

func newClient(t *testing.T, o relay.Options) *client {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &client{t: t, in: inW, out: bufio.NewReader(outR), log: &bytes.Buffer{}, end: make(chan error, 1)}
	o.Log = slog.New(slog.NewTextHandler(c.log, nil))
	go func() {
		err := relay.Run(t.Context(), inR, outW, o)
		_ = outW.Close()
		c.end <- err
	}()
	return c
}

func (c *client) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) next() string {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("no more lines: %v; log: %s", err, c.log)
	}
	return strings.TrimSuffix(line, "\n")
}

func (c *client) wants(want string) {
	c.t.Helper()
	if got := c.next(); got != want {
		c.t.Errorf("line %s, want %s", got, want)
	}
}

// close ends the input, and checks that the relay then ends without further output.
func (c *client) close() {
	c.t.Helper()
	_ = c.in.Close()
	if rest, err := io.ReadAll(c.out); err != nil || len(rest) > 0 {
		c.t.Errorf("at the end: %s, %v", rest, err)
	}
	if err := <-c.end; err != nil {
		c.t.Errorf("Run = %v", err)
	}
}

const (
	hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`
	ready = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

func reply(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

func stream(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		_, _ = io.WriteString(w, "data: "+e+"\n\n")
		w.(http.Flusher).Flush()
	}
}

func TestHandshakeSession(t *testing.T) {
	answered := make(chan any, 1)
	listening := make(chan struct{})
	e := newEndpoint(t, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		switch {
		case r.Method == http.MethodGet:
			stream(w, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			close(listening)
			<-r.Context().Done()
		case m["method"] == "initialize":
			w.Header().Set("Mcp-Session-Id", "s1")
			reply(w, "{\"jsonrpc\":\"2.0\",\"id\":0,\n\"result\":{\"protocolVersion\":\"2025-06-18\"}}")
		case m["method"] == "tools/call":
			if r.Header.Get("MCP-Protocol-Version") != "2025-06-18" || r.Header.Get("Mcp-Method") != "" {
				t.Errorf("headers %v", r.Header)
			}
			stream(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`, `{"jsonrpc":"2.0","id":"q","method":"elicitation/create"}`)
			<-answered
			stream(w, `{"jsonrpc":"2.0","id":"c1","result":{"n":9007199254740993,  "x":1}}`)
		case m["method"] == nil && r.Method == http.MethodPost:
			answered <- m["result"]
			w.WriteHeader(http.StatusAccepted)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	c := newClient(t, relay.Options{URL: e.URL})
	c.send(hello)
	c.wants(`{"jsonrpc":"2.0","id":0, "result":{"protocolVersion":"2025-06-18"}}`)
	c.send(ready)
	c.wants(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	<-listening
	c.send(`{"jsonrpc":"2.0","id":"c1","method":"tools/call","params":{"name":"x"}}`)
	c.wants(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`)
	c.wants(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create"}`)
	c.send(`{"jsonrpc":"2.0","id":"q","result":{"action":"accept"}}`)
	c.wants(`{"jsonrpc":"2.0","id":"c1","result":{"n":9007199254740993,  "x":1}}`)
	c.close()
	want := "POST initialize, POST notifications/initialized s1, GET  s1, POST tools/call s1, POST  s1, DELETE  s1"
	if got := e.requests(); got != want {
		t.Errorf("requests: %s, want %s", got, want)
	}
}

func TestStatelessHeaders(t *testing.T) {
	var mu sync.Mutex
	headers := map[string]http.Header{}
	e := newEndpoint(t, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		mu.Lock()
		headers[m["method"].(string)] = r.Header.Clone()
		mu.Unlock()
		result := `{}`
		if m["method"] == "tools/list" {
			result = `{"tools":[{"name":"tö","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}`
		}
		reply(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, m["id"], result))
	})
	c := newClient(t, relay.Options{URL: e.URL, Token: secret.New("t0ken"), Header: http.Header{"X-Mcp-Toolsets": {"a"}}})
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`)
	c.next()
	c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tö","arguments":{"region":"eu"},` + meta + `}}`)
	c.next()
	c.send(`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"file:///a",` + meta + `}}`)
	c.next()
	c.send(`{"jsonrpc":"2.0","id":4,"method":"tasks/get","params":{"taskId":"a",` + meta + `}}`)
	c.next()
	c.close()
	for method, want := range map[string]map[string]string{
		"tools/list":     {"Mcp-Method": "tools/list", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Name": "", "Authorization": "Bearer t0ken", "X-Mcp-Toolsets": "a", "Mcp-Session-Id": ""},
		"tools/call":     {"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?dMO2?=", "Mcp-Param-Region": "eu"},
		"resources/read": {"Mcp-Name": "file:///a"},
		"tasks/get":      {"Mcp-Method": "tasks/get", "Mcp-Name": "a"},
	} {
		for name, value := range want {
			if got := headers[method].Get(name); got != value {
				t.Errorf("%s: %s = %q, want %q", method, name, got, value)
			}
		}
	}
}

func TestFailures(t *testing.T) {
	status := func(code int, kind, body string) func(http.ResponseWriter, *http.Request, map[string]any) {
		return func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	const (
		sent    = " The request was sent and may have taken effect; check before sending it again."
		notSent = " The request was not carried out."
	)
	for _, tt := range []struct {
		name, token string
		answer      func(http.ResponseWriter, *http.Request, map[string]any)
		want        string // message, or the whole line
	}{
		{"no token", "", status(401, "text/plain", "who?"), "The gateway requires a credential: start the command with PORTCULLIS_TOKEN in its environment." + notSent},
		{"a wrong token", "t0ken-of-mine", status(401, "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":401,"message":"no"}}`), "The gateway refused the credential in PORTCULLIS_TOKEN: it is wrong, expired or revoked." + notSent},
		{"no endpoint", "", status(404, "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":404,"message":"not found"}}`), "There is no MCP endpoint at the gateway's URL. It usually ends in /mcp." + notSent},
		{"another server", "", status(405, "text/html", "<h1>no</h1>"), "There is no MCP endpoint at the gateway's URL. It usually ends in /mcp." + notSent},
		{"a redirect", "t", status(302, "text/html", ""), "The gateway's URL redirects to another URL, and this command follows no redirect: use the other URL." + notSent},
		{"forbidden", "t", status(403, "text/html", ""), "The gateway refused the request (HTTP status 403)." + notSent},
		{"a proxy's error", "", status(502, "text/html", "<h1>bad gateway</h1>"), "The gateway failed (HTTP status 502)." + sent},
		{"a page", "", status(200, "text/html", "<h1>hello</h1>"), "The server at the gateway's URL is not an MCP server." + sent},
		{"no JSON", "", status(200, "application/json", `{"jsonrpc":`), "The gateway's answer is not JSON." + sent},
		{"a stream that ends", "", status(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n"), "The connection to the gateway broke before its answer was complete." + sent},
		{"an error of the protocol", "", status(404, "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found","data":{"a":1}}}`), `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found","data":{"a":1}}}`},
		{"a status as a code", "", status(503, "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":503,"message":"not ready","data":{"a":1}}}`), `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"not ready","data":{"a":1}}}`},
		{"a refusal as a code", "", status(403, "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":403,"message":"locked"}}`), `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"locked"}}`},
		{"an error without an id", "", status(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"Mismatch"}}`), `{"jsonrpc":"2.0","id":7,"error":{"code":-32020,"message":"Mismatch"}}`},
		{"a connection that breaks", "", func(w http.ResponseWriter, _ *http.Request, _ map[string]any) { panic(http.ErrAbortHandler) }, "The connection to the gateway broke before its answer came." + sent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEndpoint(t, tt.answer)
			c := newClient(t, relay.Options{URL: e.URL, Token: secret.New(tt.token)})
			c.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`)
			got := c.next()
			if strings.Contains(got, `"method":"x"`) { // the message before the end of the stream
				got = c.next()
			}
			var m struct {
				ID    int
				Error struct {
					Code    int
					Message string
				}
			}
			if err := json.Unmarshal([]byte(got), &m); err != nil || m.ID != 7 || got != tt.want && (m.Error.Message != tt.want || m.Error.Code != -32603) {
				t.Errorf("answer %s, want %s", got, tt.want)
			}
			c.close()
			if strings.Contains(c.log.String()+got, "t0ken-of-mine") {
				t.Errorf("the token is in the answer or in the log: %s %s", got, c.log)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		c := newClient(t, relay.Options{URL: "http://" + l.Addr().String()})
		c.send(hello)
		c.wants(`{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"The gateway cannot be reached. Is it running, and is its URL right? The request was not carried out."}}`)
		c.close()
	})
}

func TestSessionGone(t *testing.T) {
	n := 0
	e := newEndpoint(t, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		switch id := r.Header.Get("Mcp-Session-Id"); {
		case m["method"] == "initialize":
			n++
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", n))
			reply(w, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}`)
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m["method"] == "tools/list" && id == "s1":
			w.WriteHeader(http.StatusNotFound)
		case m["method"] == "tools/list":
			reply(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{}}`, m["id"]))
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	c := newClient(t, relay.Options{URL: e.URL})
	c.send(hello)
	c.next()
	c.send(ready)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	c.wants(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	c.close()
	// The session's listening GET runs concurrently, so its position is random.
	got := strings.Join(slices.DeleteFunc(strings.Split(e.requests(), ", "), func(r string) bool {
		return strings.HasPrefix(r, "GET ")
	}), ", ")
	const want = "POST initialize, POST notifications/initialized s1, POST tools/list s1, " +
		"POST initialize, POST notifications/initialized s2, POST tools/list s2, DELETE  s2"
	if got != want {
		t.Errorf("requests: %s, want %s", got, want)
	}
}

func TestCancel(t *testing.T) {
	begun, ended, cancelSeen := make(chan struct{}), make(chan struct{}), make(chan struct{})
	e := newEndpoint(t, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		switch {
		case m["method"] == "notifications/cancelled":
			close(cancelSeen)
			w.WriteHeader(http.StatusAccepted)
		case m["id"] == "modern":
			close(begun)
			<-r.Context().Done()
			close(ended)
		default:
			<-cancelSeen
			stream(w) // the stream ends without an answer
		}
	})
	c := newClient(t, relay.Options{URL: e.URL})
	c.send(`{"jsonrpc":"2.0","id":"modern","method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	<-begun
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"modern"}}`)
	<-ended
	c.send(`{"jsonrpc":"2.0","id":"older","method":"tools/call","params":{"name":"x"}}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"older"}}`)
	<-cancelSeen
	c.close() // the client gets no message about the cancelled calls
	if got := e.requests(); strings.Count(got, "cancelled") != 1 {
		t.Errorf("requests: %s", got)
	}
}

func TestBadMessages(t *testing.T) {
	synctest.Test(t, badMessages)
}

func badMessages(t *testing.T) {
	c := newClient(t, relay.Options{URL: "http://gateway.example/mcp", Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})})
	c.send("hello\n\n[]")
	c.wants(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"The message is not a JSON object."}}`)
	c.wants(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"The message is not a JSON object."}}`)
	c.send(strings.Repeat("x", 5<<20))
	c.wants(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"The message is longer than 4 MiB. It was not sent."}}`)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"a"}`)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"a"}`)
	c.wants(`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Another request with this id is open. This one was not sent."}}`)
	begun := time.Now()
	_ = c.in.Close()
	_, _ = io.ReadAll(c.out)
	if err := <-c.end; err != nil || time.Since(begun) != 2*time.Second {
		t.Errorf("Run = %v after %v, want it to give the open request 2 s", err, time.Since(begun))
	}
}

func TestRunEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, _ := io.Pipe()
	end := make(chan error, 1)
	go func() { end <- relay.Run(ctx, in, io.Discard, relay.Options{URL: "http://127.0.0.1:1"}) }()
	cancel()
	if err := <-end; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func FuzzRun(f *testing.F) {
	f.Add([]byte(hello + "\n" + ready + "\n{\"id\":1,\"method\":\"tools/list\"}\n"))
	f.Add([]byte("{\"id\":{},\"method\":\"x\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"},\"name\":\"\\u0000\"}}"))
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
		return w.Result(), nil
	})
	refusing := roundTripper(func(*http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		w.WriteHeader(http.StatusUnauthorized)
		return w.Result(), nil
	})
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, o := range []relay.Options{
			{Transport: transport}, {Transport: refusing, SignIn: newPerson()},
		} {
			var out bytes.Buffer
			o.URL = "http://gateway.example/mcp"
			if err := relay.Run(t.Context(), bytes.NewReader(in), &out, o); err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(out.Bytes()) {
				if !json.Valid(line) {
					t.Errorf("line %q", line)
				}
			}
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	return f(r)
}
