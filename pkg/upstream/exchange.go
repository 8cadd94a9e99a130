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

// maxEvidence is how many bytes of a body are kept as evidence.
const maxEvidence = 4 << 10

// An exchange holds the facts of one HTTP request and its response.
type exchange struct {
	sent     bool // there was a connection, so the server may have the request
	session  bool // the request carried a session id
	answered bool // bytes came back
	garbled  bool // the answer does not begin like HTTP
	unpacked bool // the body came compressed

	status   int // 0: no response
	header   http.Header
	body     []byte // its first 4 KiB; nil: the status is a success
	complete bool   // body is the whole body
}

type exchangeKey struct{}

// A recorder is a RoundTripper that keeps the facts of each exchange for the caller of [recorded].
type recorder struct{ *http.Transport }

// recorded returns a context that stores its last exchange in last.
func recorded(ctx context.Context, last **exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, last)
}

// beginExchange returns the exchange of req, and stores it for the caller of [recorded].
func beginExchange(req *http.Request) *exchange {
	x := &exchange{session: req.Header.Get(mcp.HeaderSession) != ""}
	if last, ok := req.Context().Value(exchangeKey{}).(**exchange); ok {
		*last = x
	}
	return x
}

// respond returns a response that did not come by HTTP.
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
			// If a connection ended early, the transport returns its own text. The connection's own
			// error has a type.
			var cause error
			x.answered, x.garbled, cause = conn.State()
			err = errors.Join(err, cause)
		}
		return nil, err
	}
	x.answered, x.status, x.header, x.unpacked = true, resp.StatusCode, resp.Header, resp.Uncompressed
	if resp.StatusCode/100 != 2 { // the body of a success is an answer
		resp.Body = &recordedBody{ReadCloser: resp.Body, x: x}
	}
	return resp, nil
}

// A recordedBody keeps the first bytes that pass through it.
type recordedBody struct {
	io.ReadCloser
	x    *exchange
	more bool // it dropped some bytes
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
