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

// A session is the result of a handshake. The zero value means that there is no session.
type session struct {
	id      string // "": the endpoint sent none
	version string
	hello   message // initialize and notifications/initialized, to open another session
	ready   message
	number  int // of the handshake

	// unsigned says that the relay answered the handshake itself, because nobody is signed in.
	// There is no session with the gateway.
	unsigned bool

	listening bool // the relay reads its notification stream
}

// current returns the session.
func (r *relay) current() session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session
}

// noteAnswer records the answer to a handshake.
func (r *relay) noteAnswer(hello message, id, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = session{id: id, version: version, hello: hello, number: r.session.number + 1}
}

// noteReady records that notifications/initialized is sent in session s.
func (r *relay) noteReady(ready message, s session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session.number == s.number {
		r.session.ready = ready
	}
}

// completeHandshake records that the handshake of session s is complete, and starts to listen.
func (r *relay) completeHandshake(ctx context.Context, ready message, s session) error {
	r.mu.Lock()
	now := r.session
	first := now.number == s.number && !now.listening
	if first {
		r.session.listening = true
		go r.listen(r.session)
	}
	r.mu.Unlock()
	if now.number != s.number && now.ready.line == nil { // another request opened the session again
		return r.send(ctx, ready, now)
	}
	return nil
}

// reopen replaces s, which the endpoint no longer knows, with a new session. It repeats the
// client's handshake. The client gets no message, because it cannot react to the loss.
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
	if !s.unsigned {
		r.o.Log.LogAttrs(ctx, slog.LevelInfo, "session unknown to the gateway, opened again")
	}
	silent := &relay{o: r.o, ctx: r.ctx, cancel: func() {}, client: r.client, out: io.Discard, params: newToolHeaders()}
	if err := silent.send(ctx, s.hello, session{}); err != nil {
		return session{}, err
	}
	next := silent.current()
	if next.hello.line == nil {
		return session{}, errSessionGone // the endpoint refused it
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

// listen passes on the endpoint's own messages while the session lasts, if the endpoint has such a
// stream.
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

// stream reads one notification stream to its end, and reports whether the relay should open
// another one.
func (r *relay) stream(s session) bool {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.o.URL, nil)
	if err != nil {
		return false
	}
	token, err := r.token(r.ctx)
	if err != nil {
		return true
	}
	r.address(req, s, token)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := r.client.Do(req)
	if err != nil {
		return true
	}
	defer func() { _ = resp.Body.Close() }()
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || media != "text/event-stream" {
		// after a 401, another request renews the token, or a person signs in again
		return resp.StatusCode/100 == 5 && resp.StatusCode != http.StatusNotImplemented ||
			resp.StatusCode == http.StatusUnauthorized && r.o.SignIn != nil
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

// goodbye tells the endpoint that the session has ended. It ignores errors.
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
	token, err := r.token(ctx)
	if err != nil {
		return
	}
	r.address(req, s, token)
	if resp, err := r.client.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}
