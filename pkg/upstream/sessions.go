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
	// The store keeps a session for keepFor after its last use. A use prolongs the session if the
	// last prolongation was prolongAfter ago. So in that time, there is at most one write, and one
	// read by each other instance. A session that expires in the store was idle for at least
	// idleSession.
	keepFor      = idleSession + prolongAfter
	prolongAfter = 15 * time.Minute

	storeTimeout = time.Second      // of one request to the store
	storeRetry   = 30 * time.Second // time without requests after a failure of the store

	endTimeout = 2 * time.Second // to end one session at a server
	maxEnding  = 16              // ends that run at the same time
	maxEnds    = 1024            // ends that wait
)

// ensureSession returns the session to send on: the session of all callers, or the owner's session,
// which it opens if necessary. Only one handshake of an owner runs at a time. The owner's other
// requests wait for it until their ctx ends.
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
	o.server.noteHandshake(s, o.askedModern)
	if s.id == "" {
		return s, nil
	}
	o.c.watch()
	return o.keep(ctx, s), nil
}

// currentSession returns the session to send on, or nil if there is none. The operation then holds
// the entry of its owner until release.
func (o *operation) currentSession(ctx context.Context) *mcpSession {
	if s := o.server.sharedSession(); s != nil {
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

// forget drops the session of the last request. If protocol is set, it also drops the server's
// protocol.
func (o *operation) forget(protocol bool) {
	o.server.forget(o.session, protocol)
	if o.entry != nil {
		o.entry.forget(o.session)
	}
}

// fetch returns the session that another instance opened for the owner. It returns nil if there is
// none, or if the server has lost that session.
func (o *operation) fetch(ctx context.Context) *mcpSession {
	var stored session.Session
	err := o.c.shared.ask(ctx, o.key, "get", func(ctx context.Context, store *session.Store) (err error) {
		stored, err = store.Get(ctx, o.key.Key)
		return err
	})
	if err != nil || stored.ID.Reveal() == o.entry.lostID() {
		return nil
	}
	return o.adopt(stored)
}

// adopt makes a kept session the entry's session; it returns nil if the kept session is invalid.
func (o *operation) adopt(stored session.Session) *mcpSession {
	// The store keeps no log settings, so the next call sets the log level again.
	s := &mcpSession{version: stored.Version, id: stored.ID.Reveal(), logs: new(logSetting)}
	if s.id == "" || !validSession(s.id) || !slices.Contains(legacyVersions(), s.version) {
		return nil
	}
	o.entry.set(s, o.t, o.c.o.Now(), stored.Expires, stored.Expires.Add(-idleSession))
	o.c.watch()
	return s
}

// keep makes s the entry's session, and stores or prolongs it in the store. If the store has
// another session, which another instance opened, the entry uses the stored session and s ends.
func (o *operation) keep(ctx context.Context, s *mcpSession) *mcpSession {
	now := o.c.o.Now()
	mine := session.Session{ID: secret.New(s.id), Version: s.version, Expires: now.Add(keepFor)}
	var stored session.Session
	err := o.c.shared.ask(ctx, o.key, "put", func(ctx context.Context, store *session.Store) (err error) {
		stored, err = store.Put(ctx, o.key.Key, mine, secret.New(o.entry.lostID()))
		return err
	})
	if errors.Is(err, session.ErrConflict) {
		if other := o.adopt(stored); other != nil {
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

// A sharedStore is the store of all instances. If the store is down, only this instance has the
// session of a call.
type sharedStore struct {
	store *session.Store // nil: there is only one instance
	log   *slog.Logger
	now   func() time.Time

	mu    sync.Mutex
	after time.Time // no requests before; zero: the store works
}

var (
	errNoStore   = errors.New("no store keeps this session")
	errStoreDown = errors.New("the store of sessions failed just now")
)

// ask makes one request about k to the store, in bounded time. It logs a failure once, until the
// store works again.
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
		return err // the caller gave up; the store may work
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

// watch starts the search for idle sessions. The search runs while there are sessions.
func (c *Client) watch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sweeper == nil {
		c.sweeper = time.AfterFunc(sweepEvery, c.sweep)
	}
}

// sweep ends idle sessions.
func (c *Client) sweep() {
	now := c.o.Now()
	for _, e := range c.sessions.removeIf(func(e *sessionEntry) bool { return e.isUnused(now) }) {
		c.later(c.ender(e))
	}
	c.mu.Lock()
	c.sweeper = nil
	c.mu.Unlock()
	if c.sessions.len() > 0 {
		c.watch()
	}
}

// EndPrograms ends the servers that run as programs, and prevents new starts. When ctx ends, it
// kills the programs that are left. It returns when none is left.
func (c *Client) EndPrograms(ctx context.Context) {
	if c.programs != nil {
		c.programs.end(ctx)
	}
}

// EndSessions ends the sessions that only this process uses, at their servers, and waits until ctx
// ends. Sessions that other instances may use stay. A call that still runs on an ended session ends
// too, so that its server stops work on it. The client stays usable.
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

// ender empties an unused entry, and returns a function that ends its session. It returns nil if
// there is no session, or if other instances may use it.
func (c *Client) ender(e *sessionEntry) func(context.Context) {
	s, t, expires := e.take()
	switch {
	case s == nil, c.o.Now().Before(expires):
		return nil
	case expires.IsZero():
		return func(ctx context.Context) { c.end(ctx, t, s) }
	}
	return func(ctx context.Context) {
		err := c.shared.ask(ctx, e.key, "delete", func(ctx context.Context, store *session.Store) error {
			return store.Delete(ctx, e.key.Key, session.Session{ID: secret.New(s.id), Expires: expires})
		})
		if err == nil { // after an error, another instance may use it
			c.end(ctx, t, s)
		}
	}
}

// later runs end in the background. It drops end if too much is under way, because servers end idle
// sessions automatically.
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

// inTurn ends a session in bounded time, after it has waited for its turn among other ends.
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

// end ends a session at its server. It ignores the server's answer.
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
