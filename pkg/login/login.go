// Package login keeps who is signed in at /admin with a browser, in the memory of one
// process: on a machine where nobody else tells people apart, whoever reads the
// gateway's terminal or its folder is the one who may decide.
//
// A browser sends no key by itself, and a link that signed in by being opened would be
// used up by whatever opens it first: a preview, a prefetch. So a link carries a code that
// is good once and for minutes, and a form trades the code for a session.
package login

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/token"
)

const (
	codeLife    = 10 * time.Minute
	idleLife    = time.Hour     // of a session that nobody uses
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
	codes map[digest]time.Time // when it was made
	open  map[digest]session
}

type session struct{ began, used time.Time }

// New returns the sessions of a machine where one admin key opens /admin to one person,
// whom the audit names. A nil now is time.Now.
func New(key secret.Text, actor string, now func() time.Time) *Sessions {
	if now == nil {
		now = time.Now
	}
	return &Sessions{key: sum(key.Reveal()), actor: actor, now: now, codes: map[digest]time.Time{}, open: map[digest]session{}}
}

// Code makes a code that signs one person in, once, within ten minutes. Beyond some codes
// the oldest ends.
func (s *Sessions) Code() string {
	code := token.Random()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	if len(s.codes) >= maxCodes {
		delete(s.codes, oldest(s.codes, func(t time.Time) time.Time { return t }))
	}
	s.codes[sum(code)] = s.now()
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
	if len(s.open) >= maxSessions {
		delete(s.open, oldest(s.open, func(x session) time.Time { return x.used }))
	}
	text = token.Random()
	s.open[sum(text)] = session{s.now(), s.now()}
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
	for d, made := range s.codes {
		if now.Sub(made) >= codeLife {
			delete(s.codes, d)
		}
	}
	for d, x := range s.open {
		if now.Sub(x.used) >= idleLife || now.Sub(x.began) >= sessionLife {
			delete(s.open, d)
		}
	}
}

func sum(secret string) digest { return sha256.Sum256([]byte(secret)) }

// oldest returns the key of the value with the earliest time.
func oldest[V any](m map[digest]V, at func(V) time.Time) (key digest) {
	var first time.Time
	for d, v := range m {
		if t := at(v); first.IsZero() || t.Before(first) {
			key, first = d, t
		}
	}
	return key
}
