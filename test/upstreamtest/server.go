// Package upstreamtest is an MCP server for tests, benchmarks and the demo: it
// serves any tools over real HTTP, in both protocols of the protocol, records what
// it received, and misbehaves on demand.
//
// It checks what a strict server checks (headers against body, session ids,
// metadata), so that a client that gets an answer from it has kept the rules.
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

// Protocols says which generations of the protocol a server speaks.
type Protocols int

// The protocols.
const (
	Both   Protocols = iota // either, as the client opens
	Modern                  // stateless: server/discover, metadata with every request
	Legacy                  // handshake: initialize
)

// Options say how a server behaves while nothing fails. The zero value is a healthy
// server of both protocols with no tools.
type Options struct {
	Tools        []json.RawMessage // definitions, served byte for byte
	Prompts      []json.RawMessage // the same; nil: no prompts capability, and no prompts/list
	Resources    []json.RawMessage // the same
	Templates    []json.RawMessage // the same; the resources capability is declared if either is not nil
	Protocols    Protocols
	Logging      bool     // handshake protocol: declare logs, and take logging/setLevel
	Sessions     bool     // handshake protocol: give out session ids, insist on them, and end those that are deleted
	SSE          bool     // answer with event streams
	PageSize     int      // how many one page of a list has; 0: all on one
	NoTools      bool     // no tools capability, and no tools/list
	Versions     []string // handshake protocol: versions to agree to, the first is the default; nil: 2025-11-25, 2025-06-18, 2025-03-26
	Instructions string
	Token        string // every request must bear it, or gets 401; "": none needed
	Forget       bool   // do not record requests: for benchmarks and the demo

	// Call answers tools/call with a result object; nil: [Echo]. It may return an [*RPCError].
	Call func(ctx context.Context, c Call) (json.RawMessage, error)

	// Front, if set, handles requests before the server, as a proxy does.
	Front func(next http.Handler) http.Handler

	TLS      bool         // serve https, with a certificate from [Server.Roots]
	Addr     string       // to listen on; "": a free port of 127.0.0.1
	Listener net.Listener // instead of Addr, e.g. one of a [Network]; such a server cannot refuse
}

// TB is the part of testing.TB that this package uses, so that programs which
// are no tests do not link package testing.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// A Request is one HTTP request as it was received.
type Request struct {
	At     time.Time
	Verb   string // of HTTP
	Header http.Header
	Body   []byte
	Method string          // JSON-RPC method; "" if the body is no request
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
	faults    []*planned
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

// Close ends the server and every request that hangs in it.
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

// Return listens again, on the same port, after Refuse. It waits for who may have been given the port
// meanwhile.
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

// Roots returns the authority that a TLS server's certificate comes from.
func (s *Server) Roots() *x509.CertPool { return s.roots }

// Addr returns the server's host and port.
func (s *Server) Addr() string { return s.addr }

// SetTools replaces the definitions.
func (s *Server) SetTools(tools []json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
}

// Items are what a server lists beside tools. It declares what is not nil.
type Items struct {
	Prompts, Resources, Templates []json.RawMessage
}

// SetItems replaces the prompts and resources that the server lists. If the server had no such
// items when a client met it, that client does not request them.
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

// SetToken replaces the token that requests must bear.
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

// Requests returns what was received, in order.
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

// Cancelled returns how many requests the client gave up while they hung or were slow.
func (s *Server) Cancelled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancelled
}

// ForgetRequests drops what was recorded.
func (s *Server) ForgetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.total, s.cancelled = nil, 0, 0
}

// Handler returns the server as a handler: what was planned to fail, before what works.
func (s *Server) Handler() http.Handler {
	var h http.Handler = http.HandlerFunc(s.answer)
	h = s.failing(h)
	if s.o.Front != nil {
		h = s.o.Front(h)
	}
	return s.recording(h)
}

type requestKey struct{}

// recording reads the body once, for the record and for the layers below.
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

// read takes the body apart.
func (r *Request) read() {
	m, _ := rawjson.Split(r.Body, rawjson.Lenient, "params", "_meta") // what does not read is no request
	r.ID, r.Method, r.Params = m.Get("id"), rawjson.Text(m.Get("method")), m.Get("params")
	r.params = inner(m, "params")
	r.meta = inner(r.params, "_meta")
	if r.Method == "tools/call" {
		r.Tool = rawjson.Text(r.params.Get("name"))
	}
}

// inner returns the members of a value that was split too.
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
	Arguments json.RawMessage // as they came; nil if absent
	Params    json.RawMessage
	Header    http.Header
	Modern    bool
}

// Notebook returns a Call that keeps a text for each session: "write" takes the argument
// text, "read" returns what was written on the same session.
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
