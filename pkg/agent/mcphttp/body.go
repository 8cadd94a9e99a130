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
	peekTime = time.Second     // for which a refusal waits for the request's id
	freeBody = 64 << 10        // bytes up to which a body may be read however many others are
	bodies   = 16 * maxBody    // bytes of longer ones that may be on their way in at once
	busyTime = 2 * time.Second // after which a sender that was one too many may come again
	freeTime = 5 * time.Second // after which the memory of bodies that never came is given back
)

// A budget bounds the memory that is set aside for bodies that have not arrived whole. Their
// senders need not hurry; what has arrived is worked off and gone.
type budget struct {
	mu   sync.Mutex
	left int64
	lost bool // memory is about to be given back to the system
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

// freeLater gives the memory of bodies that never came back to the system. A program that idles
// after them would not do so for minutes.
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
	if known { // into as much as is needed: growing step by step would take thrice that
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

// closeUnread prepares the refusal of a request whose body stays unread: the connection cannot be
// used again.
func closeUnread(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
}

// peekID returns the id of a request that is refused with its body unread, nil if it does not
// stand near the beginning or does not arrive in time. Whoever is refused may be anybody, so
// little is read and little is waited for.
func peekID(w http.ResponseWriter, r *http.Request) json.RawMessage {
	if r.Body == nil || r.Header.Get("Expect") != "" { // who waits to be asked for the body is not asked
		return nil
	}
	// Bodies that are in memory already have no deadline, and need none.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(peekTime))
	return mcp.PeekID(r.Body)
}
