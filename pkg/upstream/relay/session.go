package relay

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/upstream/sse"
)

// A session is what a handshake agreed on. Its zero value is none.
type session struct {
	id      string // "": the endpoint gave none
	version string
	hello   message // initialize, and what followed: enough to open another
	ready   message
	number  int // of the handshake

	listening bool // its stream of notifications is read
}

// current returns the session.
func (r *relay) current() session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session
}

// begun notes that a handshake was answered.
func (r *relay) begun(hello message, id, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = session{id: id, version: version, hello: hello, number: r.session.number + 1}
}

// opening notes that the client's word that it is ready is sent in session s.
func (r *relay) opening(ready message, s session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session.number == s.number {
		r.session.ready = ready
	}
}

// opened notes that the handshake of session s is through, and listens from now on.
func (r *relay) opened(ctx context.Context, ready message, s session) error {
	r.mu.Lock()
	now := r.session
	first := now.number == s.number && !now.listening
	if first {
		r.session.listening = true
		go r.listen(r.session)
	}
	r.mu.Unlock()
	if now.number != s.number && now.ready.line == nil { // it was opened again meanwhile, by another request
		return r.send(ctx, ready, now)
	}
	return nil
}

// reopen opens another session in the place of s, which the endpoint does not know any more, with the
// client's own handshake. The client is told nothing: it cannot do anything about it.
func (r *relay) reopen(ctx context.Context, s session) (session, error) {
	r.renew.Lock()
	defer r.renew.Unlock()
	now := r.current()
	if now.number != s.number {
		return now, nil // another request was first
	}
	s = now
	if s.hello.line == nil {
		return session{}, errSessionGone
	}
	r.o.Log.LogAttrs(ctx, slog.LevelInfo, "the gateway does not know the session any more; another one is opened")
	silent := &relay{o: r.o, ctx: r.ctx, cancel: func() {}, client: r.client, out: io.Discard, params: newToolHeaders()}
	if err := silent.send(ctx, s.hello, session{}); err != nil {
		return session{}, err
	}
	next := silent.current()
	if next.hello.line == nil {
		return session{}, errSessionGone // it was refused
	}
	next.number = s.number + 1
	r.mu.Lock()
	r.session = next
	r.mu.Unlock()
	if s.ready.line != nil {
		return r.current(), r.send(ctx, s.ready, next)
	}
	return next, nil
}

// listen passes on what the endpoint says without being asked, as long as the session lasts and if
// the endpoint has such a stream.
func (r *relay) listen(s session) {
	for pause := firstPause; r.ctx.Err() == nil && r.current().number == s.number; pause = min(2*pause, maxPause) {
		begun := time.Now()
		if !r.stream(s) {
			return
		}
		if time.Since(begun) > maxPause {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
		}
	}
}

// stream reads one such stream to its end, and reports whether it is worth opening again.
func (r *relay) stream(s session) bool {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.o.URL, nil)
	if err != nil {
		return false
	}
	r.address(req, s)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := r.client.Do(req)
	if err != nil {
		return true
	}
	defer func() { _ = resp.Body.Close() }()
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || media != "text/event-stream" {
		return resp.StatusCode/100 == 5 && resp.StatusCode != http.StatusNotImplemented
	}
	err = sse.Events(resp.Body, maxAnswer, func(data []byte) (bool, error) {
		if json.Valid(data) {
			r.write(data)
		}
		return false, nil
	})
	r.o.Log.LogAttrs(r.ctx, slog.LevelDebug, "stream of notifications ended", slog.Any("error", err))
	return true
}

// goodbye tells the endpoint that the session is over. Nothing can be done if it does not care.
func (r *relay) goodbye() {
	s := r.current()
	if s.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), goodbyeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, r.o.URL, nil)
	if err != nil {
		return
	}
	r.address(req, s)
	if resp, err := r.client.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}
