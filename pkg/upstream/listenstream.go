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

// Many servers of the handshake protocol say what belongs to no request, and some what does, on a
// stream that their client holds open beside its requests: log messages, and questions that a tool
// asks without saying for which call. It is held while there are calls on the session that want to
// know.

const (
	listenWait = 500 * time.Millisecond // for the stream to be there, once a session: what is said before is lost
	listenIdle = 10 * time.Second       // after the last call it is closed
)

// A listenStream is the stream of one session.
type listenStream struct {
	cancel context.CancelFunc
	ready  chan struct{} // closed when the server has taken it or not
	slow   atomic.Bool   // it did not say so in time, or had not in an earlier stream of the session

	mu      sync.Mutex
	calls   []*listeningCall // that are open, the newest last
	idle    *time.Timer
	over    bool
	refused bool // the server has none
}

// A listeningCall is a call to which what comes on the stream may belong.
type listeningCall struct {
	ctx context.Context
	o   *operation // a copy for the stream's own goroutine; what is shared has locks
}

// listen holds the stream of session s while request id is under way, and returns what ends that. It waits for
// the stream once.
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
		own.questions.over()
	}
}

// await waits until the server has taken the stream or not. One that does not say so soon is not waited for
// again: there are those that say nothing before the first message.
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

// openListenStream opens the stream of a session, in a goroutine of its own.
func (c *Client) openListenStream(ep *endpoint, s mcpSession) *listenStream {
	ctx, cancel := context.WithCancel(context.Background())
	h := &listenStream{cancel: cancel, ready: make(chan struct{})}
	go func() {
		defer cancel()
		refused := c.readListenStream(ctx, ep, s, h)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.over, h.refused = true, refused && ctx.Err() == nil // else nobody wanted it any more
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
	const most = maxForwarded + maxQuestion // of one event
	limited := &io.LimitedReader{R: resp.Body, N: most}
	_ = events(limited, func(data []byte) (bool, error) { // whatever ends it, the next call opens another
		limited.N = most
		h.take(s, data)
		return false, nil
	})
	return false
}

// take hands a message to the calls that it may be about: a notification to each that it fits, a question or a
// log message to the newest, since it does not say to which it belongs.
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

// end closes the stream, if no call has come to it since. A nil stream is none.
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

// state reports whether the stream is at its end, and whether its server has none.
func (h *listenStream) state() (over, refused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over, h.refused
}

// listenStream returns the stream of session s, which open opens if there is none; nil if the
// server has none, or the session is not the entry's any more.
func (e *sessionEntry) listenStream(s *mcpSession, open func() *listenStream) *listenStream {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session != s {
		return nil
	}
	if e.held != nil {
		switch over, refused := e.held.state(); {
		case refused:
			return nil
		case !over:
			return e.held
		}
	}
	slow := e.held != nil && e.held.slow.Load()
	e.held = open()
	e.held.slow.Store(slow)
	return e.held
}

func (e *sessionEntry) closeListenStream() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropListenStream()
}

// dropListenStream closes the stream of a session that is over. The lock is held.
func (e *sessionEntry) dropListenStream() {
	if e.held != nil {
		e.held.cancel()
		e.held = nil
	}
}
