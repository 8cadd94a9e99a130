package gateway

import (
	"crypto/rand"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
)

// Bounds on what waits for clients.
const (
	maxPending             = 128      // calls
	maxPendingOfAgent      = 16       // of one agent
	maxPendingBytes        = 32 << 20 // of their questions, and of results that nobody has fetched
	maxPendingBytesOfAgent = 8 << 20  // of one agent
	maxEnded               = 1024     // calls that are over, of which it is known how they ended
)

// pendingCalls holds the calls that wait for their client to come back with an answer. If there is
// no room for one more, one that waits is cancelled by [capacity.Yield].
type pendingCalls struct {
	process string // of this process, as chance named it: another one's calls are gone with it

	mu    sync.Mutex
	calls map[string]*pendingCall
	agent map[string]share // by the agent's key
	bytes int
	waits int64             // how often a call has begun to wait
	ended map[string]string // what is said of calls that are over, by id
	order []string          // their ids, the oldest first
}

// A share is what one agent has of the pending calls.
type share struct{ calls, bytes int }

func newPendingCalls() *pendingCalls {
	return &pendingCalls{
		process: rand.Text(), calls: map[string]*pendingCall{}, agent: map[string]share{}, ended: map[string]string{},
	}
}

// add notes that a call waits for its client from now on, and reports whether there is room for it.
func (l *pendingCalls) add(p *pendingCall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case p.out:
		return false
	case l.calls[p.id] == nil:
		if l.agent[p.agent].calls >= maxPendingOfAgent {
			return false
		}
		if len(l.calls) >= maxPending && !l.cancelOne(p, 1, func(*pendingCall) int { return 1 }) {
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
func (l *pendingCalls) attend(p *pendingCall) (said string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.out {
		return pendingNoRoom
	}
	p.waits = 0
	return ""
}

// remove takes a call out. said is what whoever comes back later is told.
func (l *pendingCalls) remove(p *pendingCall, said string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(p, said)
}

// drop is remove. The lock is held.
func (l *pendingCalls) drop(p *pendingCall, said string) {
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
func (l *pendingCalls) count(p *pendingCall, calls, bytes int) {
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
func (l *pendingCalls) cancelOne(p *pendingCall, more int, size func(*pendingCall) int) bool {
	var calls []*pendingCall
	var places []capacity.Place
	for _, o := range l.calls {
		calls = append(calls, o)
		busy := o.waits == 0 || o == p
		places = append(places, capacity.Place{Holder: o.agent, Size: size(o), Busy: busy, Last: o.waits})
	}
	i := capacity.Yield(places, p.agent, more)
	if i < 0 {
		return false
	}
	o := calls[i]
	l.drop(o, pendingNoRoom)
	l.count(o, 0, -o.kept)
	o.out = true
	go o.abandon(pendingNoRoom) // it has a lock of its own, and whoever asks for room holds another
	return true
}

// find returns a call that waits, or what is said of one that does not.
func (l *pendingCalls) find(id, process string) (p *pendingCall, said string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case process != l.process:
		return nil, pendingElsewhere
	case l.calls[id] != nil:
		return l.calls[id], ""
	case l.ended[id] != "":
		return nil, l.ended[id]
	}
	return nil, pendingExpired
}

// reserve takes n bytes of what may be kept for a call, and reports whether they were there.
func (l *pendingCalls) reserve(p *pendingCall, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.out || l.agent[p.agent].bytes+n > maxPendingBytesOfAgent {
		return false
	}
	for l.bytes+n > maxPendingBytes {
		if !l.cancelOne(p, n, func(o *pendingCall) int { return o.kept }) {
			return false
		}
	}
	l.count(p, 0, n)
	return true
}

// free gives back up to n bytes of a call.
func (l *pendingCalls) free(p *pendingCall, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(p, 0, -min(n, p.kept))
}

// freeAll gives back all bytes of a call.
func (l *pendingCalls) freeAll(p *pendingCall) { l.free(p, maxPendingBytes) }

// Texts for an agent whose answer belongs to a call that does not wait for it.
const (
	pendingExpired = "No answer came within 5 minutes, and the gateway cancelled the call. " +
		notResent
	pendingElsewhere = "The gateway restarted after the tool had asked, and the call is lost. " +
		notResent
	pendingAnswered = "An earlier request answered this question, and the call continued with that answer. " +
		"No request was sent. The call may have taken effect. Do not repeat a write; " +
		"its result is in the response to the earlier request."
	pendingAskedAnew = "The gateway has asked again since it returned this requestState. " +
		"No request was sent. Answer the latest result, with the requestState of that result, " +
		"within 5 minutes. If nobody answers, the gateway cancels the call."
	pendingLeft = "An earlier request answered this question and ended before the result came. " +
		"The gateway cancelled the call. " + notResent
	pendingUnfetched = "The call continued without the answer and has ended. The gateway kept its result " +
		"for 5 minutes. No request was sent. The call may have taken effect; check before calling again."
	pendingNoRoom = "The gateway cancelled the call: too many calls wait for answers, and this agent has the " +
		"most of them. " + notResent
	pendingLocked = "The tool was locked, and the gateway cancelled the call. " + notResent
)
