package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
)

// maxEvidence is how much of a body is kept as evidence, in bytes.
const maxEvidence = 4 << 10

// An exchange is what is known of one HTTP request and its response.
type exchange struct {
	sent     bool // a connection was had: the request may have been delivered
	session  bool // the request carried a session id
	answered bool // bytes came back
	garbled  bool // and they do not begin as HTTP does
	unpacked bool // the body came compressed

	status   int // 0: no response was read
	header   http.Header
	body     []byte // its first 4 KiB; nil: the status says that all went well
	complete bool   // body is the whole body
}

type exchangeKey struct{}

// A recorder is a RoundTripper that leaves what is known of each exchange where [recorded] said.
type recorder struct{ *http.Transport }

// recorded returns a context whose last exchange is kept in last.
func recorded(ctx context.Context, last **exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, last)
}

// beginExchange returns what will be known of req, which is kept where [recorded] said.
func beginExchange(req *http.Request) *exchange {
	x := &exchange{session: req.Header.Get(mcp.HeaderSession) != ""}
	if last, ok := req.Context().Value(exchangeKey{}).(**exchange); ok {
		*last = x
	}
	return x
}

// respond returns a response that did not come over HTTP.
func (x *exchange) respond(status int, header http.Header, body io.ReadCloser) *http.Response {
	x.answered, x.status, x.header = true, status, header
	return &http.Response{StatusCode: status, Header: header, Body: body}
}

func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	x := beginExchange(req)
	var conn *egress.Conn
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		alive := true
		if conn, _ = info.Conn.(*egress.Conn); conn != nil {
			alive = conn.Restart()
		}
		x.sent = x.sent || alive
	}}
	resp, err := r.Transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil {
		if conn != nil {
			// The transport has texts of its own for a connection that ended
			// early; the error of the connection itself has a type.
			var cause error
			x.answered, x.garbled, cause = conn.State()
			err = errors.Join(err, cause)
		}
		return nil, err
	}
	x.answered, x.status, x.header, x.unpacked = true, resp.StatusCode, resp.Header, resp.Uncompressed
	if resp.StatusCode/100 != 2 { // else the body is an answer
		resp.Body = &recordedBody{ReadCloser: resp.Body, x: x}
	}
	return resp, nil
}

// A recordedBody keeps the beginning of what is read through it.
type recordedBody struct {
	io.ReadCloser
	x    *exchange
	more bool // some of it was not kept
}

func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	room := maxEvidence - len(b.x.body)
	b.x.body = append(b.x.body, p[:min(n, room)]...)
	b.more = b.more || n > room
	if errors.Is(err, io.EOF) {
		b.x.complete = !b.more
	}
	return n, err
}
