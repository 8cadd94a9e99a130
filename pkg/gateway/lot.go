package gateway

import (
	"crypto/rand"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/session"
)

// Bounds on what waits for clients.
const (
	maxParked       = 128      // calls
	maxParkedCaller = 16       // of one agent, or one user of it
	maxParkedBytes  = 32 << 20 // of their questions, and of results that nobody has fetched
	maxEnded        = 1024     // calls that are over, of which it is known how they ended
)

// A lot holds the calls that wait for their client to come back with an answer.
type lot struct {
	process string // of this process, as chance named it: another one's calls are gone with it

	mu       sync.Mutex
	calls    map[string]*parked
	byCaller map[session.Owner]int // how many
	bytes    int
	ended    map[string]string // what is said of calls that are over, by id
	order    []string          // their ids, the oldest first
}

func newLot() *lot {
	return &lot{process: rand.Text(), calls: map[string]*parked{}, byCaller: map[session.Owner]int{}, ended: map[string]string{}}
}

// add takes a call in, and reports whether there was room.
func (l *lot) add(p *parked) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) >= maxParked || l.byCaller[p.caller] >= maxParkedCaller {
		return false
	}
	l.calls[p.id] = p
	l.byCaller[p.caller]++
	return true
}

// remove takes a call out. said is what whoever comes back later is told.
func (l *lot) remove(p *parked, said string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[p.id] != p {
		return
	}
	delete(l.calls, p.id)
	if l.byCaller[p.caller]--; l.byCaller[p.caller] == 0 {
		delete(l.byCaller, p.caller)
	}
	l.ended[p.id] = said
	if l.order = append(l.order, p.id); len(l.order) > maxEnded {
		delete(l.ended, l.order[0])
		l.order = l.order[1:]
	}
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

// reserve takes n bytes of what may be kept, and reports whether they were there.
func (l *lot) reserve(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes+n > maxParkedBytes {
		return false
	}
	l.bytes += n
	return true
}

func (l *lot) free(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= n
}

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
	parkedLocked = "The tool is locked now, and the gateway cancelled the call. No request was sent. " +
		"The earlier call may have had side effects."
)
