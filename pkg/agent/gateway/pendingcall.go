package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A pendingCall is one of a stateless client to a server of the handshake protocol, which asks in
// the middle of it. The request is answered with the question, the call stays open, and the request
// that comes back with the answer waits for what comes next.
type pendingCall struct {
	g      *Gateway
	id     string
	agent  string // the key under which the calls of its agent are counted
	target upstream.Target
	call   upstream.Call
	cancel context.CancelFunc
	news   chan struct{} // holds a token after a question or the end
	timer  *time.Timer   // ends the call to which nobody comes back

	mu       sync.Mutex
	client   mcp.Client         // of the request that waits now, or did last
	attended bool               // a request waits
	gone     bool               // it is over, for whoever comes back
	round    int                // how often it has asked
	asked    int                // questions that were numbered
	open     []*pendingQuestion // in the order in which they came
	done     bool
	result   json.RawMessage
	err      error

	// What follows is the pending calls', and guarded by its lock.
	kept  int   // bytes that are reserved for it
	waits int64 // number of its wait for the client that lasts; 0: a request has it
	out   bool  // it was cancelled to make room
}

// A pendingQuestion is a question that waits for its answer.
type pendingQuestion struct {
	key     string
	request json.RawMessage
	answer  chan json.RawMessage
}

// startPending makes a call that can wait for its client, and returns its result or its first
// questions.
func (s *Session) startPending(ctx context.Context, t upstream.Target, c upstream.Call) (json.RawMessage, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &pendingCall{
		g: s.g, id: rand.Text(), agent: c.Owner.QuotaKey(), target: t, call: c, cancel: cancel,
		news: make(chan struct{}, 1), client: c.Client, attended: true,
	}
	s.event.Counts.Called = s.target
	c.Client.Ask = p.ask
	if c.Client.Notify != nil {
		c.Client.Notify = p.notify
	}
	go func() {
		defer cancel()
		p.end(s.whileGoing(own, t, func(ctx context.Context) (json.RawMessage, error) { return s.g.up.Call(ctx, t, c) }))
	}()
	return s.await(ctx, p, true)
}

// resume brings a pending call the answers of its client, and returns its result or its next
// questions.
func (s *Session) resume(ctx context.Context, st inputState, answers map[string]json.RawMessage, c upstream.Call) (json.RawMessage, error) {
	p, said := s.g.lot.find(st.Parked, st.Process)
	if p == nil {
		return nil, &notAsked{said}
	}
	if said = p.take(st.Round, c.Client, answers); said != "" {
		return nil, &notAsked{said}
	}
	return s.await(ctx, p, false)
}

// take gives the call to a request that comes back with the answers to what was asked last. If another
// request has it, or had, it returns what is said of that.
func (p *pendingCall) take(round int, c mcp.Client, answers map[string]json.RawMessage) (said string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.gone: // since it was found
		_, said = p.g.lot.find(p.id, p.g.lot.process)
		return said
	case p.attended:
		return pendingAnswered
	case p.round != round:
		return pendingAskedAnew
	case !p.timer.Stop():
		return pendingExpired
	}
	if said = p.g.lot.attend(p); said != "" {
		return said
	}
	p.attended, p.client = true, c
	left := p.open[:0]
	for _, q := range p.open {
		if a := answers[q.key]; a != nil {
			q.answer <- a // it has room for one
			p.g.lot.free(p, len(q.request))
		} else {
			left = append(left, q)
		}
	}
	clear(p.open[len(left):])
	p.open = left
	if len(left) > 0 {
		p.tell() // what is missing is asked again
	}
	return ""
}

// await waits for what comes next: the result, a question, or the end of the request, which
// ends the call. made says that this request made the call.
func (s *Session) await(ctx context.Context, p *pendingCall, made bool) (json.RawMessage, error) {
	for {
		select {
		case <-p.news:
		case <-ctx.Done():
			p.abandon(pendingLeft)
			s.notePending(ctx, p, made, ctx.Err())
			return nil, interrupted(ctx, p.target, p.call)
		}
		p.mu.Lock()
		if p.done {
			raw, err := p.result, p.err
			p.mu.Unlock()
			s.notePending(ctx, p, made, err)
			p.forget(pendingAnswered)
			if err != nil {
				return nil, err
			}
			return s.sealed(ctx, p.target, p.call, raw)
		}
		round, requests := p.round+1, p.questions()
		p.mu.Unlock()
		if len(requests) == 0 {
			continue
		}
		state, message := s.sealState(ctx, inputState{Bound: bound(p.target, p.call), Parked: p.id, Process: s.g.lot.process, Round: round})
		switch {
		case message == "" && round > maxPendingRounds:
			message = askTooOften
		case message == "" && !p.leave():
			message = askTooMany
		}
		if message != "" {
			p.abandon(askTooMany)
			return nil, &notAsked{message}
		}
		s.notePending(ctx, p, made, nil)
		s.event.Outcome = audit.Asked
		return inputRequired(requests, state), nil
	}
}

const (
	// maxPendingRounds is how often a call may ask before it is given up.
	maxPendingRounds = 2 * maxRequests

	askTooMany = "The tool asks for input, but too many calls wait for input already. The gateway cancelled the call. " + sideEffects
)

// questions returns what is to be asked. The lock is held.
func (p *pendingCall) questions() (requests rawjson.Object) {
	for _, q := range p.open {
		requests.Add(q.key, q.request)
	}
	return requests
}

// leave leaves the call to wait for its client. It reports whether there was room for it.
func (p *pendingCall) leave() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.g.lot.add(p) {
		return false
	}
	p.attended = false
	p.round++
	if p.timer == nil {
		p.timer = time.AfterFunc(mcp.AskTime, p.expire)
	} else {
		p.timer.Reset(mcp.AskTime)
	}
	if p.done {
		p.tell() // it ended just now: whoever comes back finds it
	}
	return true
}

// expire ends a call to which nobody came back.
func (p *pendingCall) expire() {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	if done {
		p.forget(pendingUnfetched)
		return
	}
	p.abandon(pendingExpired)
}

// ask is the [mcp.Client]'s: it asks whoever waits, or comes back, and waits for the answer.
func (p *pendingCall) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	request := mcp.InputRequest(method, params)
	p.mu.Lock()
	if refused := mcp.UndeclaredQuestion(method, params, p.client.Capabilities); refused != nil {
		p.mu.Unlock()
		return nil, refused
	}
	if p.gone || !p.g.lot.reserve(p, len(request)) {
		p.mu.Unlock()
		return nil, errors.New("too much is asked of clients that do not answer")
	}
	p.asked++
	q := &pendingQuestion{key: "question-" + strconv.Itoa(p.asked), request: request, answer: make(chan json.RawMessage, 1)}
	p.open = append(p.open, q)
	p.tell()
	p.mu.Unlock()
	select {
	case a := <-q.answer:
		return a, nil
	case <-ctx.Done():
		p.withdraw(q)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			p.unattended()
		}
		return nil, ctx.Err()
	}
}

// withdraw forgets a question that needs no answer any more.
func (p *pendingCall) withdraw(q *pendingQuestion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range p.open {
		if o == q {
			p.open = append(p.open[:i], p.open[i+1:]...)
			p.g.lot.free(p, len(q.request))
			return
		}
	}
}

// unattended ends the call if nobody waits for it: its question was not answered, and is not from now on.
func (p *pendingCall) unattended() {
	p.mu.Lock()
	waits := p.attended
	p.mu.Unlock()
	if !waits {
		p.abandon(pendingExpired)
	}
}

// notify is the [mcp.Client]'s: what is said while nobody waits is lost, as with a client that is gone.
func (p *pendingCall) notify(method string, params rawjson.Object) {
	p.mu.Lock() // so that nothing is told to a request that has its answer
	defer p.mu.Unlock()
	if p.attended && p.client.Notify != nil {
		p.client.Notify(method, params)
	}
}

// end takes how the call ended. The result is kept for whoever comes back, if there is room.
func (p *pendingCall) end(raw json.RawMessage, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.attended && !p.g.lot.reserve(p, len(raw)) {
		raw, err = nil, &outcome.CallError{Delivered: true, Limit: maxPendingBytesOfAgent, Outcome: outcome.Outcome{
			ServerID: p.target.ID, Status: outcome.Available, Reason: outcome.ReasonTooLarge,
		}}
	}
	p.done, p.result, p.err = true, raw, err
	p.tell()
}

// abandon cancels the call, whose server is told.
func (p *pendingCall) abandon(said string) {
	p.cancel()
	p.forget(said)
}

// forget takes the call out of the pending calls.
func (p *pendingCall) forget(said string) {
	p.mu.Lock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.gone, p.attended = true, true // by nobody: what comes now is not kept
	p.client = mcp.Client{}
	p.g.lot.freeAll(p)
	p.mu.Unlock()
	p.g.lot.remove(p, said)
}

// tell says that there is news. The lock is held.
func (p *pendingCall) tell() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// cancelPending cancels the pending call that a request comes back to, because its tool is locked
// now.
func (s *Session) cancelPending(ctx context.Context, t upstream.Target, c upstream.Call) {
	state := c.Rest.Get(requestState)
	if state == nil || !s.caller.Modern {
		return
	}
	st, _, err := s.openState(ctx, state, bound(t, c))
	if err != nil || st.Parked == "" {
		return
	}
	if p, _ := s.g.lot.find(st.Parked, st.Process); p != nil {
		p.abandon(pendingLocked)
	}
}
