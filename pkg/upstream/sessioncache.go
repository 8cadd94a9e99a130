package upstream

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
)

const (
	// maxSessions bounds the sessions that one client remembers. If there are more,
	// [capacity.Yield] selects a session to end.
	maxSessions = 1024

	// maxClientSessions bounds the sessions of single clients that one caller has with one server.
	// So a caller that opens many clients does not end the sessions of another caller, even another
	// user of the same agent. The programs of an agent have their own limit.
	maxClientSessions = 16

	// A session ends after idleSession without a use. A search every sweepEvery is frequent enough.
	idleSession = 30 * time.Minute
	sweepEvery  = time.Minute
)

// An entryKey names the session of an owner with a server, or the session of the loads of this
// process. No call uses the session of loads, and no store keeps it.
type entryKey struct {
	session.Key
	load bool
}

// ofCaller returns the key of the same caller without its client.
func (k entryKey) ofCaller() entryKey {
	k.Owner = k.Owner.Caller()
	return k
}

// A sessionEntry holds the session of one owner with one server. The owner's requests share it, and
// wait for no other owner's handshake.
type sessionEntry struct {
	key  entryKey
	turn chan struct{} // holds a token while a handshake is under way

	users int    // requests that use it; guarded by the cache's lock
	last  uint64 // number of the last use; guarded by the cache's lock

	mu      sync.Mutex
	session *mcpSession   // nil: none is open
	target  Target        // that opened it
	stream  *listenStream // its event stream; nil: not opened
	lost    string        // id of the previous session, which the server has lost
	used    time.Time     // last
	kept    time.Time     // when the session expires in the store; zero: not in the store
	prolong time.Time     // when to prolong the session in the store, or to try again
}

// open returns the open session, or nil. tell reports whether the caller has to prolong the session
// in the store. Only one caller gets true.
func (e *sessionEntry) open(now time.Time) (s *mcpSession, tell bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session == nil {
		return nil, false
	}
	e.used = now
	if tell = !e.prolong.IsZero() && !now.Before(e.prolong); tell {
		e.prolong = now.Add(storeRetry)
	}
	return e.session, tell
}

// set makes s the open session. expires is zero if no store keeps the session.
func (e *sessionEntry) set(s *mcpSession, t Target, now, expires, prolong time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session != s {
		e.dropListenStream()
	}
	e.session, e.target, e.used, e.kept, e.prolong, e.lost = s, t, now, expires, prolong, ""
}

// forget drops s, so that the next request opens a new session. If another request has already
// opened a new session, that session stays.
func (e *sessionEntry) forget(s *mcpSession) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session == s {
		e.session, e.lost = nil, s.id
		e.dropListenStream()
	}
}

// lostID returns the id of the session that the server has lost.
func (e *sessionEntry) lostID() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost
}

// isUnused reports whether there is no session, or the session is idle and no longer needed. A
// session counts as used until it expires in the store, because other instances prolong it there.
func (e *sessionEntry) isUnused(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	end := e.used.Add(idleSession)
	if e.kept.After(end) {
		end = e.kept
	}
	return e.session == nil || !now.Before(end)
}

// touch records a use of the session now, because a call may take long.
func (e *sessionEntry) touch(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session != nil {
		e.used = now
	}
}

// take empties the entry and returns its content.
func (e *sessionEntry) take() (s *mcpSession, t Target, expires time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, t, expires = e.session, e.target, e.kept
	e.session = nil
	e.dropListenStream()
	return s, t, expires
}

// A sessionCache holds the entries of a client, within a limit for the memory.
type sessionCache struct {
	max int // entries to keep; more if more are in use

	mu    sync.Mutex
	uses  uint64
	byKey map[entryKey]*sessionEntry
}

// acquire returns the entry of k, and the entry that it removed to make room, or nil. program says
// that the server is a program. The caller releases the entry.
func (c *sessionCache) acquire(k entryKey, program bool, now time.Time) (e, out *sessionEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e = c.byKey[k]
	if e != nil && e.users == 0 && e.isUnused(now) {
		delete(c.byKey, k)
		e, out = nil, e
	}
	if e == nil {
		if out == nil {
			if out = c.surplus(k, program); out != nil {
				delete(c.byKey, out.key)
			}
		}
		e = &sessionEntry{key: k, turn: make(chan struct{}, 1)}
		if c.byKey == nil {
			c.byKey = map[entryKey]*sessionEntry{}
		}
		c.byKey[k] = e
	}
	c.uses++
	e.last = c.uses
	e.users++
	return e, out
}

// release ends one use of an entry. It drops an empty entry, because the server has no session ids
// or is unreachable.
func (c *sessionCache) release(e *sessionEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
	if e.users == 0 && c.byKey[e.key] == e && e.isUnused(time.Time{}) { // no session was ever open
		delete(c.byKey, e.key)
	}
}

// surplus returns the entry to remove for k if there are too many entries of the caller's clients
// or of all callers. It returns nil if there is room, or if no entry may be removed.
func (c *sessionCache) surplus(k entryKey, program bool) *sessionEntry {
	ofCaller := func(e *sessionEntry) bool { return e.key.Owner.Client != "" && e.key.ofCaller() == k.ofCaller() }
	if k.Owner.Client != "" && !program {
		n := 0
		for _, e := range c.byKey {
			if ofCaller(e) {
				n++
			}
		}
		if n >= maxClientSessions {
			return c.idlest(k, ofCaller)
		}
	}
	if len(c.byKey) < c.max {
		return nil
	}
	return c.idlest(k, func(*sessionEntry) bool { return true })
}

// idlest returns the matching entry to remove for k, or nil if no entry may be removed.
func (c *sessionCache) idlest(k entryKey, match func(*sessionEntry) bool) *sessionEntry {
	var entries []*sessionEntry
	var places []capacity.Place
	for _, e := range c.byKey {
		if match(e) {
			entries = append(entries, e)
			place := capacity.Place{Holder: e.key.holder(), Size: 1, Busy: e.users > 0, Last: int64(e.last)}
			places = append(places, place)
		}
	}
	if i := capacity.Yield(places, k.holder(), 1); i >= 0 {
		return entries[i]
	}
	return nil
}

// removeIf removes and returns the unused entries that match.
func (c *sessionCache) removeIf(match func(*sessionEntry) bool) []*sessionEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*sessionEntry
	for k, e := range c.byKey {
		if e.users == 0 && match(e) {
			delete(c.byKey, k)
			out = append(out, e)
		}
	}
	return out
}

// each calls f with every entry.
func (c *sessionCache) each(f func(*sessionEntry)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.byKey {
		f(e)
	}
}

// removeAll removes and returns all entries, including those in use.
func (c *sessionCache) removeAll() []*sessionEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Collect(maps.Values(c.byKey))
	c.byKey = nil
	return out
}

func (c *sessionCache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byKey)
}
