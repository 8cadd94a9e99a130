package gateway

import (
	"crypto/rand"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/quota"
)

// Bounds on what waits for clients.
const (
	maxParked           = 128      // calls
	maxParkedAgent      = 16       // of one agent
	maxParkedBytes      = 32 << 20 // of their questions, and of results that nobody has fetched
	maxParkedBytesAgent = 8 << 20  // of one agent
	maxEnded            = 1024     // calls that are over, of which it is known how they ended
)

// A lot holds the calls that wait for their client to come back with an answer. If there is no room
// for one more, one that waits is cancelled by [quota.Yield].
type lot struct {
	process string // of this process, as chance named it: another one's calls are gone with it

	mu    sync.Mutex
	calls map[string]*parked
	agent map[string]share // by the agent's key
	bytes int
	waits int64             // how often a call has begun to wait
	ended map[string]string // what is said of calls that are over, by id
	order []string          // their ids, the oldest first
}

// A share is what one agent has of a lot.
type share struct{ calls, bytes int }

func newLot() *lot {
	return &lot{
		process: rand.Text(), calls: map[string]*parked{}, agent: map[string]share{}, ended: map[string]string{},
	}
}

// add notes that a call waits for its client from now on, and reports whether there is room for it.
func (l *lot) add(p *parked) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case p.out:
		return false
	case l.calls[p.id] == nil:
		if l.agent[p.agent].calls >= maxParkedAgent {
			return false
		}
		if len(l.calls) >= maxParked && !l.cancelOne(p, 1, func(*parked) int { return 1 }) {
			return false
		}
		l.calls[p.id] = p
		l.count(p, 1, 0)
	}
	l.waits++
	p.waits = l.waits
	return true
}

// attend notes that a request has come back to a call that waits. If the call was cancelled
// meanwhile, it returns what is said of that.
func (l *lot) attend(p *parked) (said string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.out {
		return parkedNoRoom
	}
	p.waits = 0
	return ""
}

// remove takes a call out. said is what whoever comes back later is told.
func (l *lot) remove(p *parked, said string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(p, said)
}

// drop is remove. The lock is held.
func (l *lot) drop(p *parked, said string) {
	if l.calls[p.id] != p {
		return
	}
	delete(l.calls, p.id)
	l.count(p, -1, 0)
	l.ended[p.id] = said
	if l.order = append(l.order, p.id); len(l.order) > maxEnded {
		delete(l.ended, l.order[0])
		l.order = l.order[1:]
	}
}

// count counts calls and bytes of the agent of p. The lock is held.
func (l *lot) count(p *parked, calls, bytes int) {
	l.bytes += bytes
	p.kept += bytes
	s := l.agent[p.agent]
	if s = (share{s.calls + calls, s.bytes + bytes}); s == (share{}) {
		delete(l.agent, p.agent)
		return
	}
	l.agent[p.agent] = s
}

// cancelOne cancels a call that waits, so that p gets more, and reports whether it found one. The
// lock is held.
func (l *lot) cancelOne(p *parked, more int, size func(*parked) int) bool {
	var calls []*parked
	var places []quota.Place
	for _, o := range l.calls {
		calls = append(calls, o)
		busy := o.waits == 0 || o == p
		places = append(places, quota.Place{Holder: o.agent, Size: size(o), Busy: busy, Last: o.waits})
	}
	i := quota.Yield(places, p.agent, more)
	if i < 0 {
		return false
	}
	o := calls[i]
	l.drop(o, parkedNoRoom)
	l.count(o, 0, -o.kept)
	o.out = true
	go o.abandon(parkedNoRoom) // it has a lock of its own, and whoever asks for room holds another
	return true
}

// find returns a call that waits, or what is said of one that does not.
func (l *lot) find(id, process string) (p *parked, said string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case process != l.process:
		return nil, parkedElsewhere
	case l.calls[id] != nil:
		return l.calls[id], ""
	case l.ended[id] != "":
		return nil, l.ended[id]
	}
	return nil, parkedExpired
}

// reserve takes n bytes of what may be kept for a call, and reports whether they were there.
func (l *lot) reserve(p *parked, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.out || l.agent[p.agent].bytes+n > maxParkedBytesAgent {
		return false
	}
	for l.bytes+n > maxParkedBytes {
		if !l.cancelOne(p, n, func(o *parked) int { return o.kept }) {
			return false
		}
	}
	l.count(p, 0, n)
	return true
}

// free gives back up to n bytes of a call.
func (l *lot) free(p *parked, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(p, 0, -min(n, p.kept))
}

// freeAll gives back all bytes of a call.
func (l *lot) freeAll(p *parked) { l.free(p, maxParkedBytes) }

// Texts for an agent whose answer belongs to a call that does not wait for it.
const (
	parkedExpired = "No answer came within 5 minutes, and the gateway cancelled the call. " +
		notResent
	parkedElsewhere = "The gateway restarted after the tool had asked, and the call is lost. " +
		notResent
	parkedAnswered = "An earlier request answered this question, and the call continued with that answer. " +
		"No request was sent. The call may have taken effect. Do not repeat a write; " +
		"its result is in the response to the earlier request."
	parkedAskedAnew = "The gateway has asked again since it returned this requestState. " +
		"No request was sent. Answer the latest result, with the requestState of that result, " +
		"within 5 minutes. If nobody answers, the gateway cancels the call."
	parkedLeft = "An earlier request answered this question and ended before the result came. " +
		"The gateway cancelled the call. " + notResent
	parkedUnfetched = "The call continued without the answer and has ended. The gateway kept its result " +
		"for 5 minutes. No request was sent. The call may have taken effect; check before calling again."
	parkedNoRoom = "The gateway cancelled the call: too many calls wait for answers, and this agent has the " +
		"most of them. " + notResent
	parkedLocked = "The tool was locked, and the gateway cancelled the call. " + notResent
)
