package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/session"
)

const (
	// A kept session outlives its last use by keepFor, and is prolonged by a use that
	// comes prolongAfter the last time: one write in that time, and one read by each
	// instance that comes to it. Where nobody prolonged it, it was idle for the
	// difference, or longer.
	keepFor      = idleSession + prolongAfter
	prolongAfter = 15 * time.Minute

	storeTimeout = time.Second      // of one question to the store
	prolongAgain = 30 * time.Second // after a store failed it is not asked for that long

	endTimeout = 2 * time.Second // of telling a server that a session is over
	maxEnding  = 16              // at once
	maxEnds    = 1024            // and waiting for that
)

// settle returns how to send: as everybody does, or on the owner's session, which is
// opened if need be. Only one handshake for an owner is under way at a time; its other
// requests wait for it, as long as ctx lets them.
func (o *op) settle(ctx context.Context) (*leg, error) {
	if l := o.peer.known(); l != nil {
		return l, nil
	}
	s := o.acquire()
	if l, tell := s.open(o.c.o.Now()); l != nil {
		if tell {
			l = o.keep(ctx, l)
		}
		return l, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l := o.peer.known(); l != nil {
		return l, nil
	}
	if l, _ := s.open(o.c.o.Now()); l != nil {
		return l, nil
	}
	memory := o.peer.remembered(o.c.o.Now())
	if memory.Sessions {
		if l := o.fetch(ctx); l != nil {
			return l, nil
		}
	}
	o.shook, o.asked = true, time.Time{}
	l, err := o.handshake(ctx, memory.Handshake)
	if err != nil {
		return nil, err
	}
	o.peer.found(l, o.asked)
	if l.session == "" {
		return l, nil
	}
	o.c.watch()
	return o.keep(ctx, l), nil
}

// acquire returns the slot of the op's owner, which the op holds until release.
func (o *op) acquire() *slot {
	if o.slot == nil {
		var out *slot
		if o.slot, out = o.c.slots.acquire(o.key, o.c.o.Now()); out != nil {
			o.c.later(o.c.ender(out))
		}
	}
	return o.slot
}

func (o *op) release() {
	if o.slot != nil && !o.slot.loads {
		o.c.slots.release(o.slot)
		o.slot = nil
	}
}

// forget drops the leg that the last request was sent on, and if era is set what is
// known of the server's era.
func (o *op) forget(era bool) {
	o.peer.forget(o.leg, era)
	if o.slot != nil {
		o.slot.forget(o.leg)
	}
}

// fetch takes over the session that another instance opened for the owner, if there is one
// and it is not the one that was found gone.
func (o *op) fetch(ctx context.Context) *leg {
	s := o.slot
	var kept session.Session
	err := o.c.shared.ask(ctx, s, "get", func(ctx context.Context, store session.Store) (err error) {
		kept, err = store.Get(ctx, s.key)
		return err
	})
	if err != nil || kept.ID.Reveal() == s.gone() {
		return nil
	}
	return o.adopt(kept)
}

// adopt makes a kept session the slot's; nil if it is not one.
func (o *op) adopt(kept session.Session) *leg {
	l := &leg{version: kept.Version, session: kept.ID.Reveal()}
	if l.session == "" || !validSession(l.session) || !slices.Contains(legacyVersions(), l.version) {
		return nil
	}
	o.slot.set(l, o.t, o.c.o.Now(), kept.Expires, kept.Expires.Add(-idleSession))
	o.c.watch()
	return l
}

// keep makes l the slot's session and has the store keep it, or keep it for longer. If
// the store has another, which another instance opened, that one is used and l ended.
func (o *op) keep(ctx context.Context, l *leg) *leg {
	s, now := o.slot, o.c.o.Now()
	mine := session.Session{ID: secret.New(l.session), Version: l.version, Expires: now.Add(keepFor)}
	var kept session.Session
	err := o.c.shared.ask(ctx, s, "put", func(ctx context.Context, store session.Store) (err error) {
		kept, err = store.Put(ctx, s.key, mine, secret.New(s.gone()))
		return err
	})
	switch {
	case errors.Is(err, errNoStore):
		s.set(l, o.t, now, time.Time{}, time.Time{})
	case err == nil:
		s.set(l, o.t, now, mine.Expires, now.Add(prolongAfter))
	case errors.Is(err, session.ErrConflict):
		if other := o.adopt(kept); other != nil {
			o.c.hangUpLater(o.t, l)
			return other
		}
		fallthrough
	default:
		s.set(l, o.t, now, time.Time{}, now.Add(prolongAgain))
	}
	return l
}

// A sharedStore is the store of all instances, which may be down: a call then has a
// session that this instance alone knows.
type sharedStore struct {
	store session.Store // nil: there is one instance
	log   *slog.Logger
	now   func() time.Time

	mu    sync.Mutex
	after time.Time // not asked before; zero: it works
}

var (
	errNoStore   = errors.New("no store keeps this session")
	errStoreDown = errors.New("the store of sessions failed just now")
)

// ask puts one question about s to the store, in bounded time. A failure is logged
// once, until the store works again.
func (x *sharedStore) ask(ctx context.Context, s *slot, op string, question func(context.Context, session.Store) error) error {
	if x.store == nil || s.loads {
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
			slog.String("op", op), slog.String("server", s.key.Server), slog.Any("error", err))
	}
	x.after = time.Time{}
	if failed {
		x.after = x.now().Add(prolongAgain)
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
	over := c.slots.removeIf(func(s *slot) bool { return s.over(now) })
	left := c.slots.len()
	for _, s := range c.loadSlots() {
		if s.over(now) {
			over = append(over, s)
		} else {
			left++
		}
	}
	for _, s := range over {
		c.later(c.ender(s))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweeper = nil
	if left > 0 {
		c.sweeper = time.AfterFunc(sweepEvery, c.sweep)
	}
}

// loadSlots returns the slots of the loads.
func (c *Client) loadSlots() []*slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*slot, 0, len(c.peers))
	for _, p := range c.peers {
		out = append(out, p.loads)
	}
	return out
}

// EndSessions tells every server that the sessions which this process has for itself are
// over, and waits for that until ctx ends. Those that other instances may go on with
// stay. The client can go on being used.
func (c *Client) EndSessions(ctx context.Context) {
	var wg sync.WaitGroup
	for _, s := range append(c.loadSlots(), c.slots.removeIf(func(*slot) bool { return true })...) {
		if end := c.ender(s); end != nil {
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

// ender empties a slot that nobody uses any more, and returns what ends its session; nil if
// it has none, or other instances may go on with it.
func (c *Client) ender(s *slot) func(context.Context) {
	l, t, kept := s.take()
	switch {
	case l == nil, c.o.Now().Before(kept):
		return nil
	case kept.IsZero():
		return func(ctx context.Context) { c.hangUp(ctx, t, l) }
	}
	return func(ctx context.Context) {
		err := c.shared.ask(ctx, s, "delete", func(ctx context.Context, store session.Store) error {
			return store.Delete(ctx, s.key, session.Session{ID: secret.New(l.session), Expires: kept})
		})
		if err == nil { // else another instance uses it, or may do so
			c.hangUp(ctx, t, l)
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

func (c *Client) hangUpLater(t Target, l *leg) {
	c.later(func(ctx context.Context) { c.hangUp(ctx, t, l) })
}

// hangUp tells a server that a session is over. Whatever it answers, nothing can be
// done about it.
func (c *Client) hangUp(ctx context.Context, t Target, l *leg) {
	ep, err := c.resolve(ctx, t)
	if err != nil {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, ep.url.String(), nil)
	if err != nil {
		return
	}
	c.address(req, ep, *l)
	if resp, err := c.http.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}
