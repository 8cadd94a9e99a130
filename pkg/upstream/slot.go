package upstream

import (
	"container/list"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/session"
)

const (
	// maxSlots bounds the sessions that one client remembers. Beyond it the one
	// that was used least lately goes.
	maxSlots = 1024

	// A session that nobody used for idleSession is ended. Looking for such every
	// sweepEvery is soon enough.
	idleSession = 30 * time.Minute
	sweepEvery  = time.Minute
)

// A slot holds the session of one owner with one server. Its callers share it, and wait
// for no other owner's handshake.
type slot struct {
	key   session.Key
	loads bool          // of the loads of this process, which no call uses and no store keeps
	turn  chan struct{} // holds a token while a handshake is under way

	users int           // requests that use it; guarded by the slots' lock
	place *list.Element // in the slots' order

	mu      sync.Mutex
	leg     *leg      // nil: no session is open
	target  Target    // that it was opened with
	lost    string    // id of the session before, which the server has forgotten
	used    time.Time // last
	kept    time.Time // until when the store keeps it unless it is prolonged; zero: it does not
	prolong time.Time // when to ask the store for longer, or again
}

func newSlot(k session.Key, loads bool) *slot {
	return &slot{key: k, loads: loads, turn: make(chan struct{}, 1)}
}

// open returns the open session, nil if there is none, and whether it is time to
// tell the store that it is in use. One caller alone is told that.
func (s *slot) open(now time.Time) (l *leg, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leg == nil {
		return nil, false
	}
	s.used = now
	if tell = !s.prolong.IsZero() && !now.Before(s.prolong); tell {
		s.prolong = now.Add(prolongAgain)
	}
	return s.leg, tell
}

// set makes l the open session. kept is zero if no store keeps it.
func (s *slot) set(l *leg, t Target, now, kept, prolong time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leg, s.target, s.used, s.kept, s.prolong, s.lost = l, t, now, kept, prolong, ""
}

// forget drops l, so that the next request opens a new session. One that another
// request has opened meanwhile stays.
func (s *slot) forget(l *leg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leg == l {
		s.leg, s.lost = nil, l.session
	}
}

func (s *slot) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leg == nil
}

// gone returns the id of the session that the server has forgotten.
func (s *slot) gone() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// over reports whether the session is idle for good: as far as this process knows, or
// by the store, where other instances say that they use it.
func (s *slot) over(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.used.Add(idleSession)
	if s.kept.After(end) {
		end = s.kept
	}
	return s.leg == nil || !now.Before(end)
}

// take empties the slot and returns what was in it.
func (s *slot) take() (l *leg, t Target, kept time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, t, kept = s.leg, s.target, s.kept
	s.leg = nil
	return l, t, kept
}

// slots are the owners' slots of a client, few enough for the memory.
type slots struct {
	max int // kept; more if more are in use

	mu    sync.Mutex
	byKey map[session.Key]*slot
	order list.List // of *slot; the one used last is in front
}

// acquire returns the owner's slot, and one that had to go for it or nil. The caller
// releases it.
func (x *slots) acquire(k session.Key, now time.Time) (s, out *slot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s = x.byKey[k]
	if s != nil && s.users == 0 && s.over(now) {
		x.remove(s)
		s, out = nil, s
	}
	if s == nil {
		if len(x.byKey) >= x.max {
			out = x.least()
		}
		s = newSlot(k, false)
		s.place = x.order.PushFront(s)
		if x.byKey == nil {
			x.byKey = map[session.Key]*slot{}
		}
		x.byKey[k] = s
	}
	x.order.MoveToFront(s.place)
	s.users++
	return s, out
}

// release gives back a slot. An empty one is not remembered: the server has no
// sessions, or could not be reached.
func (x *slots) release(s *slot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s.users--
	if s.users == 0 && s.empty() {
		x.remove(s)
	}
}

// least removes and returns the slot that was used least lately and is not in use; nil if
// all are.
func (x *slots) least() *slot {
	for e := x.order.Back(); e != nil; e = e.Prev() {
		if s, _ := e.Value.(*slot); s.users == 0 {
			x.remove(s)
			return s
		}
	}
	return nil
}

// removeIf removes and returns the slots that are not in use and that match.
func (x *slots) removeIf(match func(*slot) bool) []*slot {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []*slot
	for _, s := range x.byKey {
		if s.users == 0 && match(s) {
			x.remove(s)
			out = append(out, s)
		}
	}
	return out
}

// remove forgets a slot that is not in use; the caller holds the lock.
func (x *slots) remove(s *slot) {
	delete(x.byKey, s.key)
	x.order.Remove(s.place)
}

func (x *slots) len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.byKey)
}
