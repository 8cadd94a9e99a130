package mcphttp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// Bounds on what is remembered of sessions.
const (
	maxLiveSessions = 10_000 // sessions of which something is remembered while none of their requests is open
	maxQuestions    = 16     // to one session that are open at once
)

var errTooManyQuestions = errors.New("too many questions to this client are open")

// liveSessions is what one process knows of the sessions of its clients, where it answers all of
// their requests: which of them are open, what the client was asked, which log messages it wants. A
// nil *live is that of a function, whose next instance would know nothing of it.
type liveSessions struct {
	ended *EndedSessions

	mu       sync.Mutex
	sessions map[string]*liveSession // by id
}

// liveSession is what is known of one session.
type liveSession struct {
	expires time.Time
	level   mcp.LogLevel   // of log messages that it wants; 0: it has not said
	watched resourceHashes // resources that it wants to be told of

	calls     map[*request]struct{}        // open ones; a careless client gives several one id
	questions map[string]chan<- mcp.Answer // open ones, by our id
	held      []*notifyStream              // streams that are held open, the newest last
}

// idle reports whether nothing of the session is open.
func (s *liveSession) idle() bool {
	return len(s.calls) == 0 && len(s.questions) == 0 && len(s.held) == 0
}

// of returns what is known of a session. The lock is held.
func (l *liveSessions) of(t *sessionID) *liveSession {
	if s := l.sessions[t.id]; s != nil {
		return s
	}
	if l.sessions == nil {
		l.sessions = map[string]*liveSession{}
	}
	if len(l.sessions) >= maxLiveSessions {
		l.forgetOne()
	}
	s := &liveSession{expires: t.expires, calls: map[*request]struct{}{}, questions: map[string]chan<- mcp.Answer{}}
	l.sessions[t.id] = s
	return s
}

// forgetOne makes room: of those that are idle it is one that has expired, if a few looks find one.
func (l *liveSessions) forgetOne() {
	const looks = 32
	n, found := 0, ""
	for id, s := range l.sessions {
		if !s.idle() {
			continue
		}
		found = id
		if n++; n == looks || s.expires.Before(time.Now()) {
			break
		}
	}
	delete(l.sessions, found)
}

// settle forgets a session of which nothing is left to know. The lock is held.
func (l *liveSessions) settle(id string) {
	if s := l.sessions[id]; s != nil && s.idle() && s.level == 0 && len(s.watched) == 0 {
		delete(l.sessions, id)
	}
}

// enter notes that a request of a session is open, and leave that it is not any more.
func (l *liveSessions) enter(q *request) {
	if l == nil || q.token == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of(q.token)
	s.calls[q] = struct{}{}
	if ended, _ := l.ended.has(q.token); ended { // since its id was read
		q.abandon()
	}
}

func (l *liveSessions) leave(q *request) {
	if l == nil || q.token == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.sessions[q.token.id]; s != nil {
		delete(s.calls, q)
		l.settle(q.token.id)
	}
}

// idKey returns what two writings of one request id have in common.
func idKey(id json.RawMessage) string {
	if len(id) > 0 && id[0] == '"' {
		return `"` + rawjson.Text(id)
	}
	return string(id)
}

// cancel ends what is open of a session under this request id.
func (l *liveSessions) cancel(t *sessionID, requestID json.RawMessage) {
	if l == nil || t == nil || len(requestID) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sessions[t.id]
	if s == nil {
		return
	}
	key := idKey(requestID)
	for q := range s.calls {
		if idKey(q.msg.ID) == key {
			q.abandon()
		}
	}
}

// setLevel notes which log messages a session wants.
func (l *liveSessions) setLevel(t *sessionID, level mcp.LogLevel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(t).level = level
}

// level returns which log messages a session wants.
func (l *liveSessions) level(t *sessionID) mcp.LogLevel {
	if l != nil && t != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s := l.sessions[t.id]; s != nil && s.level != 0 {
			return s.level
		}
	}
	return mcp.ParseLogLevel("info")
}

// end abandons what is open of a session.
func (l *liveSessions) end(t *sessionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sessions[t.id]
	if s == nil {
		return
	}
	s.level, s.watched = 0, nil
	for q := range s.calls {
		q.abandon()
	}
	for _, h := range s.held {
		h.end()
	}
	l.settle(t.id)
}

// question opens a question to a session. Its answer comes once, if ever; done closes the question.
func (l *liveSessions) question(t *sessionID) (id string, answer <-chan mcp.Answer, done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of(t)
	if len(s.questions) >= maxQuestions {
		return "", nil, nil, errTooManyQuestions
	}
	id = rand.Text() // nobody else can answer it
	c := make(chan mcp.Answer, 1)
	s.questions[id] = c
	return id, c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(s.questions, id)
		l.settle(t.id)
	}, nil
}

// answered hands a client's answer to whoever waits for it. Of one to which nobody asked, or
// that was answered before, nothing becomes.
func (l *liveSessions) answered(t *sessionID, id json.RawMessage, a mcp.Answer) {
	if l == nil || t == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sessions[t.id]
	if s == nil || id[0] != '"' {
		return
	}
	key := rawjson.Text(id)
	if c := s.questions[key]; c != nil {
		delete(s.questions, key)
		c <- a // it has room for one
	}
}

// abandon ends the work on a request whose answer its client does not want any more.
func (q *request) abandon() {
	q.abandoned.Store(true)
	q.cancel()
}

// ask asks the client of a call, on the stream that its answer will come on; see [mcp.Client].
func (q *request) ask(ctx context.Context, l *liveSessions, method string, params json.RawMessage) (json.RawMessage, error) {
	if refused := mcp.UndeclaredQuestion(method, params, q.token.capabilities.bytes()); refused != nil {
		return nil, refused
	}
	id, answer, done, err := l.question(q.token)
	if err != nil {
		return nil, err
	}
	defer done()
	message := rawjson.Object{
		{Name: "jsonrpc", Value: json.RawMessage(`"2.0"`)}, {Name: "id", Value: rawjson.Quote(id)}, {Name: "method", Value: rawjson.Quote(method)},
	}
	if len(params) > 0 {
		message.Add("params", params)
	}
	if !q.stream.ask(message.Bytes()) {
		return nil, errors.New("the question cannot be sent to the client")
	}
	ctx, cancel := context.WithTimeout(ctx, mcp.AskTime)
	defer cancel()
	select {
	case a := <-answer:
		if a.Err != nil {
			return nil, a.Err
		}
		return a.Result, nil
	case <-ctx.Done():
		q.stream.withdraw(id)
		return nil, ctx.Err()
	}
}
