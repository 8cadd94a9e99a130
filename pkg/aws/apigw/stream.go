package apigw

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// maxBuffered is how many bytes of an answer a Stream buffers before it sends the first byte,
// unless the handler flushes. It equals the limit for a whole answer.
const maxBuffered = maxAnswer

var (
	// errBroken is in the trailer of the answer, which AWS logs.
	errBroken = errors.New("the answer ends early: internal error")
	// errUnread is for a handler that still writes.
	errUnread = errors.New("the rest of the answer is dropped: Lambda stopped reading")
)

// A Stream passes events to a handler. The events come from a Function URL (InvokeMode
// RESPONSE_STREAM) or a REST API (responseTransferMode STREAM). It is safe for concurrent use.
//
// Both accept the same format of an answer, which aws-lambda-go writes: status, headers and cookies
// as JSON, then eight zero bytes, then the body.
//
// The Stream buffers an answer until the handler ends, or flushes it with
// [http.ResponseController]. If the handler never flushes, the Stream sends the whole answer
// at once. If the handler panics before its first flush, the Stream sends 500. A later panic
// truncates the answer, and Lambda counts an error.
//
// A function cannot detect that its client has disconnected. The handler's context ends at the
// function's timeout, or when Lambda stops reading.
type Stream struct {
	next http.Handler
	log  *slog.Logger
}

// NewStream returns a Stream for h. If log is nil, the Stream logs nothing.
func NewStream(h http.Handler, log *slog.Logger) *Stream {
	return &Stream{h, cmp.Or(log, slog.New(slog.DiscardHandler))}
}

// An Event is a request as Lambda delivers it to a function.
type Event struct{ payload }

// Answer answers one event. Pass the method to lambda.Start, which streams the answers of a
// function with this signature. Answer returns when it has the answer's head. Lambda reads the body
// while the handler runs. An error means that the event is not a request.
func (s *Stream) Answer(ctx context.Context, raw Event) (*events.LambdaFunctionURLStreamingResponse, error) {
	e, err := raw.event()
	if err != nil {
		return nil, err
	}
	header, text, isBase64 := e.content()
	body, status := decode(text, isBase64)
	if status != 0 {
		return refusedStream(status), nil
	}
	r, err := e.request(ctx)
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "event not converted", slog.Any("error", err))
		return refusedStream(http.StatusBadRequest), nil
	}
	working, cancel := context.WithCancel(r.Context())
	r = r.WithContext(working)
	content{header, body}.restore(r)
	w := &streamWriter{buffer: buffer{header: http.Header{}}, begun: make(chan *events.LambdaFunctionURLStreamingResponse, 1), cancel: cancel}
	go func() {
		defer cancel()
		w.end(serve(s.next, s.log, w, r))
	}()
	return <-w.begun, nil
}

// refusedStream returns a refusal as a whole answer.
func refusedStream(status int) *events.LambdaFunctionURLStreamingResponse {
	return &events.LambdaFunctionURLStreamingResponse{
		StatusCode: status, Headers: map[string]string{"Content-Type": "application/json"}, Body: strings.NewReader(refusal(status)),
	}
}

// A streamWriter is the handler's side of one answer.
type streamWriter struct {
	buffer // written bytes that are not sent yet
	begun  chan *events.LambdaFunctionURLStreamingResponse
	cancel context.CancelFunc
	out    *io.PipeWriter // nil: nothing was sent yet
}

// Write implements [http.ResponseWriter].
func (w *streamWriter) Write(p []byte) (int, error) {
	if w.body.Len()+len(p) <= maxBuffered {
		return w.buffer.Write(p)
	}
	if err := w.FlushError(); err != nil {
		return 0, err
	}
	return w.out.Write(p)
}

// FlushError is the method that [http.ResponseController] calls. It returns nil when Lambda has
// read all bytes so far. It returns an error if Lambda has stopped reading.
func (w *streamWriter) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if w.out == nil {
		var in *io.PipeReader
		in, w.out = io.Pipe()
		w.begun <- w.answer(streamBody{in, w.cancel})
	}
	if w.body.Len() == 0 {
		return nil // a pipe would wait for a reader of zero bytes
	}
	_, err := w.out.Write(w.body.Bytes())
	w.body.Reset()
	return err
}

// end ends the answer. done reports whether the handler returned without a panic.
func (w *streamWriter) end(done bool) {
	switch {
	case w.out == nil && !done:
		w.begun <- refusedStream(http.StatusInternalServerError)
	case w.out == nil:
		w.WriteHeader(http.StatusOK)
		w.begun <- w.answer(bytes.NewReader(w.body.Bytes()))
	case !done:
		w.out.CloseWithError(errBroken)
	default:
		_ = w.FlushError() // if this fails, nobody reads
		_ = w.out.Close()  // never an error
	}
}

// answer returns the current status and headers, with a body. Lambda frames the body and manages
// the connection, so the answer has no headers for these.
func (w *streamWriter) answer(body io.Reader) *events.LambdaFunctionURLStreamingResponse {
	a := &events.LambdaFunctionURLStreamingResponse{StatusCode: w.status, Headers: map[string]string{}, Body: body}
	for name, values := range w.header {
		switch name {
		case "Connection", "Content-Length", "Transfer-Encoding":
		case "Set-Cookie":
			a.Cookies = append(a.Cookies, values...)
		default:
			a.Headers[name] = strings.Join(values, ", ")
		}
	}
	return a
}

// A streamBody is the body that Lambda reads. Lambda closes the body at its end, or if Lambda
// cannot send it.
type streamBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements [io.Closer].
func (b streamBody) Close() error {
	b.cancel()
	return b.CloseWithError(errUnread)
}
