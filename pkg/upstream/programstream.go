package upstream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// An outgoing is a message to a program. The other fields are parsed from line.
type outgoing struct {
	line   []byte
	method string
	id     int64  // 0: the program does not answer this message
	token  string // the progress token in JSON; "": none
	modern bool   // the message belongs to the stateless protocol
}

// readOutgoing reads the message of a request of this package.
func readOutgoing(req *http.Request) (m outgoing, err error) {
	if m.line, err = io.ReadAll(req.Body); err != nil {
		return m, err
	}
	o, err := rawjson.Split(m.line, rawjson.Lenient)
	if err != nil {
		return m, err
	}
	m.modern = req.Header.Get(mcp.HeaderVersion) == mcp.VersionModern
	if m.method = rawjson.Text(o.Get("method")); m.method == "" {
		return m, nil
	}
	if id := o.Get("id"); id != nil {
		if m.id, err = strconv.ParseInt(string(id), 10, 64); err != nil {
			return m, err
		}
	}
	// A line break can be only between two tokens, because a JSON string must escape it.
	if i := bytes.IndexAny(m.line, "\r\n"); i >= 0 {
		m.line = bytes.Map(func(r rune) rune {
			if r == '\r' || r == '\n' {
				return ' '
			}
			return r
		}, m.line)
	}
	m.token = string(rawjson.Get(rawjson.Get(o.Get("params"), "_meta"), "progressToken"))
	return m, nil
}

// opens reports whether the message negotiates the protocol: initialize or server/discover.
func (m outgoing) opens() bool {
	return m.method == mcp.MethodInitialize || m.method == mcp.MethodDiscover
}

const (
	eventStart    = "data: "
	eventEnd      = "\n\n"
	eventOverhead = len(eventStart) + len(eventEnd)

	// Limits for messages of the program that the caller has not read yet. Beyond these limits,
	// notifications are dropped and requests of the program are refused. The reply is always kept.
	maxWaiting      = 1024
	maxWaitingBytes = 1 << 20
)

// A programStream holds the messages of a program for one request, as an event stream.
type programStream struct {
	p   *program
	ctx context.Context // of the request
	outgoing

	mu      sync.Mutex
	waiting [][]byte // events that Read has not taken yet
	size    int      // bytes of these events
	over    error    // why the stream ended; nil: the stream is open
	news    chan struct{}
	rest    []byte // unread bytes of the current event; only Read uses it
}

// add adds a message, and reports whether it did so. It does not add to a stream that has ended. If
// must is set, a caller waits for the message, so add ignores the limits.
func (s *programStream) add(line []byte, must bool) bool {
	event := make([]byte, 0, len(line)+eventOverhead)
	event = append(event, eventStart...)
	event = append(event, line...)
	for i, c := range event {
		if c == '\r' { // valid between two tokens, but it would end a line of the stream
			event[i] = ' '
		}
	}
	event = append(event, eventEnd...)
	s.mu.Lock()
	defer s.mu.Unlock()
	full := len(s.waiting) >= maxWaiting || s.size+len(event) > maxWaitingBytes
	if s.over != nil || full && !must {
		return false
	}
	s.waiting = append(s.waiting, event)
	s.size += len(event)
	s.tell()
	return true
}

// end ends the stream; io.EOF is a normal end.
func (s *programStream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil {
		s.over = err
		s.tell()
	}
}

func (s *programStream) tell() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Read implements io.Reader.
func (s *programStream) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		s.mu.Lock()
		if len(s.waiting) > 0 {
			s.rest, s.waiting = s.waiting[0], s.waiting[1:]
			s.size -= len(s.rest)
			s.mu.Unlock()
			break
		}
		over := s.over
		s.mu.Unlock()
		if over != nil {
			return 0, over
		}
		select {
		case <-s.news:
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close ends the request. If no reply has come, Close sends a cancellation to a server of the
// stateless protocol, because a program has no connection whose end would cancel the request. For
// the handshake protocol, the operation sends the cancellation.
func (s *programStream) Close() error {
	s.p.drop(s)
	s.mu.Lock()
	open := s.over == nil
	s.mu.Unlock()
	s.end(http.ErrBodyReadAfterClose)
	if !open || !s.modern || s.opens() {
		return nil
	}
	params := rawjson.Object{{Name: "requestId", Value: strconv.AppendInt(nil, s.id, 10)}}
	s.p.tell(request(0, mcp.NotificationCancelled, params))
	return nil
}
