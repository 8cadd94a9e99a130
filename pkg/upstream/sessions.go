package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
)

const (
	// A kept session outlives its last use by keepFor, and is prolonged by a use that
	// comes prolongAfter the last time: one write in that time, and one read by each
	// instance that comes to it. Where nobody prolonged it, it was idle for the
	// difference, or longer.
	keepFor      = idleSession + prolongAfter
	prolongAfter = 15 * time.Minute

	storeTimeout = time.Second      // of one question to the store
	storeRetry   = 30 * time.Second // after a store failed it is not asked for that long

	endTimeout = 2 * time.Second // of telling a server that a session is over
	maxEnding  = 16              // at once
	maxEnds    = 1024            // and waiting for that
)

// ensureSession returns how to send: as everybody does, or on the owner's session, which is
// opened if need be. Only one handshake for an owner is under way at a time; its other
// requests wait for it, as long as ctx lets them.
func (o *operation) ensureSession(ctx context.Context) (*mcpSession, error) {
	if s := o.currentSession(ctx); s != nil {
		return s, nil
	}
	select {
	case o.entry.turn <- struct{}{}:
		defer func() { <-o.entry.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s := o.currentSession(ctx); s != nil {
		return s, nil
	}
	memory, now := o.server.remembered(), o.c.o.Now()
	if memory.Sessions {
		if s := o.fetch(ctx); s != nil {
			return s, nil
		}
	}
	o.handshook, o.askedModern = true, time.Time{}
	s, err := o.handshake(ctx, memory.Handshake && now.Sub(memory.At) < maxMemory)
	if err != nil {
		return nil, err
	}
	o.server.found(s, o.askedModern)
	if s.id == "" {
		return s, nil
	}
	o.c.watch()
	return o.keep(ctx, s), nil
}

// currentSession returns the session to send on, nil if one has to be opened. From then on the
// operation holds the entry of its owner, until release.
func (o *operation) currentSession(ctx context.Context) *mcpSession {
	if s := o.server.known(); s != nil {
		return s
	}
	if o.entry == nil {
		var out *sessionEntry
		if o.entry, out = o.c.sessions.acquire(o.key, o.t.Command != nil, o.c.o.Now()); out != nil {
			o.c.later(o.c.ender(out))
		}
	}
	s, tell := o.entry.open(o.c.o.Now())
	if tell {
		return o.keep(ctx, s)
	}
	return s
}

func (o *operation) release() {
	if o.entry != nil {
		o.entry.touch(o.c.o.Now())
		o.c.sessions.release(o.entry)
		o.entry = nil
	}
	if o.unhold != nil {
		o.unhold()
		o.unhold = nil
	}
}

// forget drops the session that the last request was sent on, and if protocol is set what is
// known of the server's protocol.
func (o *operation) forget(protocol bool) {
	o.server.forget(o.session, protocol)
	if o.entry != nil {
		o.entry.forget(o.session)
	}
}

// fetch takes over the session that another instance opened for the owner, if there is one
// and it is not the one that was found gone.
func (o *operation) fetch(ctx context.Context) *mcpSession {
	var kept session.Session
	err := o.c.shared.ask(ctx, o.key, "get", func(ctx context.Context, store *session.Store) (err error) {
		kept, err = store.Get(ctx, o.key.Key)
		return err
	})
	if err != nil || kept.ID.Reveal() == o.entry.gone() {
		return nil
	}
	return o.adopt(kept)
}

// adopt makes a kept session the entry's; nil if it is not one.
func (o *operation) adopt(kept session.Session) *mcpSession {
	s := &mcpSession{version: kept.Version, id: kept.ID.Reveal(), logs: new(logSetting)} // whether it has logs is not kept
	if s.id == "" || !validSession(s.id) || !slices.Contains(legacyVersions(), s.version) {
		return nil
	}
	o.entry.set(s, o.t, o.c.o.Now(), kept.Expires, kept.Expires.Add(-idleSession))
	o.c.watch()
	return s
}

// keep makes s the entry's session and has the store keep it, or keep it for longer. If
// the store has another, which another instance opened, that one is used and s ended.
func (o *operation) keep(ctx context.Context, s *mcpSession) *mcpSession {
	now := o.c.o.Now()
	mine := session.Session{ID: secret.New(s.id), Version: s.version, Expires: now.Add(keepFor)}
	var kept session.Session
	err := o.c.shared.ask(ctx, o.key, "put", func(ctx context.Context, store *session.Store) (err error) {
		kept, err = store.Put(ctx, o.key.Key, mine, secret.New(o.entry.gone()))
		return err
	})
	if errors.Is(err, session.ErrConflict) {
		if other := o.adopt(kept); other != nil {
			o.c.endLater(o.t, s)
			return other
		}
	}
	switch {
	case err == nil:
		o.entry.set(s, o.t, now, mine.Expires, now.Add(prolongAfter))
	case errors.Is(err, errNoStore):
		o.entry.set(s, o.t, now, time.Time{}, time.Time{})
	default:
		o.entry.set(s, o.t, now, time.Time{}, now.Add(storeRetry))
	}
	return s
}

// A sharedStore is the store of all instances, which may be down: a call then has a
// session that this instance alone knows.
type sharedStore struct {
	store *session.Store // nil: there is one instance
	log   *slog.Logger
	now   func() time.Time

	mu    sync.Mutex
	after time.Time // not asked before; zero: it works
}

var (
	errNoStore   = errors.New("no store keeps this session")
	errStoreDown = errors.New("the store of sessions failed just now")
)

// ask puts one question about k to the store, in bounded time. A failure is logged
// once, until the store works again.
func (x *sharedStore) ask(ctx context.Context, k entryKey, op string, question func(context.Context, *session.Store) error) error {
	if x.store == nil || k.load {
		return errNoStore
	}
	x.mu.Lock()
	after := x.after
	x.mu.Unlock()
	if x.now().Before(after) {
		return errStoreDown
	}
	own, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := question(own, x.store)
	failed := err != nil && !errors.Is(err, session.ErrNotFound) && !errors.Is(err, session.ErrConflict)
	if failed && ctx.Err() != nil {
		return err // the caller gave up, which says nothing of the store
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if failed && x.after.IsZero() {
		x.log.LogAttrs(ctx, slog.LevelError, "upstream sessions are not shared between instances: their store fails",
			slog.String("op", op), slog.String("server", k.Server), slog.Any("error", err))
	}
	x.after = time.Time{}
	if failed {
		x.after = x.now().Add(storeRetry)
	}
	return err
}

// watch looks for idle sessions from now on, while there are any.
func (c *Client) watch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sweeper == nil {
		c.sweeper = time.AfterFunc(sweepEvery, c.sweep)
	}
}

// sweep ends the sessions that are idle.
func (c *Client) sweep() {
	now := c.o.Now()
	for _, e := range c.sessions.removeIf(func(e *sessionEntry) bool { return e.over(now) }) {
		c.later(c.ender(e))
	}
	c.mu.Lock()
	c.sweeper = nil
	c.mu.Unlock()
	if c.sessions.len() > 0 {
		c.watch()
	}
}

// EndPrograms ends the servers that run as programs, and starts no more. When ctx ends what is left of
// them is killed; it returns when nothing is left.
func (c *Client) EndPrograms(ctx context.Context) {
	if c.programs != nil {
		c.programs.end(ctx)
	}
}

// EndSessions tells every server that the sessions which this process has for itself are
// over, and waits for that until ctx ends. Those that other instances may go on with
// stay. A call that still runs on one ends with it: so its server hears that nobody waits for it
// any more. The client can go on being used.
func (c *Client) EndSessions(ctx context.Context) {
	var wg sync.WaitGroup
	for _, e := range c.sessions.removeAll() {
		if end := c.ender(e); end != nil {
			wg.Go(func() { c.inTurn(ctx, end) })
		}
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// ender empties an entry that nobody uses any more, and returns what ends its session; nil if
// it has none, or other instances may go on with it.
func (c *Client) ender(e *sessionEntry) func(context.Context) {
	s, t, kept := e.take()
	switch {
	case s == nil, c.o.Now().Before(kept):
		return nil
	case kept.IsZero():
		return func(ctx context.Context) { c.end(ctx, t, s) }
	}
	return func(ctx context.Context) {
		err := c.shared.ask(ctx, e.key, "delete", func(ctx context.Context, store *session.Store) error {
			return store.Delete(ctx, e.key.Key, session.Session{ID: secret.New(s.id), Expires: kept})
		})
		if err == nil { // else another instance uses it, or may do so
			c.end(ctx, t, s)
		}
	}
}

// later does something beside the requests. It is left undone if too much is under
// way: servers end idle sessions by themselves.
func (c *Client) later(end func(context.Context)) {
	if end == nil {
		return
	}
	select {
	case c.ends <- struct{}{}:
		go func() {
			defer func() { <-c.ends }()
			c.inTurn(context.Background(), end)
		}()
	default:
	}
}

// inTurn ends a session when few others are just being ended, in bounded time.
func (c *Client) inTurn(ctx context.Context, end func(context.Context)) {
	select {
	case c.ending <- struct{}{}:
		defer func() { <-c.ending }()
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	end(ctx)
}

func (c *Client) endLater(t Target, s *mcpSession) {
	c.later(func(ctx context.Context) { c.end(ctx, t, s) })
}

// end tells a server that a session is over. Whatever it answers, nothing can be
// done about it.
func (c *Client) end(ctx context.Context, t Target, s *mcpSession) {
	ep, err := c.resolve(ctx, t, entryKey{})
	if err != nil {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, ep.url.String(), nil)
	if err != nil {
		return
	}
	c.address(req, ep, *s)
	if resp, err := ep.transport.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}
