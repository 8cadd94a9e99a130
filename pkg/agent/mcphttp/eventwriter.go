package mcphttp

import (
	"bytes"
	"errors"
	"net/http"
	"time"
)

const (
	stallTime  = 10 * time.Second // maximum time that one write waits for its client
	writeChunk = 64 << 10         // bytes of one write
)

// An eventWriter writes server-sent events. A client that reads nothing for stallTime counts as
// disconnected.
type eventWriter struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	err   error     // the client is gone
	dirty bool      // some events are not flushed
	wrote time.Time // time of the last write
}

// begin writes the status.
func (e *eventWriter) begin() {
	e.rc = http.NewResponseController(e.w)
	h := e.w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("X-Accel-Buffering", "no") // tells nginx to pass on each event immediately
	e.w.WriteHeader(http.StatusOK)
}

// event writes one event whose data are the parts. It replaces line breaks between JSON values with
// spaces, because not every client reads an event of several lines.
func (e *eventWriter) event(parts ...[]byte) {
	e.write([]byte("event: message\ndata: "))
	for _, p := range parts {
		for i := lineBreak(p); i >= 0; i = lineBreak(p) {
			e.write(p[:i])
			e.write([]byte(" "))
			p = p[i+1:]
		}
		e.write(p)
	}
	e.write([]byte("\n\n"))
}

// lineBreak returns the end of the first line of b, or -1 if b has only one line.
func lineBreak(b []byte) int {
	i, j := bytes.IndexByte(b, '\n'), bytes.IndexByte(b, '\r')
	if i < 0 || j >= 0 && j < i {
		return j
	}
	return i
}

// comment writes a comment, which clients skip.
func (e *eventWriter) comment() { e.write([]byte(": still working\n\n")) }

// idle returns the time since the last write, or the maximum duration if there was no write.
func (e *eventWriter) idle() time.Duration {
	if e.dirty {
		return 0
	}
	return time.Since(e.wrote)
}

// finish writes the last event, if there is one, and flushes.
func (e *eventWriter) finish(parts [][]byte) {
	if len(parts) > 0 {
		e.event(parts...)
	}
	e.flush()
}

func (e *eventWriter) write(b []byte) {
	for len(b) > 0 && e.err == nil {
		n := min(len(b), writeChunk)
		e.extend()
		_, e.err = e.w.Write(b[:n])
		e.dirty = true
		b = b[n:]
	}
}

// flush sends the written events.
func (e *eventWriter) flush() {
	if !e.dirty || e.err != nil {
		return
	}
	e.extend()
	// without flush support, the writer sends all at the end
	if err := e.rc.Flush(); !errors.Is(err, errors.ErrUnsupported) {
		e.err = err
	}
	e.dirty, e.wrote = false, time.Now()
}

// extend sets the deadline of the next write. Writers without a connection have no deadline, and do
// not wait.
func (e *eventWriter) extend() { _ = e.rc.SetWriteDeadline(time.Now().Add(stallTime)) }
