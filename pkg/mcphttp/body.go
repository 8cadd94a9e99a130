package mcphttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/portcullis-mcp/portcullis/pkg/gateway"
)

const (
	maxPeek  = 64 << 10        // bytes of a refused body that are searched for the request's id
	peekTime = time.Second     // for which a refusal waits for them
	freeBody = 64 << 10        // bytes up to which a body may be read however many others are
	bodies   = 16 * maxBody    // bytes of longer ones that may be on their way in at once
	busyTime = 2 * time.Second // after which a sender that was one too many may come again
	lostTime = 5 * time.Second // within which the memory of bodies that never came is given back
)

// A budget bounds the memory that is set aside for bodies that have not arrived whole. Their
// senders need not hurry; what has arrived is worked off and gone.
type budget struct {
	mu   sync.Mutex
	left int64
	lost bool // memory is about to be given back
}

// take reports whether n bytes could be set aside. They are given back with give.
func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

// lose has the memory of bodies that never came given back to the system. A program that idles
// after them would not look for it for minutes.
func (b *budget) lose() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost {
		return
	}
	b.lost = true
	time.AfterFunc(lostTime, func() {
		b.mu.Lock()
		b.lost = false
		b.mu.Unlock()
		debug.FreeOSMemory()
	})
}

// read returns the body, up to its limit.
func (h *handler) read(w http.ResponseWriter, r *http.Request) ([]byte, *gateway.Error) {
	size, known := r.ContentLength, r.ContentLength >= 0
	if !known {
		size = h.opts.MaxBody
	}
	if size > h.opts.MaxBody {
		return nil, refuse(http.StatusRequestEntityTooLarge, "body too large")
	}
	if size > freeBody {
		if !h.bodies.take(size) {
			err := refuse(http.StatusServiceUnavailable, "too many long requests at once")
			err.RetryAfter = busyTime
			return nil, err
		}
		defer h.bodies.give(size)
	}
	var body []byte
	var err error
	if known { // into as much as is needed: growing step by step would take thrice that
		body = make([]byte, size)
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, h.opts.MaxBody))
	}
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, refuse(http.StatusRequestEntityTooLarge, "body too large")
	}
	if err != nil {
		if size > freeBody {
			h.bodies.lose()
		}
		refused := badRequest(codeParse, "body cannot be read")
		refused.Err = err
		return nil, refused
	}
	return body, nil
}

// leave prepares the refusal of a request whose body stays unread: the connection cannot be
// used again.
func leave(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
}

var peeks = sync.Pool{New: func() any { return new([maxPeek]byte) }}

// peekID returns the id of a request that is refused with its body unread, nil if it does not
// stand near the beginning or does not arrive in time. Whoever is refused may be anybody,
// so nothing is parsed and little is waited for.
func peekID(w http.ResponseWriter, r *http.Request) json.RawMessage {
	if r.Body == nil || r.Header.Get("Expect") != "" { // who waits to be asked for the body is not asked
		return nil
	}
	// Bodies that are in memory already have no deadline, and need none.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(peekTime))
	b := peeks.Get().(*[maxPeek]byte)
	defer peeks.Put(b)
	s := idScan{number: -1}
	for n := 0; n < len(b); {
		k, err := r.Body.Read(b[n:])
		n += k
		if id, done := s.scan(b[:n]); done {
			return id
		}
		if err != nil || k == 0 {
			return nil
		}
	}
	return nil
}

// An idScan looks for the id of a JSON-RPC message in a text that grows. It follows strings
// and brackets alone: of a text that is no JSON it may find an id, and says no more of it.
type idScan struct {
	pos     int // up to which the text has been seen
	depth   int // of brackets
	start   int // of the string at hand
	number  int // where the id begins that is no string; -1: none
	text    bool
	escaped bool
	name    bool // a string is the name of a member
	found   bool // the value at hand is the id
}

// scan goes on with b, which begins with what it was given before. done means that it need not
// see more.
func (s *idScan) scan(b []byte) (id json.RawMessage, done bool) {
	for ; s.pos < len(b) && !done; s.pos++ {
		if c := b[s.pos]; s.text {
			id, done = s.inText(b, c)
		} else {
			id, done = s.between(b, c)
		}
	}
	return id, done
}

// inText takes a byte of a string.
func (s *idScan) inText(b []byte, c byte) (id json.RawMessage, done bool) {
	switch {
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.text = false
		switch whole := b[s.start : s.pos+1]; {
		case s.depth != 1:
		case s.name:
			s.found = string(whole) == `"id"`
		case s.found:
			return usableID(whole), true
		}
	}
	return nil, false
}

// between takes a byte that stands in no string.
func (s *idScan) between(b []byte, c byte) (id json.RawMessage, done bool) {
	switch c {
	case ' ', '\t', '\r', '\n':
		return nil, false
	case '"':
		s.text, s.start = true, s.pos
		return nil, s.depth == 0
	case '{', '[':
		s.depth++
		s.name = s.depth == 1
		return nil, s.depth == 1 && c == '[' || s.depth == 2 && s.found
	case ':':
		if s.depth == 1 {
			s.name = false
		}
		return nil, false
	case '}', ']', ',':
		if s.depth == 1 && s.number >= 0 {
			return usableID(b[s.number:s.pos]), true
		}
		if c != ',' {
			s.depth--
		}
		s.name = s.depth == 1 && c == ','
		return nil, s.depth == 0
	}
	if s.depth == 1 && s.found && s.number < 0 {
		s.number = s.pos
	}
	return nil, s.depth == 0
}

// usableID returns a copy of what may stand as the id of an answer, nil for all else.
func usableID(v []byte) json.RawMessage {
	v = bytes.TrimRight(v, " \t\r\n")
	if len(v) == 0 || !validID(v) || !jsontext.Value(v).IsValid() {
		return nil
	}
	return append(json.RawMessage(nil), v...)
}
