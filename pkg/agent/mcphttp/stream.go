package mcphttp

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

const eventStream = "text/event-stream"

// Intervals of a stream.
const (
	silence   = 10 * time.Second // a waiting client gets the status and a comment after this time
	keepAlive = 15 * time.Second // interval between two comments
)

// A stream is the answer to one request. Without messages before the result, the answer is a single
// JSON object. The first message makes it text/event-stream. Messages wait in a bounded queue, so
// that no client delays the call.
type stream struct {
	out   eventWriter
	conn  context.Context    //nolint:containedctx // ends when the client disconnects
	call  context.CancelFunc // ends the call
	quiet *time.Timer        // fires if no message is sent

	mu    sync.Mutex
	phase phase
	queue queue
	final [][]byte // of the last event; nil: none

	wake  chan struct{} // signals more to write; made at the start
	ended chan struct{} // closed after the last write; made at the start
}

// A phase is the progress of a stream.
type phase int

const (
	notStarted phase = iota // no message so far: the answer may be one JSON object
	open
	finished // last event known, or client disconnected; the stream accepts no more messages
)

// newStream returns the stream of a request whose client accepts streams. wanted accepts the
// messages that the client wants. call ends the request's work.
func newStream(w http.ResponseWriter, r *http.Request, wanted queue, call context.CancelFunc) *stream {
	s := &stream{out: eventWriter{w: w}, conn: r.Context(), call: call, queue: wanted}
	s.mu.Lock() // comment also takes the lock
	s.quiet = time.AfterFunc(silence, s.comment)
	s.mu.Unlock()
	return s
}

// comment begins the stream of a slow request, so that proxies do not close the connection as idle.
func (s *stream) comment() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
}

// begin makes the answer a stream, and reports whether it accepts messages. The caller holds the
// lock.
//
// begin does nothing if a client of the handshake protocol disconnected before the first message.
// Such a disconnect does not cancel the request, but nobody could read a result from the stream.
func (s *stream) begin() bool {
	if s.phase == notStarted && s.conn.Err() == nil {
		s.phase = open
		s.quiet.Stop()
		s.wake, s.ended = make(chan struct{}, 1), make(chan struct{})
		go s.write()
	}
	return s.phase == open
}

// notify sends a notification to the client; see [mcp.Client].
func (s *stream) notify(method string, params rawjson.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == finished || !s.queue.add(method, params) || !s.begin() {
		return
	}
	s.signal()
}

// ask sends a request to the client, and reports whether the stream accepts it.
func (s *stream) ask(message []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == finished || len(message) > maxQuestion || !s.begin() {
		return false
	}
	s.queue.put(message)
	s.signal()
	return true
}

// withdraw tells the client that nobody waits for the answer to a question now.
func (s *stream) withdraw(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != open {
		return
	}
	s.queue.put(notification(mcp.NotificationCancelled, rawjson.Object{
		{Name: "requestId", Value: rawjson.Quote(id)}, {Name: "reason", Value: rawjson.Quote("the answer is not awaited any more")},
	}))
	s.signal()
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// end sends the last event, in parts; without parts, the stream ends without an answer. If there
// was no message, end returns false, and the caller writes the answer as one JSON object. Nothing
// follows the last event. If the client accepts no stream, s is nil.
func (s *stream) end(parts ...[]byte) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	s.quiet.Stop()
	began := s.ended != nil
	if s.phase != finished {
		s.final = parts
	}
	s.phase = finished
	s.mu.Unlock()
	if !began {
		return false
	}
	s.signal()
	<-s.ended
	return true
}

// isBroken reports whether the client went away before it had the whole answer.
func (s *stream) isBroken() bool { return s != nil && s.out.err != nil }

// write writes events until the stream ends. No other function writes to the response.
func (s *stream) write() {
	defer close(s.ended)
	defer context.AfterFunc(s.conn, s.call)()
	s.out.begin()
	timer := time.NewTimer(keepAlive)
	defer timer.Stop()
	for s.out.err == nil {
		event, final, wait := s.next(time.Now())
		switch {
		case event != nil:
			s.out.event(event)
			continue
		case final:
			s.out.finish(s.final)
			return
		case s.out.idle() >= keepAlive:
			s.out.comment()
		}
		s.out.flush()
		timer.Reset(min(wait, keepAlive-s.out.idle()))
		select {
		case <-s.wake:
		case <-timer.C:
		}
	}
	s.mu.Lock()
	s.phase = finished
	s.queue = queue{}
	s.mu.Unlock()
	s.call()
}

// next removes and returns the next event. wait is the time until the next event if nothing is
// added.
func (s *stream) next(now time.Time) (event []byte, final bool, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	event, wait = s.queue.next(now, s.phase == finished)
	return event, event == nil && s.phase == finished, wait
}

// notification returns a message without an answer.
func notification(method string, params rawjson.Object) []byte {
	return rawjson.Object{
		{Name: "jsonrpc", Value: json.RawMessage(`"2.0"`)},
		{Name: "method", Value: rawjson.Quote(method)},
		{Name: "params", Value: params.Bytes()},
	}.Bytes()
}
