package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxResponse is the maximum length of a response, in bytes.
const maxResponse = outcome.MaxResult

// A message is the content of one exchange.
type message struct {
	id     int64 // of the request; 0: send chooses a new id
	method string
	params rawjson.Object
	name   string      // of the tool, for Mcp-Name; "": none
	header http.Header // more headers, such as the headers of the trace; may be nil
}

// send sends one request and returns the result object of its reply. An error is an
// [*outcome.RPCError], an error type of this package, or an error of the transport.
func (o *operation) send(ctx context.Context, s mcpSession, m message) (json.RawMessage, error) {
	if o.requestID = m.id; m.id == 0 {
		o.requestID = o.c.nextID.Add(1)
	}
	resp, err := o.post(ctx, s, m, request(o.requestID, m.method, m.params))
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return nil, o.refusal(resp, o.requestID)
	}
	switch media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case media == "application/json":
		if page := o.reads(m); page != nil {
			return page.json(resp, o.requestID)
		}
		return jsonReply(resp, o.requestID)
	case media == "text/event-stream":
		defer func() { o.questions.endAll() }()
		read := replyTo
		if page := o.reads(m); page != nil {
			read = page.reply
		}
		return streamReply(resp, o.requestID, o.c.limits.drain, read, func(data []byte) { o.handleMessage(ctx, s, resp, data) })
	case resp.StatusCode == http.StatusAccepted, resp.StatusCode == http.StatusNoContent:
		return nil, brokenProtocol("http status %d instead of an answer", resp.StatusCode)
	}
	return nil, &protocolError{outcome.ReasonNotMCP, "the answer's type is neither JSON nor an event stream"}
}

// reads returns the [pageReader] for the reply to m if m requests a page of a list. Otherwise it
// returns nil.
func (o *operation) reads(m message) *pageReader {
	if o.page == nil || o.page.page.method != m.method {
		return nil
	}
	return o.page
}

// notify sends a notification.
func (o *operation) notify(ctx context.Context, s mcpSession, method string, params rawjson.Object) error {
	resp, err := o.post(ctx, s, message{method: method}, request(0, method, params))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return o.refusal(resp, 0)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxEvidence)) // so that the connection can be reused
	return err
}

// post sends one HTTP request. A configured header never replaces a header of the protocol.
func (o *operation) post(ctx context.Context, s mcpSession, m message, body []byte) (*http.Response, error) {
	return o.c.post(recorded(ctx, &o.last), o.ep, s, m, body)
}

func (c *Client) post(ctx context.Context, ep *endpoint, s mcpSession, m message, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, ep.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &configError{msg: "the URL is not valid"}
	}
	c.address(req, ep, s)
	for name, values := range m.header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if s.modern {
		req.Header.Set(mcp.HeaderMethod, m.method)
		if m.name != "" {
			req.Header.Set(mcp.HeaderName, tool.EncodeHeader(m.name))
		}
	}
	return ep.transport.Do(req)
}

// address sets the headers of every request to a server.
func (c *Client) address(req *http.Request, ep *endpoint, s mcpSession) {
	for name, values := range ep.header {
		if !strings.HasPrefix(name, "Mcp-") {
			req.Header[name] = values
		}
	}
	req.Header.Set("User-Agent", c.agent)
	if s.version != "" {
		req.Header.Set(mcp.HeaderVersion, s.version)
	}
	if s.id != "" {
		req.Header.Set(mcp.HeaderSession, s.id)
	}
}

// refusal returns the error for a response whose HTTP status is not 2xx. It returns the JSON-RPC
// error in the body if that error has the request's id, or has no id and a standard code. If a
// proxy may have sent the HTTP status, refusal ignores the body and returns a [*statusError].
func (o *operation) refusal(resp *http.Response, id int64) error {
	body, err := readAll(resp)
	if err != nil && !errors.Is(err, errTooLong) {
		return errors.Join(o.status(resp.StatusCode), err)
	}
	if resp.StatusCode/100 == 4 && !intermediaryStatus(resp.StatusCode) {
		if r, err := parseReply(body); err == nil && r.err != nil && (r.is(id) || r.anonymous() && standard(r.err.Code)) {
			return r.err
		}
	}
	return o.status(resp.StatusCode)
}

// status returns the error for an HTTP status, with the beginning of the body.
func (o *operation) status(code int) error {
	e := &statusError{status: code}
	if o.last != nil {
		e.body = redact(string(o.last.body), o.secrets())
	}
	return e
}

var errTooLong = brokenProtocol("the response is longer than %d bytes", maxResponse)

// readAll reads a whole body. If the body is longer than maxResponse, it returns errTooLong.
func readAll(resp *http.Response) ([]byte, error) {
	var b bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= maxResponse {
		b.Grow(int(n) + bytes.MinRead)
	}
	n, err := b.ReadFrom(io.LimitReader(resp.Body, maxResponse+1))
	if err == nil && n > maxResponse {
		err = errTooLong
	}
	return b.Bytes(), err
}

// replyTo parses raw as the reply to the request with this id. It returns the result, or the error
// that the server sent.
func replyTo(id int64, raw []byte) (json.RawMessage, error) {
	r, err := readReply(id, raw)
	return r.result, err
}

func readReply(id int64, raw []byte) (reply, error) {
	r, err := parseReply(raw)
	switch {
	case err != nil:
		return reply{}, err
	case !r.is(id) && !r.anonymous():
		return reply{}, errOtherReply
	case r.err != nil:
		return reply{}, r.err
	}
	return r, nil
}

func jsonReply(resp *http.Response, id int64) (json.RawMessage, error) {
	body, err := readAll(resp)
	if err != nil {
		return nil, err
	}
	return replyTo(id, body)
}

// maxStream is how many bytes a server may send before its reply. In addition, each event, also the
// reply, may have at most maxResponse bytes.
const maxStream = 64 << 20

var errFlood = brokenProtocol("the server sent more than %d bytes before its answer", maxStream)

// streamReply reads events up to the reply. It passes the requests and notifications of the server
// to the function other. The function read is [replyTo], or [pageReader.reply] for a page of a
// list.
func streamReply(resp *http.Response, id int64, rest time.Duration, read func(int64, []byte) (json.RawMessage, error), other func(data []byte)) (result json.RawMessage, err error) {
	const most = maxResponse + 1
	limited := &io.LimitedReader{R: resp.Body, N: most}
	size := int64(0)
	err = events(limited, func(data []byte) (bool, error) {
		if len(data) > maxResponse {
			return true, errTooLong
		}
		result, err = read(id, data)
		switch {
		case errors.Is(err, errNotReply):
			other(data)
		case !errors.Is(err, errOtherReply):
			return true, err
		}
		if size += most - limited.N; size > maxStream {
			return true, errFlood
		}
		limited.N = most
		return false, nil
	})
	if limited.N == 0 {
		return nil, errTooLong
	}
	if _, own := errors.AsType[*outcome.RPCError](err); own || err == nil {
		drain(resp, limited, rest)
	}
	return result, err
}

// drain reads the rest of a stream after the reply. Usually the stream ends there, and the next
// call can use the connection again, without a new TLS handshake. If the server keeps the stream
// open, drain closes it after limit.
func drain(resp *http.Response, r io.Reader, limit time.Duration) {
	t := time.AfterFunc(limit, func() { _ = resp.Body.Close() })
	defer t.Stop()
	_, _ = io.Copy(io.Discard, r) // the caller already has the reply
}
