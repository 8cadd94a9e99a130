package gateway

import (
	"crypto/rand"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
)

// Limits for calls that wait for clients.
const (
	maxPending             = 128      // calls
	maxPendingOfAgent      = 16       // of one agent
	maxPendingBytes        = 32 << 20 // of questions, and of results that wait for a request
	maxPendingBytesOfAgent = 8 << 20  // of one agent
	maxEnded               = 1024     // ended calls with a stored text
)

// pendingCalls holds the calls that wait for their client's answer. If the limits allow no further
// call, [capacity.Yield] selects a call to cancel.
type pendingCalls struct {
	process string // random id of this process; it cannot continue a call of another process

	mu    sync.Mutex
	calls map[string]*pendingCall
	agent map[string]share // by the agent's key
	bytes int
	waits int64             // the number of waits so far
	ended map[string]string // texts about ended calls, by id
	order []string          // ids in ended, the oldest first
}

// A share is one agent's part of the pending calls.
type share struct{ calls, bytes int }

func newPendingCalls() *pendingCalls {
	return &pendingCalls{
		process: rand.Text(), calls: map[string]*pendingCall{}, agent: map[string]share{}, ended: map[string]string{},
	}
}

// add registers a call that waits for its client, and reports whether there is room for it.
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

// attend registers that a request of the client has reached the waiting call p. If the gateway has
// cancelled p to make room, attend returns the text about the cancellation.
func (l *pendingCalls) attend(p *pendingCall) (message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.out {
		return pendingNoRoom
	}
	p.waits = 0
	return ""
}

// remove removes a call. find returns message to later requests for this call.
func (l *pendingCalls) remove(p *pendingCall, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(p, message)
}

// drop works like [pendingCalls.remove]. The caller holds the lock.
func (l *pendingCalls) drop(p *pendingCall, message string) {
	if l.calls[p.id] != p {
		return
	}
	delete(l.calls, p.id)
	l.count(p, -1, 0)
	l.ended[p.id] = message
	if l.order = append(l.order, p.id); len(l.order) > maxEnded {
		delete(l.ended, l.order[0])
		l.order = l.order[1:]
	}
}

// count adds calls and bytes to the agent of p. The caller holds the lock.
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

// cancelOne cancels a waiting call to make room for p, and reports whether it found such a call.
// The room is counted in calls or in bytes: size returns how much a call uses, and p needs more.
// The caller holds the lock.
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
	go o.abandon(pendingNoRoom) // abandon locks o.mu and then l.mu, which the caller holds
	return true
}

// find returns a waiting call, or a text that says why the call does not wait.
func (l *pendingCalls) find(id, process string) (p *pendingCall, message string) {
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

// reserve reserves n bytes for a call, and reports whether they were available.
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

// free releases up to n bytes of a call.
func (l *pendingCalls) free(p *pendingCall, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(p, 0, -min(n, p.kept))
}

// freeAll releases all bytes of a call.
func (l *pendingCalls) freeAll(p *pendingCall) { l.free(p, maxPendingBytes) }

// Texts for an agent that answers a question of a call that no longer waits for this answer.
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
