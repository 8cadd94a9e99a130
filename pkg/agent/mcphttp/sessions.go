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

// Limits for the state of sessions.
const (
	maxLiveSessions = 10_000 // sessions with state but without an open request
	maxQuestions    = 16     // open questions to one session
)

var errTooManyQuestions = errors.New("too many questions to this client are open")

// liveSessions is the state of clients' sessions in a process that answers all of their requests:
// open requests, questions to the clients, and log levels. A function has a nil *liveSessions,
// because another instance of the function would not have the state.
type liveSessions struct {
	ended *EndedSessions

	mu       sync.Mutex
	sessions map[string]*liveSession // by id
}

// liveSession is the state of one session.
type liveSession struct {
	expires time.Time
	level   mcp.LogLevel   // the lowest level that the client wants; 0: not set
	watched resourceHashes // subscribed resources

	calls     map[*request]struct{}        // open requests; a careless client repeats ids
	questions map[string]chan<- mcp.Answer // open questions, by the gateway's id
	streams   []*notifyStream              // open streams, the newest last
}

// idle reports whether the session has nothing open.
func (s *liveSession) idle() bool {
	return len(s.calls) == 0 && len(s.questions) == 0 && len(s.streams) == 0
}

// get returns the state of a session. The caller holds the lock.
func (l *liveSessions) get(t *sessionID) *liveSession {
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

// forgetOne removes an idle session to make room. It looks at a few sessions, and prefers an
// expired session.
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

// settle removes a session if it has no state. The caller holds the lock.
func (l *liveSessions) settle(id string) {
	if s := l.sessions[id]; s != nil && s.idle() && s.level == 0 && len(s.watched) == 0 {
		delete(l.sessions, id)
	}
}

// enter registers an open request of a session; leave unregisters it.
func (l *liveSessions) enter(q *request) {
	if l == nil || q.token == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.get(q.token)
	s.calls[q] = struct{}{}
	if ended, _ := l.ended.has(q.token); ended { // the session ended after its id was read
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

// idKey returns the same key for two spellings of one request id.
func idKey(id json.RawMessage) string {
	if len(id) > 0 && id[0] == '"' {
		return `"` + rawjson.Text(id)
	}
	return string(id)
}

// cancel cancels the session's open requests with an id.
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

// setLevel sets the log level of a session.
func (l *liveSessions) setLevel(t *sessionID, level mcp.LogLevel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.get(t).level = level
}

// level returns the log level of a session.
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

// end abandons everything that is open in a session.
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
	for _, h := range s.streams {
		h.end()
	}
	l.settle(t.id)
}

// question opens a question to a session. answer receives at most one answer; done closes the
// question.
func (l *liveSessions) question(t *sessionID) (id string, answer <-chan mcp.Answer, done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.get(t)
	if len(s.questions) >= maxQuestions {
		return "", nil, nil, errTooManyQuestions
	}
	id = rand.Text() // nobody else can guess it
	c := make(chan mcp.Answer, 1)
	s.questions[id] = c
	return id, c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(s.questions, id)
		l.settle(t.id)
	}, nil
}

// passAnswer passes a client's answer to its question. It drops an answer without an open question.
func (l *liveSessions) passAnswer(t *sessionID, id json.RawMessage, a mcp.Answer) {
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
		c <- a // the buffer has room for one answer
	}
}

// abandon ends the work on a request, because its client no longer wants the answer.
func (q *request) abandon() {
	q.abandoned.Store(true)
	q.cancel()
}

// ask sends a question to the client of a call, on the stream of the call's answer; see
// [mcp.Client].
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
