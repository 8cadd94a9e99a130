package upstream

import (
	"context"
	"io"
	"mime"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// Many servers of the handshake protocol send messages on a stream that their client keeps open in
// addition to its requests. Such messages belong to no request. Examples are log messages, and a
// tool's questions that do not name their call. The gateway keeps the stream open while the session
// has calls that want such messages.

const (
	// listenWait is the maximum wait for the stream, once for each session. Messages before the
	// stream opens are lost.
	listenWait = 500 * time.Millisecond
	listenIdle = 10 * time.Second // the stream closes this long after the last call
)

// A listenStream is the stream of one session.
type listenStream struct {
	cancel context.CancelFunc
	ready  chan struct{} // closed when the server has accepted or refused it
	slow   atomic.Bool   // it answered late, now or in an earlier stream of the session

	mu      sync.Mutex
	calls   []*listeningCall // open calls, the newest last
	idle    *time.Timer
	over    bool
	refused bool // the server has no such stream
}

// A listeningCall is a call that messages on the stream may belong to.
type listeningCall struct {
	ctx context.Context
	o   *operation // a copy for the stream's goroutine; shared fields have locks
}

// listen keeps the stream of session s open for request id until the caller calls leave. It waits
// for the stream once.
func (o *operation) listen(ctx context.Context, s *mcpSession, id int64) (leave func()) {
	logs := o.client.LogLevel != "" && o.client.Notify != nil && s.logs != nil
	asks := o.client.Ask != nil && mcp.Askable(o.client.Capabilities)
	if !o.c.o.Holds || s.modern || s.id == "" || o.t.Shared || o.t.Command != nil || o.entry == nil || !asks && !logs {
		return func() {}
	}
	h := o.entry.listenStream(s, func() *listenStream { return o.c.openListenStream(o.ep, *s) })
	if h == nil {
		return func() {}
	}
	if o.questions == nil {
		o.questions = newQuestions()
	}
	own := *o
	own.requestID = id
	call := &listeningCall{ctx, &own}
	h.join(call)
	h.await(ctx)
	return func() {
		h.leave(call)
		own.questions.endAll()
	}
}

// await waits until the server has accepted or refused the stream. After one late answer, await
// does not wait for that server again, because some servers send nothing before the first message.
func (h *listenStream) await(ctx context.Context) {
	if h.slow.Load() {
		return
	}
	wait := time.NewTimer(listenWait)
	defer wait.Stop()
	select {
	case <-h.ready:
	case <-wait.C:
		h.slow.Store(true)
	case <-ctx.Done():
	}
}

// openListenStream opens the stream of a session, in a new goroutine.
func (c *Client) openListenStream(ep *endpoint, s mcpSession) *listenStream {
	ctx, cancel := context.WithCancel(context.Background())
	h := &listenStream{cancel: cancel, ready: make(chan struct{})}
	go func() {
		defer cancel()
		refused := c.readListenStream(ctx, ep, s, h)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.over, h.refused = true, refused && ctx.Err() == nil // a canceled stream is not refused
		if refused {
			close(h.ready)
		}
	}()
	return h
}

// readListenStream reads the stream to its end, and reports whether the server has none.
func (c *Client) readListenStream(ctx context.Context, ep *endpoint, s mcpSession, h *listenStream) (refused bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, ep.url.String(), nil)
	if err != nil {
		return true
	}
	c.address(req, ep, s)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := ep.transport.Do(req)
	if err != nil {
		return true
	}
	defer func() { _ = resp.Body.Close() }()
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); resp.StatusCode != http.StatusOK || media != "text/event-stream" {
		return true
	}
	close(h.ready)
	const most = maxForwarded + maxQuestion // bytes of one event
	limited := &io.LimitedReader{R: resp.Body, N: most}
	_ = events(limited, func(data []byte) (bool, error) { // after an error, a new call opens a stream
		limited.N = most
		h.take(s, data)
		return false, nil
	})
	return false
}

// take passes a message to the calls that it may belong to. A notification goes to each call that
// it matches. A question or a log message names no call, so the newest call gets it.
func (h *listenStream) take(s mcpSession, data []byte) {
	m, err := rawjson.Split(data, rawjson.Lenient)
	if err != nil {
		return
	}
	h.mu.Lock()
	calls := slices.Clone(h.calls)
	h.mu.Unlock()
	one := m.Get("id") != nil || rawjson.Text(m.Get("method")) == mcp.NotificationMessage
	for _, call := range slices.Backward(calls) {
		call.o.handleMessage(call.ctx, s, nil, data)
		if one {
			return
		}
	}
}

func (h *listenStream) join(call *listeningCall) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call)
	if h.idle != nil {
		h.idle.Stop()
	}
}

func (h *listenStream) leave(call *listeningCall) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = slices.DeleteFunc(h.calls, func(c *listeningCall) bool { return c == call })
	if len(h.calls) == 0 && !h.over {
		h.idle = time.AfterFunc(listenIdle, h.end)
	}
}

// end closes the stream if no new call uses it. It does nothing for a nil stream.
func (h *listenStream) end() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.calls) == 0 {
		h.over = true
		h.cancel()
	}
}

// state reports whether the stream has ended, and whether the server has no such stream.
func (h *listenStream) state() (over, refused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over, h.refused
}

// listenStream returns the stream of session s, and calls open if there is none. It returns nil if
// the server has no such stream, or if the entry has another session now.
func (e *sessionEntry) listenStream(s *mcpSession, open func() *listenStream) *listenStream {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session != s {
		return nil
	}
	if e.stream != nil {
		switch over, refused := e.stream.state(); {
		case refused:
			return nil
		case !over:
			return e.stream
		}
	}
	slow := e.stream != nil && e.stream.slow.Load()
	e.stream = open()
	e.stream.slow.Store(slow)
	return e.stream
}

func (e *sessionEntry) closeListenStream() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropListenStream()
}

// dropListenStream closes the stream of a session that has ended. The caller holds the lock.
func (e *sessionEntry) dropListenStream() {
	if e.stream != nil {
		e.stream.cancel()
		e.stream = nil
	}
}
