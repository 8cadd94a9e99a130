package mcphttp

import (
	"bytes"
	"errors"
	"net/http"
	"time"
)

const (
	stallTime  = 10 * time.Second // for which one write waits for its client
	writeChunk = 64 << 10         // bytes of one write
)

// An eventWriter writes server-sent events. A client that does not read for stallTime is gone.
type eventWriter struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	err   error     // the client is gone
	dirty bool      // something is to be flushed
	wrote time.Time // when it last was
}

// begin writes the status.
func (e *eventWriter) begin() {
	e.rc = http.NewResponseController(e.w)
	h := e.w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("X-Accel-Buffering", "no") // said to nginx: pass each event on at once
	e.w.WriteHeader(http.StatusOK)
}

// event writes one event whose data are the parts. A JSON text may have line breaks between its
// values; they become spaces, since not every client reads an event of several lines.
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

// lineBreak returns where the first line of b ends, -1 if it has only one.
func lineBreak(b []byte) int {
	i, j := bytes.IndexByte(b, '\n'), bytes.IndexByte(b, '\r')
	if i < 0 || j >= 0 && j < i {
		return j
	}
	return i
}

// comment writes what clients skip.
func (e *eventWriter) comment() { e.write([]byte(": still working\n\n")) }

// idle returns for how long nothing was sent; for ever, if nothing ever was.
func (e *eventWriter) idle() time.Duration {
	if e.dirty {
		return 0
	}
	return time.Since(e.wrote)
}

// finish writes the last event, if there is one, and sends all.
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

// flush sends what was written.
func (e *eventWriter) flush() {
	if !e.dirty || e.err != nil {
		return
	}
	e.extend()
	if err := e.rc.Flush(); !errors.Is(err, errors.ErrUnsupported) { // then all is sent at the end
		e.err = err
	}
	e.dirty, e.wrote = false, time.Now()
}

// extend gives the next write its time. Writers that are no connection have no deadline, and
// wait for nobody.
func (e *eventWriter) extend() { _ = e.rc.SetWriteDeadline(time.Now().Add(stallTime)) }
