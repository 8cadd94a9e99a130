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

// The times of a stream.
const (
	silence   = 10 * time.Second // after which a client that waits is sent a comment, and with it the status
	keepAlive = 15 * time.Second // between two comments
)

// A stream is the answer to one request. It stays a single JSON object until there is something to
// tell the client before the result, and becomes text/event-stream then. What is told waits
// in a queue that is bounded, so that no client holds up the call.
type stream struct {
	out   eventWriter
	conn  context.Context    //nolint:containedctx // of the connection: it ends when the client is gone
	call  context.CancelFunc // ends the call
	quiet *time.Timer        // becomes due if nothing is told

	mu    sync.Mutex
	phase phase
	queue queue
	final [][]byte // of the last event; nil: there is none

	wake  chan struct{} // there is more to write; made at the start
	ended chan struct{} // closed once nothing is written any more; made at the start
}

// A phase is how far a stream has come.
type phase int

const (
	unsaid phase = iota // nothing was told yet: the answer may be one JSON object
	open
	over // the last event is known, or the client is gone: nothing more is told
)

// newStream returns the stream of a request whose client takes one and wants what queue takes. call
// ends the request's work.
func newStream(w http.ResponseWriter, r *http.Request, wanted queue, call context.CancelFunc) *stream {
	s := &stream{out: eventWriter{w: w}, conn: r.Context(), call: call, queue: wanted}
	s.mu.Lock() // which comment takes
	s.quiet = time.AfterFunc(silence, s.comment)
	s.mu.Unlock()
	return s
}

// comment begins the stream of a request that takes long, so that what stands between here and
// the client does not take the connection for dead.
func (s *stream) comment() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
}

// begin makes the answer a stream, and reports whether something can be told. The lock is held.
//
// The connection of a client of the handshake protocol that is gone before anything was said is
// left alone: there a client that disconnects has not cancelled. Once it is a stream, the result
// could only be read from it, and nobody can.
func (s *stream) begin() bool {
	if s.phase == unsaid && s.conn.Err() == nil {
		s.phase = open
		s.quiet.Stop()
		s.wake, s.ended = make(chan struct{}, 1), make(chan struct{})
		go s.write()
	}
	return s.phase == open
}

// notify tells the client something; see [mcp.Client].
func (s *stream) notify(method string, params rawjson.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == over || !s.queue.add(method, params) || !s.begin() {
		return
	}
	s.signal()
}

// ask adds a request to the client. It reports whether the stream takes it.
func (s *stream) ask(message []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == over || len(message) > maxQuestion || !s.begin() {
		return false
	}
	s.queue.put(message)
	s.signal()
	return true
}

// withdraw says that the answer to a question is not awaited any more.
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
	default: // it will look anyway
	}
}

// end gives the last event, in parts; none: the stream ends without an answer. It reports false if
// nothing was told, so that the answer is still to be written, as one JSON object. After
// it nothing is written. A nil stream is of a client that takes none.
func (s *stream) end(parts ...[]byte) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	s.quiet.Stop()
	began := s.ended != nil
	if s.phase != over {
		s.final = parts
	}
	s.phase = over
	s.mu.Unlock()
	if !began {
		return false
	}
	s.signal()
	<-s.ended
	return true
}

// broken reports whether the client was gone before it had the whole answer.
func (s *stream) broken() bool { return s != nil && s.out.err != nil }

// write writes what there is to tell until the stream is over. It alone touches the response.
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
	s.phase = over
	s.queue = queue{}
	s.mu.Unlock()
	s.call()
}

// next takes what is to be written now. wait is how long there is nothing, unless something is added.
func (s *stream) next(now time.Time) (event []byte, final bool, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	event, wait = s.queue.next(now, s.phase == over)
	return event, event == nil && s.phase == over, wait
}

// notification returns a message that wants no answer.
func notification(method string, params rawjson.Object) []byte {
	return rawjson.Object{
		{Name: "jsonrpc", Value: json.RawMessage(`"2.0"`)},
		{Name: "method", Value: rawjson.Quote(method)},
		{Name: "params", Value: params.Bytes()},
	}.Bytes()
}
