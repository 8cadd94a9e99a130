package mcphttp

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
)

const (
	peekTime = time.Second     // maximum time that a refusal waits for the request's id
	freeBody = 64 << 10        // the gateway may always read a body of this size
	bodies   = 16 * maxBody    // total size of longer bodies that arrive at the same time
	busyTime = 2 * time.Second // a refused sender may try again after this time
	freeTime = 5 * time.Second // the memory of incomplete bodies is released after this time
)

// A budget bounds the memory that is reserved for bodies that have not arrived completely. Only
// these need a bound: their senders may be slow, whereas the gateway processes a complete body
// soon.
type budget struct {
	mu   sync.Mutex
	left int64
	lost bool // a timer will release memory to the system
}

// take reserves n bytes and reports whether they were available. give releases them.
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

// freeLater starts a timer that gives the memory of incomplete bodies back to the system. An idle
// program would otherwise keep this memory for minutes.
func (b *budget) freeLater() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost {
		return
	}
	b.lost = true
	time.AfterFunc(freeTime, func() {
		b.mu.Lock()
		b.lost = false
		b.mu.Unlock()
		debug.FreeOSMemory()
	})
}

// read returns the body, up to its limit.
func (h *handler) read(w http.ResponseWriter, r *http.Request) ([]byte, *mcp.Error) {
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
	if known { // allocate once: growth in steps would need three times the memory
		body = make([]byte, size)
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, h.opts.MaxBody))
		capacity.SetBody(r.Context(), len(body))
	}
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, refuse(http.StatusRequestEntityTooLarge, "body too large")
	}
	if err != nil {
		if size > freeBody {
			h.bodies.freeLater()
		}
		refused := badRequest(mcp.CodeParse, "body cannot be read")
		refused.Err = err
		return nil, refused
	}
	return body, nil
}

// closeUnread prepares the refusal of a request whose body the gateway does not read. The client
// cannot use the connection again.
func closeUnread(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
}

// peekID returns the id of a request that the gateway refuses before it reads the body. It returns
// nil if the id is not near the beginning of the body or does not arrive in time. The sender is
// untrusted, so peekID reads little and waits only briefly.
func peekID(w http.ResponseWriter, r *http.Request) json.RawMessage {
	if r.Body == nil || r.Header.Get("Expect") != "" { // a client that waits for 100 Continue gets none
		return nil
	}
	// Bodies that are already in memory have no deadline, and need none.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(peekTime))
	return mcp.PeekID(r.Body)
}
