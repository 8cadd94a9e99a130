package lambdatest

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// From returns a transport that passes requests to the function as events of an HTTP API or a
// Function URL. The events have the given source address; "" means any address.
func (f *Function) From(address string) http.RoundTripper { return transport{f, address} }

type transport struct {
	*Function
	address string
}

// RoundTrip implements [http.RoundTripper]. It returns when it has the head of the answer.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	headers, cookies := map[string]string{"host": cmp.Or(r.Host, r.URL.Host)}, []string(nil)
	for name, values := range r.Header {
		if name == "Cookie" { // API Gateway passes cookies separately
			cookies = strings.Split(strings.Join(values, "; "), "; ")
			continue
		}
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	event, err := json.Marshal(map[string]any{
		"cookies": cookies,
		"version": "2.0", "rawPath": r.URL.Path, "rawQueryString": r.URL.RawQuery, "headers": headers, "body": string(body),
		"requestContext": map[string]any{
			"stage": "$default", "authorizer": f.Authorizer, "domainName": r.URL.Host,
			"http": map[string]any{"method": r.Method, "path": r.URL.Path, "sourceIp": cmp.Or(f.address, "203.0.113.7")},
		},
	})
	if err != nil {
		return nil, err
	}
	a, err := f.invoke(event)
	if err != nil {
		return nil, fmt.Errorf("%w; the function wrote:\n%s", err, f.Output())
	}
	if s := a.Stream; s != nil {
		return &http.Response{StatusCode: s.Status, Header: s.Header, Body: s.Body, Request: r, ContentLength: -1}, nil
	}
	var out struct {
		StatusCode      int
		Headers         map[string]string
		Body            string
		IsBase64Encoded bool
		Cookies         []string
	}
	if err := json.Unmarshal(a.Payload, &out); err != nil || a.Failed {
		return nil, fmt.Errorf("answer %s: %w", a.Payload, err)
	}
	var content io.Reader = strings.NewReader(out.Body)
	if out.IsBase64Encoded { // such as a compressed page
		content = base64.NewDecoder(base64.StdEncoding, content)
	}
	return &http.Response{
		StatusCode: out.StatusCode, Header: header(out.Headers, out.Cookies),
		Body: io.NopCloser(content), Request: r,
	}, nil
}

// A Front is an HTTP server in front of functions, like AWS. It passes each request to
// an idle environment, or to a new environment if none is idle. An environment is busy until the
// function has ended its answer, even if the client has left.
type Front struct {
	URL string

	t     testing.TB
	start func() *Function

	mu   sync.Mutex
	idle []*Function
	all  []*Function
}

// maxEnvironments is more than one test needs at the same time.
const maxEnvironments = 32

// NewFront serves the functions that start returns, on loopback, until the test ends.
func NewFront(t testing.TB, start func() *Function) *Front {
	t.Helper()
	f := &Front{t: t, start: start}
	server := httptest.NewServer(f)
	t.Cleanup(func() {
		for _, e := range f.Environments() { // later output of the functions is not read
			e.Stop()
		}
		server.CloseClientConnections()
		server.Close()
	})
	f.URL = server.URL
	return f
}

// Environments returns the functions that were started so far.
func (f *Front) Environments() []*Function {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*Function(nil), f.all...)
}

// environment returns an idle or a new environment, or nil if there are too many.
func (f *Front) environment() *Function {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := len(f.idle); n > 0; n = len(f.idle) {
		e := f.idle[n-1]
		f.idle = f.idle[:n-1]
		if e.Ready() {
			return e
		}
	}
	if len(f.all) == maxEnvironments {
		return nil
	}
	e := f.start()
	f.all = append(f.all, e)
	return e
}

// ServeHTTP implements [http.Handler].
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := f.environment()
	if e == nil {
		http.Error(w, "Too many environments", http.StatusTooManyRequests)
		return
	}
	defer func() {
		f.mu.Lock()
		f.idle = append(f.idle, e)
		f.mu.Unlock()
	}()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	out := r.Clone(r.Context())
	out.Body, out.URL.Host = io.NopCloser(bytes.NewReader(body)), strings.TrimPrefix(f.URL, "http://")
	answer, err := e.From(address).RoundTrip(out)
	if err != nil { // AWS answers in this way
		f.t.Logf("%s %s: %v", r.Method, r.URL.Path, err)
		http.Error(w, `{"message":"Internal Server Error"}`, http.StatusBadGateway)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	if answer.ContentLength < 0 { // send the head before the first part
		_ = http.NewResponseController(w).Flush()
	}
	if !f.pass(w, answer.Body) {
		panic(http.ErrAbortHandler) // the client sees that the answer is incomplete
	}
}

// pass sends the parts of a body as they arrive. It reads to the end, even if the client has left.
// It reports whether the function ended the body without an error.
func (f *Front) pass(w http.ResponseWriter, body io.Reader) bool {
	flush := http.NewResponseController(w).Flush
	part := make([]byte, 32<<10)
	for {
		n, err := body.Read(part)
		if n > 0 {
			_, _ = w.Write(part[:n]) // the function does not learn that its client left
			_ = flush()
		}
		if err != nil {
			return err == io.EOF
		}
	}
}
