// Package agenttest sends requests to a gateway over HTTP, as an agent to /mcp and as a person to
// /admin. It imports no code of the gateway, so the gateway can run anywhere.
package agenttest

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/secrettest"
)

// A Client sends requests to one gateway.
type Client struct {
	T         testing.TB
	URL       string            // of the gateway, without a path
	Transport http.RoundTripper // nil: the network
	Check     func(Answer)      // is called with every answer; nil: nothing is called
	Admin     string            // default credentials of requests to /admin; "": none
}

// An Answer is the response to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Cookies returns the cookies that the answer sets.
func (a Answer) Cookies() []*http.Cookie { return (&http.Response{Header: a.Header}).Cookies() }

// Send sends a request. A request with a body is a POST of JSON, unless headers ("Name: value")
// contain another content type.
func (c *Client) Send(path, body string, headers ...string) Answer {
	c.T.Helper()
	method, h := http.MethodGet, http.Header{}
	if body != "" {
		method = http.MethodPost
		h.Set("Content-Type", "application/json")
		h.Set("Accept", "application/json, text/event-stream")
	}
	if c.Admin != "" && strings.HasPrefix(path, "/admin") {
		h.Set("Authorization", "Bearer "+c.Admin)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		h.Set(name, value)
	}
	return c.Do(method, path, body, h)
}

// Do sends a request without default headers.
func (c *Client) Do(method, path, body string, header http.Header) Answer {
	c.T.Helper()
	r, err := http.NewRequestWithContext(c.T.Context(), method, c.URL+path, strings.NewReader(body))
	require.OK(c.T, err)
	maps.Copy(r.Header, header)
	if host, ok := header["Host"]; ok {
		r.Host = host[0]
	}
	transport := c.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	resp, err := transport.RoundTrip(r)
	require.OK(c.T, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.OK(c.T, err)
	a := Answer{resp.StatusCode, resp.Header, string(data)}
	secrettest.Absent(c.T, "the answer to "+r.URL.Path, a.Body)
	for name, values := range a.Header {
		secrettest.Absent(c.T, name+" of the answer to "+r.URL.Path, strings.Join(values, "\n"))
	}
	if c.Check != nil {
		c.Check(a)
	}
	return a
}

// Ask sends a request as [Client.Send] does, and checks the status of the answer. It reads the
// answer into out unless out is nil. A string is sent as it is, nil is no body, other bodies become
// JSON.
func (c *Client) Ask(status int, path string, body, out any, headers ...string) {
	c.T.Helper()
	sent := ""
	if body != nil {
		sent = asJSON(c.T, body)
	}
	a := c.Send(path, sent, headers...)
	if a.Status != status {
		c.T.Fatalf("%s %s: status %d, want %d: %s", path, sent, a.Status, status, a.Body)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal([]byte(a.Body), out); err != nil {
		c.T.Fatalf("%s: %v: %s", path, err, a.Body)
	}
}

// Pages returns every entry of a list of the API at /admin. member is the name of the entries in
// each page. filter ("status=callable") selects entries.
func Pages[E any](c *Client, list, member, filter string) (all []E) {
	c.T.Helper()
	after := ""
	for {
		var page map[string]json.RawMessage
		c.Ask(http.StatusOK, "/admin/"+list+"?"+filter+"&limit=200&after="+after, nil, &page)
		all = append(all, require.JSON[[]E](c.T, page[member])...)
		if page["next"] == nil {
			return all
		}
		after = require.JSON[string](c.T, page["next"])
	}
}

// RPC sends a JSON-RPC request and returns its result. An error ends the test.
func (c *Client) RPC(method string, params any, headers ...string) json.RawMessage {
	c.T.Helper()
	var a struct{ Result, Error json.RawMessage }
	c.Ask(http.StatusOK, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+asJSON(c.T, params)+`}`, &a, headers...)
	if a.Error != nil {
		c.T.Fatalf("%s: %s", method, a.Error)
	}
	return a.Result
}

// Refused sends a JSON-RPC request and returns the message and the data of its error. A result ends
// the test.
func (c *Client) Refused(method string, params any, headers ...string) string {
	c.T.Helper()
	var a struct {
		Error *struct {
			Message string
			Data    json.RawMessage
		}
	}
	c.Ask(http.StatusOK, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+asJSON(c.T, params)+`}`, &a, headers...)
	if a.Error == nil {
		c.T.Fatalf("%s %s is not refused", method, asJSON(c.T, params))
	}
	return a.Error.Message + "\n" + string(a.Error.Data)
}

// Call calls one of the gateway's tools.
func (c *Client) Call(name string, arguments any, headers ...string) Result {
	c.T.Helper()
	return ReadResult(c.T, c.RPC("tools/call", `{"name":"`+name+`","arguments":`+asJSON(c.T, arguments)+`}`, headers...))
}

// CallJSON calls one of the gateway's tools and reads its answer into out. An error ends the test.
func (c *Client) CallJSON(name string, arguments, out any, headers ...string) {
	c.T.Helper()
	r := c.Call(name, arguments, headers...)
	if err := json.Unmarshal([]byte(r.Text), out); err != nil || r.IsError {
		c.T.Fatalf("%s: %v: %s", name, err, r.Raw)
	}
}

// asJSON returns v as JSON. It returns a string unchanged, because the string already is JSON.
func asJSON(t testing.TB, v any) string {
	t.Helper()
	if s, ok := v.(string); ok {
		return s
	}
	data, err := json.Marshal(v)
	require.OK(t, err)
	return string(data)
}

// A Result is the result of a tools/call, which has one text block.
type Result struct {
	Raw, Text string
	IsError   bool
	Meta      map[string]json.RawMessage
}

// ReadResult reads the result of a tools/call.
func ReadResult(t testing.TB, raw json.RawMessage) Result {
	t.Helper()
	var r struct {
		Content []struct{ Type, Text string }
		IsError bool
		Meta    map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) != 1 || r.Content[0].Type != "text" {
		t.Fatalf("%s: %v: want one text block", raw, err)
	}
	return Result{string(raw), r.Content[0].Text, r.IsError, r.Meta}
}

// InProcess returns a transport that passes requests to a handler.
func InProcess(h http.Handler) http.RoundTripper { return inProcess{h} }

type inProcess struct{ http.Handler }

// RoundTrip implements [http.RoundTripper].
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "192.0.2.1:1234"
	if r.URL.Scheme == "https" {
		r.TLS = &tls.ConnectionState{Version: tls.VersionTLS13}
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result(), nil
}
