package apigw

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

type contentKey struct{}

// A content holds the client's headers and body from the event.
type content struct {
	header http.Header
	body   reader
}

// restore copies headers and body into the request that the adapter made from the event. The
// adapter splits every header of payload 2.0 at its commas, reads only one of the two header maps
// of payload 1.0, and copies the body.
func (s content) restore(r *http.Request) {
	if host := s.header.Get("Host"); host != "" {
		r.Host = host
	}
	r.Header = s.header.Clone()
	r.Header.Del("Host")
	if n := s.body.Len(); n > 0 {
		r.Body, r.ContentLength = io.NopCloser(s.body), int64(n)
	}
}

// A guard is the handler that the adapter calls. It passes the event's headers and body to the real
// handler, recovers from a panic so that the process survives, and always writes a response.
type guard struct {
	next http.Handler
	log  *slog.Logger
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s, ok := r.Context().Value(contentKey{}).(content); ok {
		s.restore(r)
	}
	b := &buffer{header: http.Header{}}
	if !serve(g.next, g.log, b, r) {
		b = &buffer{header: http.Header{"Content-Type": {"application/json"}}, status: http.StatusInternalServerError}
		_, _ = io.WriteString(b, refusal(b.status)) // a buffer accepts all bytes
	}
	b.header.Del("Connection") // API Gateway manages the client's connection
	for name, values := range b.header {
		w.Header()[name] = values
	}
	if b.status == 0 { // like net/http for a handler that writes nothing
		b.status = http.StatusOK
	}
	w.WriteHeader(b.status)
	if b.body.Len() > 0 {
		_, _ = w.Write(b.body.Bytes()) // the adapter's writer is also a buffer
	}
}

// serve reports whether the handler returned without a panic.
func serve(next http.Handler, log *slog.Logger, w http.ResponseWriter, r *http.Request) (done bool) {
	defer func() {
		if p := recover(); p != nil {
			log.LogAttrs(r.Context(), slog.LevelError, "handler panicked",
				slog.Any("panic", p), slog.String("stack", string(debug.Stack())),
				slog.String("request_id", RequestID(r.Context())))
		}
	}()
	next.ServeHTTP(w, r)
	return true
}

// A buffer holds an answer until the handler has ended, because output before a panic must not be
// sent.
type buffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *buffer) Header() http.Header { return b.header }

func (b *buffer) WriteHeader(status int) {
	if b.status == 0 && status >= 200 {
		b.status = status
	}
}

func (b *buffer) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(p)
}

// RequestID returns Lambda's id of the running request, or "" outside of a request.
func RequestID(ctx context.Context) string {
	if c, ok := lambdacontext.FromContext(ctx); ok {
		return c.AwsRequestID
	}
	return ""
}
