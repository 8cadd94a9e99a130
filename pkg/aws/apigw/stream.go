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

// maxHeld is how much of an answer is held before its first byte is sent, unless the handler
// flushes: as much as the buffered front could answer at all.
const maxHeld = maxAnswer

var (
	errBroken = errors.New("the answer ends early: internal error")        // in the trailer of the answer, which AWS logs
	errUnread = errors.New("the rest of the answer is not read by Lambda") // to the handler that writes on
)

// A Stream feeds the events of a Function URL that streams (InvokeMode RESPONSE_STREAM), or of a REST
// API that does (responseTransferMode STREAM), to a handler. It is safe for concurrent use.
//
// Both take the same answer, which aws-lambda-go writes: status, headers and cookies as JSON, eight zero
// bytes, the body.
//
// An answer is held until the handler flushes it, with [http.ResponseController], or ends. So an
// answer of one piece is sent as one, and a handler that panics before it has flushed is answered
// with 500. One that panics later ends the answer where it is, and Lambda counts an error.
//
// Nobody tells a function that its client left. The handler's context ends with the time that
// Lambda gives the function, or when Lambda itself no longer reads.
type Stream struct {
	next http.Handler
	log  *slog.Logger
}

// NewStream returns a Stream for h. It makes no call. A nil log drops the lines.
func NewStream(h http.Handler, log *slog.Logger) *Stream {
	return &Stream{h, cmp.Or(log, slog.New(slog.DiscardHandler))}
}

// An Event is a request as Lambda hands it to a function.
type Event struct{ payload }

// Answer answers one event. It is what lambda.Start takes: bound to a [Stream], it has one of the
// signatures by which that knows an answer that streams. It returns when the answer's head is
// known; its body is read while the handler goes on. An error means that the event is no request.
func (s *Stream) Answer(ctx context.Context, raw Event) (*events.LambdaFunctionURLStreamingResponse, error) {
	e, err := raw.event()
	if err != nil {
		return nil, err
	}
	header, text, isBase64 := e.sent()
	body, status := decode(text, isBase64)
	if status != 0 {
		return refused(status), nil
	}
	r, err := e.request(ctx)
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "event not converted", slog.Any("error", err))
		return refused(http.StatusBadRequest), nil
	}
	working, cancel := context.WithCancel(r.Context())
	r = r.WithContext(working)
	sent{header, body}.restore(r)
	w := &streamWriter{buffer: buffer{header: http.Header{}}, begun: make(chan *events.LambdaFunctionURLStreamingResponse, 1), cancel: cancel}
	go func() {
		defer cancel()
		w.end(serve(s.next, s.log, w, r))
	}()
	return <-w.begun, nil
}

// refused is a refusal with nothing to follow.
func refused(status int) *events.LambdaFunctionURLStreamingResponse {
	return &events.LambdaFunctionURLStreamingResponse{
		StatusCode: status, Headers: map[string]string{"Content-Type": "application/json"}, Body: strings.NewReader(refusal(status)),
	}
}

// A streamWriter is the handler's side of one answer.
type streamWriter struct {
	buffer // of what is written and not yet sent
	begun  chan *events.LambdaFunctionURLStreamingResponse
	cancel context.CancelFunc
	out    *io.PipeWriter // nil: nothing is sent yet
}

// Write implements [http.ResponseWriter].
func (w *streamWriter) Write(p []byte) (int, error) {
	if w.body.Len()+len(p) <= maxHeld {
		return w.buffer.Write(p)
	}
	if err := w.FlushError(); err != nil {
		return 0, err
	}
	return w.out.Write(p)
}

// FlushError is what [http.ResponseController] calls. It returns when Lambda has taken all that
// was written so far, or an error if it takes no more.
func (w *streamWriter) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if w.out == nil {
		var in *io.PipeReader
		in, w.out = io.Pipe()
		w.begun <- w.answer(streamBody{in, w.cancel})
	}
	if w.body.Len() == 0 {
		return nil // a pipe would wait for somebody who reads the nothing
	}
	_, err := w.out.Write(w.body.Bytes())
	w.body.Reset()
	return err
}

// end ends the answer. done says whether the handler came to its end.
func (w *streamWriter) end(done bool) {
	switch {
	case w.out == nil && !done:
		w.begun <- refused(http.StatusInternalServerError)
	case w.out == nil:
		w.WriteHeader(http.StatusOK)
		w.begun <- w.answer(bytes.NewReader(w.body.Bytes()))
	case !done:
		w.out.CloseWithError(errBroken)
	default:
		_ = w.FlushError() // nobody reads on if this fails
		_ = w.out.Close()  // never an error
	}
}

// answer returns status and headers as they are now, with a body. Lambda itself frames the body
// and keeps the connection, so it is not told how.
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

// A streamBody is what Lambda reads. It is closed when it has been read, or cannot be passed on.
type streamBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements [io.Closer].
func (b streamBody) Close() error {
	b.cancel()
	return b.CloseWithError(errUnread)
}
