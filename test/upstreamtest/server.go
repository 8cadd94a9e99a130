// Package upstreamtest runs an MCP server for tests, benchmarks and the demo. It serves any tools
// over real HTTP in both protocols, records the requests, and fails on demand.
//
// It makes the checks of a strict server: headers against body, session ids, metadata. So if a
// client gets an answer, the client has followed the specification.
package upstreamtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// Protocols are the generations of MCP that a server supports.
type Protocols int

// The protocols.
const (
	Both   Protocols = iota // the protocol that the client starts with
	Modern                  // stateless: server/discover, metadata with every request
	Legacy                  // handshake: initialize
)

// Options say how a server behaves while nothing fails. The zero value is a healthy
// server of both protocols with no tools.
type Options struct {
	Tools        []json.RawMessage // definitions, served byte for byte
	Prompts      []json.RawMessage // the same; nil: no prompts capability, and no prompts/list
	Resources    []json.RawMessage // the same
	Templates    []json.RawMessage // the same; resources or templates declare the capability
	Protocols    Protocols
	Logging      bool     // handshake protocol: declare logs, and accept logging/setLevel
	Sessions     bool     // handshake protocol: issue session ids, require them, and accept DELETE
	SSE          bool     // answer with event streams
	PageSize     int      // items on a page of a list; 0: all
	NoTools      bool     // no tools capability, and no tools/list
	Versions     []string // handshake protocol: versions to agree to, the first is the default; nil: 2025-11-25, 2025-06-18, 2025-03-26
	Instructions string
	Token        string // bearer token that every request needs, or gets 401; "": none
	Forget       bool   // do not record requests: for benchmarks and the demo

	// Call answers tools/call with a result object; nil: [Echo]. It may return an [*RPCError].
	Call func(ctx context.Context, c Call) (json.RawMessage, error)

	// Stream, if set, writes a notification stream: of GET in the handshake protocol, of
	// subscriptions/listen in the stateless protocol. The server then declares listChanged. The
	// stream ends when Stream returns; ctx ends when the client has left.
	Stream func(ctx context.Context, send func(message string))

	// Stateless protocol: extensions to declare, and functions that answer further methods.
	Extensions []string
	Methods    map[string]func(Request) (json.RawMessage, error)

	// Front, if set, handles requests before the server, as a proxy does.
	Front func(next http.Handler) http.Handler

	TLS      bool         // serve https, with a certificate from [Server.Roots]
	Addr     string       // to listen on; "": a free port of 127.0.0.1
	Listener net.Listener // instead of Addr, e.g. one of a [Network]; such a server cannot refuse
}

// TB is the part of testing.TB that this package uses. With it, programs do not link package
// testing.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// A Request is one HTTP request as it was received.
type Request struct {
	At     time.Time
	Verb   string // HTTP method
	Header http.Header
	Body   []byte
	Method string          // JSON-RPC method; "" if the body is not a request
	ID     json.RawMessage // nil: a notification
	Params json.RawMessage
	Tool   string // of a tools/call

	params, meta rawjson.Object // of Params
}

// A Server is a running MCP server.
type Server struct {
	URL string // of its MCP endpoint

	o     Options
	addr  string
	roots *x509.CertPool
	cert  tls.Certificate

	mu        sync.Mutex
	http      *http.Server
	tools     []json.RawMessage
	items     Items
	token     string
	requests  []Request
	total     int
	cancelled int
	sessions  map[string]bool
	asked     map[string]chan []byte // requests to the client that wait for its answer, by id
	nextID    int
	faults    []*plannedFault
	closed    chan struct{}
	once      sync.Once
}

// New starts a server that is closed when the test ends.
func New(t TB, o Options) *Server {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatalf("start MCP server: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// Start starts a server; the caller closes it.
func Start(o Options) (*Server, error) {
	s := &Server{o: o, tools: o.Tools, items: Items{o.Prompts, o.Resources, o.Templates}, token: o.Token, sessions: map[string]bool{}, asked: map[string]chan []byte{}, closed: make(chan struct{})}
	if len(s.o.Versions) == 0 {
		s.o.Versions = []string{"2025-11-25", "2025-06-18", "2025-03-26"}
	}
	if s.o.Call == nil {
		s.o.Call = Echo
	}
	if o.TLS {
		var err error
		if s.cert, s.roots, err = Certificate("127.0.0.1", "localhost"); err != nil {
			return nil, err
		}
	}
	l := o.Listener
	if l == nil {
		addr := o.Addr
		if addr == "" {
			addr = "127.0.0.1:0"
		}
		var err error
		if l, err = net.Listen("tcp", addr); err != nil {
			return nil, err
		}
	}
	s.addr = l.Addr().String()
	s.URL = "http://" + s.addr + "/mcp"
	if o.TLS {
		s.URL = "https://" + s.addr + "/mcp"
	}
	s.serve(l)
	return s, nil
}

func (s *Server) serve(l net.Listener) {
	if s.o.TLS {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{s.cert}, MinVersion: tls.VersionTLS12})
	}
	srv := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	s.mu.Lock()
	s.http = srv
	s.mu.Unlock()
	go func() { _ = srv.Serve(l) }() // ends with Close
}

// Close ends the server and every waiting request.
func (s *Server) Close() {
	s.once.Do(func() { close(s.closed) })
	s.mu.Lock()
	srv := s.http
	s.mu.Unlock()
	_ = srv.Close()
}

// Refuse stops listening, so that connections are refused, and closes the open ones.
func (s *Server) Refuse() {
	s.mu.Lock()
	srv := s.http
	s.mu.Unlock()
	_ = srv.Close()
}

// Return listens again, on the same port, after Refuse. If another process has the port now, Return
// waits up to two minutes.
func (s *Server) Return() error {
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		l, err := net.Listen("tcp", s.addr)
		if err == nil {
			s.serve(l)
			return nil
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// Roots returns the authority of a TLS server's certificate.
func (s *Server) Roots() *x509.CertPool { return s.roots }

// Addr returns the server's host and port.
func (s *Server) Addr() string { return s.addr }

// SetTools replaces the definitions.
func (s *Server) SetTools(tools []json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
}

// Items contains what a server lists beside tools. The server declares the capabilities of lists
// that are not nil.
type Items struct {
	Prompts, Resources, Templates []json.RawMessage
}

// SetItems replaces the prompts and resources that the server lists. If the server had no such
// items when a client first connected, that client does not request them.
func (s *Server) SetItems(items Items) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = items
}

func (s *Server) listed() Items {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items
}

// SetToken replaces the bearer token that requests need.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// EndSessions forgets every session, as a restart does.
func (s *Server) EndSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

// Sessions returns the ids of the open sessions, sorted.
func (s *Server) Sessions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.sessions))
}

// Requests returns the received requests, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Calls returns the tools/call requests that were received, in order.
func (s *Server) Calls() []Request { return s.Received("tools/call") }

// Received returns the requests with a JSON-RPC method, in order.
func (s *Server) Received(method string) []Request {
	var out []Request
	for _, r := range s.Requests() {
		if r.Method == method {
			out = append(out, r)
		}
	}
	return out
}

// Total returns the number of received requests, even if they are not recorded.
func (s *Server) Total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Cancelled returns how many hanging or slow requests the client cancelled.
func (s *Server) Cancelled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancelled
}

// ForgetRequests drops the recorded requests.
func (s *Server) ForgetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.total, s.cancelled = nil, 0, 0
}

// Handler returns the server as a handler. Planned faults answer before the server does.
func (s *Server) Handler() http.Handler {
	var h http.Handler = http.HandlerFunc(s.answer)
	h = s.failing(h)
	if s.o.Front != nil {
		h = s.o.Front(h)
	}
	return s.recording(h)
}

type requestKey struct{}

// recording reads the body once, for the record and for the next handlers.
func (s *Server) recording(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "body cannot be read", http.StatusBadRequest)
			return
		}
		req := &Request{At: time.Now(), Verb: r.Method, Header: r.Header.Clone(), Body: body}
		req.read()
		s.mu.Lock()
		s.total++
		if !s.o.Forget {
			s.requests = append(s.requests, *req)
		}
		s.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, req)))
	})
}

// read parses the body.
func (r *Request) read() {
	m, _ := rawjson.Split(r.Body, rawjson.Lenient, "params", "_meta") // invalid: not a request
	r.ID, r.Method, r.Params = m.Get("id"), rawjson.Text(m.Get("method")), m.Get("params")
	r.params = inner(m, "params")
	r.meta = inner(r.params, "_meta")
	if r.Method == "tools/call" {
		r.Tool = rawjson.Text(r.params.Get("name"))
	}
}

// inner returns the members of a nested value, which was split together with its parent.
func inner(o rawjson.Object, name string) rawjson.Object {
	for _, m := range o {
		if m.Name == name {
			return m.Members
		}
	}
	return nil
}

// An RPCError is a JSON-RPC error that a Call function answers with.
type RPCError struct {
	Code    int
	Message string
	Data    json.RawMessage
}

func (e *RPCError) Error() string { return e.Message }

// A Call is one tools/call.
type Call struct {
	Name      string
	Arguments json.RawMessage // unchanged; nil if absent
	Params    json.RawMessage
	Header    http.Header
	Modern    bool
}

// Notebook returns a Call that stores a text for each session. "write" stores the argument text,
// and "read" returns the text that the same session wrote.
func Notebook() func(context.Context, Call) (json.RawMessage, error) {
	var mu sync.Mutex
	pages := map[string]string{}
	return func(_ context.Context, c Call) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		id := c.Header.Get("Mcp-Session-Id")
		if c.Name == "write" {
			var args struct {
				Text string `json:"text"`
			}
			if err := json.Unmarshal(c.Arguments, &args); err != nil {
				return nil, &RPCError{Code: -32602, Message: "invalid params"}
			}
			pages[id] = args.Text
		}
		return json.Marshal(map[string]any{"content": []map[string]string{{"type": "text", "text": pages[id]}}})
	}
}

// Echo answers a call with the tool's name and its arguments, byte for byte.
func Echo(_ context.Context, c Call) (json.RawMessage, error) {
	name, err := json.Marshal(c.Name)
	if err != nil {
		return nil, err
	}
	args := c.Arguments
	if args == nil {
		args = json.RawMessage("null")
	}
	var b bytes.Buffer
	b.WriteString(`{"content":[{"type":"text","text":`)
	b.Write(name)
	b.WriteString(`}],"structuredContent":{"name":`)
	b.Write(name)
	b.WriteString(`,"arguments":`)
	b.Write(args)
	b.WriteString(`},"isError":false`)
	if c.Modern {
		b.WriteString(`,"resultType":"complete"`)
	}
	b.WriteString(`}`)
	return b.Bytes(), nil
}

func asRPCError(err error) *RPCError {
	if e, ok := errors.AsType[*RPCError](err); ok {
		return e
	}
	return &RPCError{Code: -32603, Message: err.Error()}
}
