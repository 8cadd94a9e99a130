// Package relay passes MCP messages between a pair of streams and a server behind HTTP. It is for
// clients that can only start a command.
//
// The relay does not change the bytes of messages. It derives HTTP's headers and session from the
// messages. It turns HTTP failures into JSON-RPC errors, so that the client gets an answer to every
// request.
package relay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/linereader"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

const (
	maxMessage  = 4 << 20                // from the client: the gateway's limit
	maxAnswer   = 16 << 20               // one message to the client
	maxRequests = 256                    // open requests of the client
	maxNotices  = 256                    // waiting messages of the client that need no answer
	lastWait    = 2 * time.Second        // for open requests, when the client's input has ended
	noticeTime  = 10 * time.Second       // for a message without an answer
	goodbyeTime = time.Second            // for the end of the session
	firstPause  = 500 * time.Millisecond // before the relay opens the notification stream again
	maxPause    = 30 * time.Second
)

// Options configure a relay.
type Options struct {
	URL       string            // the gateway's endpoint
	Token     secret.Text       // Authorization: Bearer; "": none
	SignIn    SignIn            // supplies tokens instead; nil: nobody signs in
	Version   string            // of this program, for answers before a sign-in
	Header    http.Header       // for every request, such as X-MCP-Toolsets
	Transport http.RoundTripper // nil: http.DefaultTransport
	Log       *slog.Logger      // nil: slog.DiscardHandler
}

// Run reads messages from in, and writes the answers to out, until in or ctx ends. It returns the
// error of a write to out.
func Run(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &relay{
		o: o, ctx: ctx, cancel: cancel, out: out, open: map[string]*call{}, params: newToolHeaders(),
		client: &http.Client{
			Transport: o.Transport,
			// A redirect would send the credential to another address.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		notices: make(chan message, maxNotices), step: make(chan struct{}),
		signedIn: make(chan struct{}), stale: map[string]bool{},
	}
	close(r.step)
	if o.SignIn != nil {
		go r.watchSignIn()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		linereader.Read(in, maxMessage, r.take)
	}()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		r.sendNotices()
	}()
	select {
	case <-ended:
		close(r.notices)
		r.settle(sent)
	case <-ctx.Done():
	}
	cancel()
	r.goodbye()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}

// A relay connects one client to one endpoint.
type relay struct {
	o       Options
	ctx     context.Context // of all requests
	cancel  context.CancelFunc
	client  *http.Client
	notices chan message
	calls   sync.WaitGroup
	step    chan struct{} // closed after the last step of a handshake; only take uses it
	params  *toolHeaders

	writing sync.Mutex // of whole lines to out
	out     io.Writer

	mu      sync.Mutex
	broken  error            // the error of a write to out; after it, nobody reads out
	open    map[string]*call // requests, by their ids
	session session
	renew   sync.Mutex // held during the renewal of the session

	signedIn     chan struct{}   // closed at the next sign-in
	stale        map[string]bool // notifications about the lists that change with a sign-in
	listedSignIn bool            // the client's list of tools is the relay's own
}

// A call is an open request.
type call struct {
	cancel   context.CancelFunc
	id       json.RawMessage
	modern   bool
	filter   json.RawMessage // of a subscription: the notifications that the client wants
	canceled bool            // the client no longer waits for the answer
}

// A message is a message of the client.
type message struct {
	line   []byte
	id     json.RawMessage // nil: it needs no answer
	method string          // "": it is an answer itself
	params json.RawMessage
	modern bool // of the stateless protocol

	after <-chan struct{} // closed when the message may be sent
	done  chan struct{}   // the relay closes it when the message was sent
}

// take handles one line of the client.
func (r *relay) take(l linereader.Line) {
	if l.Long {
		r.o.Log.LogAttrs(r.ctx, slog.LevelError, "message of the client too long, not sent", slog.Int("bytes", l.Size))
		r.refuse(nil, mcp.CodeInvalidRequest, "The message is longer than 4 MiB. It was not sent.")
		return
	}
	if len(bytes.TrimSpace(l.Data)) == 0 {
		return
	}
	m := message{line: bytes.Clone(l.Data)}
	o, err := rawjson.Split(m.line, rawjson.Lenient)
	if err != nil {
		r.refuse(nil, mcp.CodeParse, "The message is not a JSON object.")
		return
	}
	m.id, m.method, m.params = o.Get("id"), rawjson.Text(o.Get("method")), o.Get("params")
	m.done = make(chan struct{})
	if m.after = r.step; m.method == mcp.MethodInitialize || m.method == mcp.NotificationInitialized {
		r.step = m.done
	}
	m.modern = rawjson.Text(rawjson.Get(rawjson.Get(m.params, "_meta"), mcp.MetaVersion)) != ""
	switch {
	case m.method == "" || m.id == nil:
		if m.method == mcp.NotificationCancelled && r.hangUp(rawjson.Get(m.params, "requestId")) {
			return
		}
		m.id = nil
		select {
		case r.notices <- m:
		case <-r.ctx.Done():
		}
	default:
		r.request(m)
	}
}

// request answers a request, concurrently with others.
func (r *relay) request(m message) {
	ctx, cancel := context.WithCancel(r.ctx)
	c := &call{cancel: cancel, id: m.id, modern: m.modern}
	if m.method == mcp.MethodListen {
		c.filter = rawjson.Get(m.params, "notifications")
	}
	r.mu.Lock()
	_, twice := r.open[string(m.id)]
	full := len(r.open) >= maxRequests
	if !twice && !full {
		r.open[string(m.id)] = c
	}
	r.mu.Unlock()
	switch {
	case twice:
		cancel()
		close(m.done)
		r.refuse(m.id, mcp.CodeInvalidRequest, "Another request with this id is open. This one was not sent.")
		return
	case full:
		cancel()
		close(m.done)
		r.refuse(m.id, mcp.CodeInternal, "Too many requests are open at once. This one was not sent.")
		return
	}
	r.calls.Go(func() {
		defer cancel()
		defer close(m.done)
		err := r.exchange(ctx, m)
		r.mu.Lock()
		delete(r.open, string(m.id))
		canceled := c.canceled
		r.mu.Unlock()
		if err == nil || canceled {
			return
		}
		r.o.Log.LogAttrs(r.ctx, slog.LevelError, "request failed", slog.String("method", m.method), slog.Any("error", err))
		refusal := &failure{message: "The relay failed on the request."}
		errors.As(err, &refusal)
		r.refuse(m.id, mcp.CodeInternal, refusal.message)
	})
}

// hangUp records that the client no longer waits for a request's answer. It reports whether the
// closed connection cancels the request, as it does in the stateless protocol. Then the server
// needs no notification.
func (r *relay) hangUp(id json.RawMessage) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.open[string(id)]
	if c == nil {
		return false
	}
	c.canceled = true
	if c.modern {
		c.cancel()
	}
	return c.modern
}

// sendNotices sends the messages without an answer, in their order.
func (r *relay) sendNotices() {
	for {
		var m message
		select {
		case next, more := <-r.notices:
			if !more {
				return
			}
			m = next
		case <-r.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(r.ctx, noticeTime)
		if err := r.exchange(ctx, m); err != nil && r.ctx.Err() == nil {
			r.o.Log.LogAttrs(r.ctx, slog.LevelWarn, "message not delivered", slog.String("method", m.method), slog.Any("error", err))
		}
		cancel()
		close(m.done)
	}
}

// settle waits a short time for open requests to end.
func (r *relay) settle(sent <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		<-sent
		r.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(lastWait):
	case <-r.ctx.Done():
	}
}

// write writes one message to the client.
func (r *relay) write(message []byte) {
	line := bytes.Map(func(c rune) rune {
		if c == '\n' || c == '\r' { // only between tokens: a JSON string must escape it
			return ' '
		}
		return c
	}, message)
	r.writing.Lock()
	_, err := r.out.Write(append(line, '\n'))
	r.writing.Unlock()
	if err != nil {
		r.mu.Lock()
		r.broken = err
		r.mu.Unlock()
		r.cancel()
	}
}

// refuse answers a request with an error of the relay; nil writes an error without an id.
func (r *relay) refuse(id json.RawMessage, code int64, text string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	fault := rawjson.Object{{Name: "code", Value: strconv.AppendInt(nil, code, 10)}, {Name: "message", Value: rawjson.Quote(text)}}
	r.write(rawjson.Object{{Name: "jsonrpc", Value: rawjson.Quote("2.0")}, {Name: "id", Value: id}, {Name: "error", Value: fault.Bytes()}}.Bytes())
}
