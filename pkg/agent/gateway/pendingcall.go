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

// A pendingCall is a call of a stateless client to a server of the handshake protocol, which may
// ask questions during a call. The gateway answers the client's request with the question and keeps
// the call open. The client's next request has the answer, and waits for another question or the
// result.
type pendingCall struct {
	g      *Gateway
	id     string
	agent  string // key of the agent for counting
	target upstream.Target
	call   upstream.Call
	cancel context.CancelFunc
	news   chan struct{} // gets a token after each question, and at the end of the call
	timer  *time.Timer   // ends a call whose client does not come back

	mu       sync.Mutex
	client   mcp.Client         // of the current or last request
	attended bool               // a request waits for the result
	gone     bool               // no request can use the call any more
	round    int                // how many times it has asked
	asked    int                // the number of questions
	open     []*pendingQuestion // in their order
	done     bool
	result   json.RawMessage
	err      error

	// The lock of pendingCalls guards the fields below.
	kept  int   // reserved bytes
	waits int64 // number of the call's current wait for its client; 0: a request has the call
	out   bool  // cancelled to make room
}

// A pendingQuestion is a question without an answer.
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

// resume passes the client's answers to a pending call, and returns its result or its next
// questions.
func (s *Session) resume(ctx context.Context, st inputState, answers map[string]json.RawMessage, c upstream.Call) (json.RawMessage, error) {
	p, refusal := s.g.pending.find(st.CallID, st.Process)
	if p == nil {
		return nil, &inputError{refusal}
	}
	if refusal = p.take(st.Round, c.Client, answers); refusal != "" {
		return nil, &inputError{refusal}
	}
	return s.await(ctx, p, false)
}

// take attaches a request to the call; the request has the answers to the last questions. If
// another request has or had the call, take returns the text about that.
func (p *pendingCall) take(round int, c mcp.Client, answers map[string]json.RawMessage) (why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.gone: // the call ended after find
		_, why = p.g.pending.find(p.id, p.g.pending.process)
		return why
	case p.attended:
		return pendingAnswered
	case p.round != round:
		return pendingAskedAnew
	case !p.timer.Stop():
		return pendingExpired
	}
	if why = p.g.pending.attend(p); why != "" {
		return why
	}
	p.attended, p.client = true, c
	left := p.open[:0]
	for _, q := range p.open {
		if a := answers[q.key]; a != nil {
			q.answer <- a // the buffer has room for one answer
			p.g.pending.free(p, len(q.request))
		} else {
			left = append(left, q)
		}
	}
	clear(p.open[len(left):])
	p.open = left
	if len(left) > 0 {
		p.tell() // missing answers are requested again
	}
	return ""
}

// await waits for the result or a question. If the request ends before that, await cancels the
// call. made is true if this request made the call.
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
			return s.sealQuestion(ctx, p.target, p.call, raw)
		}
		round, requests := p.round+1, p.questions()
		p.mu.Unlock()
		if len(requests) == 0 {
			continue
		}
		state, message := s.sealState(ctx, inputState{Bound: callHash(p.target, p.call), CallID: p.id, Process: s.g.pending.process, Round: round})
		switch {
		case message == "" && round > maxPendingRounds:
			message = askTooOften
		case message == "" && !p.leave():
			message = askTooMany
		}
		if message != "" {
			p.abandon(message)
			return nil, &inputError{message}
		}
		s.notePending(ctx, p, made, nil)
		s.event.Outcome = audit.InputRequired
		return inputRequired(requests, state), nil
	}
}

const (
	// maxPendingRounds is how many times a call may ask before the gateway cancels it.
	maxPendingRounds = 2 * maxRequests

	askTooMany = "The tool asks for input, but too many calls wait for input already. The gateway cancelled the call. " + sideEffects
)

// questions returns the open questions for a client. The caller holds the lock.
func (p *pendingCall) questions() (requests rawjson.Object) {
	for _, q := range p.open {
		requests.Add(q.key, q.request)
	}
	return requests
}

// leave makes the call wait for its client's next request, and reports whether there was room.
func (p *pendingCall) leave() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.g.pending.add(p) {
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
		p.tell() // the call has just ended: the next request gets the result
	}
	return true
}

// expire ends a call whose client did not come back.
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

// ask implements [mcp.Client]: it sends a question to the current or next request, and waits for
// the answer.
func (p *pendingCall) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	request := mcp.InputRequest(method, params)
	p.mu.Lock()
	if refused := mcp.UndeclaredQuestion(method, params, p.client.Capabilities); refused != nil {
		p.mu.Unlock()
		return nil, refused
	}
	if p.gone || !p.g.pending.reserve(p, len(request)) {
		p.mu.Unlock()
		return nil, errors.New("too many questions wait for clients")
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
			p.endUnattended()
		}
		return nil, ctx.Err()
	}
}

// withdraw removes a question that needs no answer any more.
func (p *pendingCall) withdraw(q *pendingQuestion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range p.open {
		if o == q {
			p.open = append(p.open[:i], p.open[i+1:]...)
			p.g.pending.free(p, len(q.request))
			return
		}
	}
}

// endUnattended ends the call if no request waits for it, because nobody answered its question in
// time.
func (p *pendingCall) endUnattended() {
	p.mu.Lock()
	waits := p.attended
	p.mu.Unlock()
	if !waits {
		p.abandon(pendingExpired)
	}
}

// notify implements [mcp.Client]. Notifications are lost while no request waits, as with a
// disconnected client.
func (p *pendingCall) notify(method string, params rawjson.Object) {
	p.mu.Lock() // no notification may follow the answer of its request
	defer p.mu.Unlock()
	if p.attended && p.client.Notify != nil {
		p.client.Notify(method, params)
	}
}

// end records how the call ended. It keeps the result for the next request, if there is room.
func (p *pendingCall) end(raw json.RawMessage, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.attended && !p.g.pending.reserve(p, len(raw)) {
		raw, err = nil, &outcome.CallError{Delivered: true, Limit: maxPendingBytesOfAgent, Outcome: outcome.Outcome{
			ServerID: p.target.ID, Status: outcome.Available, Reason: outcome.ReasonTooLarge,
		}}
	}
	p.done, p.result, p.err = true, raw, err
	p.tell()
}

// abandon cancels the call, and its server gets a cancellation.
func (p *pendingCall) abandon(message string) {
	p.cancel()
	p.forget(message)
}

// forget removes the call from the pending calls.
func (p *pendingCall) forget(message string) {
	p.mu.Lock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.gone, p.attended = true, true // no request: later messages are dropped
	p.client = mcp.Client{}
	p.g.pending.freeAll(p)
	p.mu.Unlock()
	p.g.pending.remove(p, message)
}

// tell signals news. The caller holds the lock.
func (p *pendingCall) tell() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// cancelPending cancels the pending call of a request, because its tool is locked now.
func (s *Session) cancelPending(ctx context.Context, t upstream.Target, c upstream.Call) {
	state := c.Rest.Get(requestState)
	if state == nil || !s.caller.Modern {
		return
	}
	st, _, err := s.openState(ctx, state, callHash(t, c))
	if err != nil || st.CallID == "" {
		return
	}
	if p, _ := s.g.pending.find(st.CallID, st.Process); p != nil {
		p.abandon(pendingLocked)
	}
}
