// Package login keeps who is signed in at /admin with a browser, in the memory of one
// process: on a machine without other accounts, the person who can read the
// gateway's terminal or its folder is the one who may decide.
//
// A browser sends no key by itself, and a link that signed in by being opened would be
// used up by whatever opens it first: a preview, a prefetch. So a link carries a code that
// is good once and for minutes, and a form trades the code for a session.
package login

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/token"
)

const (
	codeLife    = 10 * time.Minute
	idleLife    = time.Hour     // of a session that is not used
	sessionLife = 8 * time.Hour // of any session

	maxCodes    = 16
	maxSessions = 64
)

// A digest stands for a secret. Secrets are looked up by it, so that the time of a look-up
// says nothing of them.
type digest [sha256.Size]byte

// Sessions are the people who are signed in, and the codes by which one may sign in. They
// end with the process. It is safe for concurrent use.
type Sessions struct {
	key   digest
	actor string
	now   func() time.Time

	mu    sync.Mutex
	codes map[digest]times
	open  map[digest]times // sessions
}

// times are when something was made, and last used.
type times struct{ made, used time.Time }

// New returns the sessions of a machine where one admin key opens /admin to one person,
// whom the audit names. A nil now is time.Now.
func New(key secret.Text, actor string, now func() time.Time) *Sessions {
	if now == nil {
		now = time.Now
	}
	return &Sessions{key: sum(key.Reveal()), actor: actor, now: now, codes: map[digest]times{}, open: map[digest]times{}}
}

// Code makes a code that signs one person in, once, within ten minutes. Beyond some codes
// the oldest ends.
func (s *Sessions) Code() string {
	code := token.Random()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	s.add(s.codes, code, maxCodes)
	return code
}

// Takes reports whether the code would sign somebody in now. It does not use it up.
func (s *Sessions) Takes(code string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	_, ok := s.codes[sum(code)]
	return ok
}

// SignIn trades a code, which is used up, or the admin key for a new session and returns
// its text; ok is false if secret is neither. Beyond some sessions the one longest unused ends.
func (s *Sessions) SignIn(secret string) (text string, ok bool) {
	d := sum(secret)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	if _, ok = s.codes[d]; !ok && d != s.key {
		return "", false
	}
	delete(s.codes, d)
	text = token.Random()
	s.add(s.open, text, maxSessions)
	return text, true
}

// Actor returns whose session it is, and keeps it from ending for want of use.
func (s *Sessions) Actor(text string) (actor string, ok bool) {
	d := sum(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	x, ok := s.open[d]
	if !ok {
		return "", false
	}
	x.used = s.now()
	s.open[d] = x
	return s.actor, true
}

// SignOut ends a session.
func (s *Sessions) SignOut(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, sum(text))
}

// sweep forgets what is over. The clock that a code was made by is the process's own, which
// no change of the machine's clock moves.
func (s *Sessions) sweep() {
	now := s.now()
	maps.DeleteFunc(s.codes, func(_ digest, t times) bool { return now.Sub(t.made) >= codeLife })
	maps.DeleteFunc(s.open, func(_ digest, t times) bool { return now.Sub(t.used) >= idleLife || now.Sub(t.made) >= sessionLife })
}

// add adds a code or a session. If there are as many as may be, the one longest unused goes.
func (s *Sessions) add(to map[digest]times, text string, most int) {
	if len(to) >= most {
		delete(to, slices.MinFunc(slices.Collect(maps.Keys(to)), func(a, b digest) int { return to[a].used.Compare(to[b].used) }))
	}
	to[sum(text)] = times{s.now(), s.now()}
}

func sum(secret string) digest { return sha256.Sum256([]byte(secret)) }
