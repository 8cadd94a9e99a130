// Package signin signs people in at /admin and stores their sessions, which all instances of the
// gateway share. People sign in at an OpenID Connect issuer by the authorization code flow with
// PKCE (RFC 7636). The owner of a gateway on one machine signs in with a one-time code.
//
// The cookie of a session has 256 random bits. The store has their keyed hash, so nobody can sign
// in with a copy of the store. Each request reads the store with strong consistency, so the end of
// a session and the revocation of its agent token take effect in all instances. After a
// sign-in at an issuer, the session has those groups of the person that have a role in the config.
// Each request computes the rights from these groups.
//
// The issuer sends the browser back with a code, which the gateway exchanges for an ID token.
// During a sign-in, the gateway stores nothing, so any instance can finish the sign-in. A sealed
// cookie binds the answer to the browser. The gateway does not store the issuer's tokens.
package signin

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

const (
	idleLife    = time.Hour     // lifetime of a session after its last use
	sessionLife = 8 * time.Hour // lifetime of a session after the sign-in
	touchEvery  = 5 * time.Minute

	maxOwn     = 16  // maximum sessions of one person
	maxAll     = 512 // maximum sessions of all people; simultaneous requests may exceed it a little
	maxBrowser = 160 // maximum characters of a user agent

	storeTime = 5 * time.Second // how long a request waits for the stores
)

// SessionOptions configure [Sessions]. The zero value accepts no session that began with a token.
type SessionOptions struct {
	Tokens    *token.Store     // of agent tokens; nil: there are none
	Bootstrap string           // SHA-256 of the bootstrap token, as hex; "": there is none
	Client    string           // issuer, and the gateway's client id there; "": none
	Now       func() time.Time // nil: time.Now
	Log       *slog.Logger     // nil: none
}

// Sessions opens, finds and ends the sessions of one gateway. It is safe for concurrent use.
type Sessions struct {
	store *Store
	key   token.Key
	o     SessionOptions
}

// NewSessions returns the sessions in a store. key makes the hashes of cookies, so a new key
// ends all sessions. NewSessions does not call the store.
func NewSessions(store *Store, key token.Key, o *SessionOptions) *Sessions {
	s := &Sessions{store: store, key: key}
	if o != nil {
		s.o = *o
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if s.o.Log == nil {
		s.o.Log = slog.New(slog.DiscardHandler)
	}
	return s
}

// A Person is a person who signs in.
type Person struct {
	Actor string // name in the audit
	Way   string // one of the ways
	Token string // id of the agent token, if Way is WayToken

	// Only for sign-ins at an issuer.
	Subject string   // the issuer's identifier of the person
	Groups  []string // groups of the person that have a role in the config
}

// Open opens a session with a browser that has this user agent, and returns the value of its
// cookie. If the person has too many sessions, Open ends the session that was unused for the
// longest time.
func (s *Sessions) Open(ctx context.Context, p Person, browser string) (cookie secret.Text, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	now := s.o.Now().UTC()
	cookie = secret.New(token.Random())
	x := Session{
		ID: s.id(cookie), Actor: p.Actor, Way: p.Way, Token: p.Token, Subject: p.Subject, Groups: p.Groups,
		Browser: text.Clip(text.Line(browser), maxBrowser), Created: now, Used: now,
	}
	switch p.Way {
	case WayBootstrap:
		x.Token = s.bootstrapID()
	case WayOIDC:
		x.Token = s.clientID()
	}
	if err := s.makeRoom(ctx, x); err != nil {
		return cookie, err
	}
	x.Expires = x.end()
	_, err = s.store.Put(ctx, x)
	return cookie, err
}

// end returns the time at which s expires without further use.
func (s Session) end() time.Time {
	idle, most := s.Used.Add(idleLife), s.Created.Add(sessionLife)
	if most.Before(idle) {
		return most
	}
	return idle
}

// makeRoom ends sessions until next can be opened within the limits.
func (s *Sessions) makeRoom(ctx context.Context, next Session) error {
	all, err := s.store.List(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b Session) int { return b.Used.Compare(a.Used) })
	own := 0
	for i, x := range all {
		if x.SamePerson(next) {
			own++
		}
		if x.SamePerson(next) && own >= maxOwn || i+1 >= maxAll {
			err = errors.Join(err, s.store.Delete(ctx, x.ID))
		}
	}
	return err
}

// Find does what [Sessions.Look] does, and also stores the time of use, at most every five minutes.
func (s *Sessions) Find(ctx context.Context, cookie secret.Text) (Session, error) {
	x, err := s.Look(ctx, cookie)
	if err != nil || s.o.Now().Sub(x.Used) < touchEvery {
		return x, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return s.touch(ctx, x)
}

// Look returns the session of the cookie. It returns [ErrNotFound] if there is none, or if the
// token or issuer of the sign-in is no longer valid. Any other error means that the stores are
// unavailable. Look does not count as use.
func (s *Sessions) Look(ctx context.Context, cookie secret.Text) (x Session, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if len(cookie.Reveal()) != cookieLength { // not a cookie of the gateway, so no read is needed
		return Session{}, ErrNotFound
	}
	if x, err = s.store.Get(ctx, s.id(cookie)); err != nil {
		return Session{}, err
	}
	valid, err := s.isValid(ctx, x)
	if err != nil {
		return Session{}, err
	}
	if !valid {
		s.o.Log.LogAttrs(ctx, slog.LevelInfo, "session ended with what it was made of", slog.String("actor", x.Actor), slog.String("way", x.Way))
		_ = s.store.Delete(ctx, x.ID) // if this fails, the session is still refused, and expires
		return Session{}, ErrNotFound
	}
	return x, nil
}

// touch stores that x was used now. If the store fails, the request continues, but the session
// expires as if it had not been used.
func (s *Sessions) touch(ctx context.Context, x Session) (Session, error) {
	used := x
	used.Used = s.o.Now().UTC()
	used.Expires = used.end()
	next, err := s.store.Put(ctx, used)
	switch {
	case errors.Is(err, ErrConflict): // stored by another request, or ended
		return s.store.Get(ctx, x.ID)
	case err != nil:
		s.o.Log.LogAttrs(ctx, slog.LevelWarn, "use of a session not noted", slog.String("actor", x.Actor), slog.Any("error", err))
		return x, nil
	}
	return next, nil
}

// isValid reports whether x has not expired, and the token or issuer of its sign-in is still
// accepted. A session in an unknown format is not valid.
func (s *Sessions) isValid(ctx context.Context, x Session) (bool, error) {
	switch {
	case x.Format > Format || !x.Live(s.o.Now()):
		return false, nil
	case x.Way == WayLink || x.Way == WayKey:
		return true, nil // the admin key is part of the session's id, so a new key needs no check
	case x.Way == WayBootstrap:
		return s.o.Bootstrap != "" && x.Token == s.bootstrapID(), nil
	case x.Way == WayOIDC:
		return s.o.Client != "" && x.Subject != "" && x.Token == s.clientID(), nil
	case x.Way != WayToken || s.o.Tokens == nil:
		return false, nil
	}
	t, err := s.o.Tokens.Token(ctx, x.Token)
	if errors.Is(err, token.ErrNotFound) {
		return false, nil
	}
	return t.Admin && t.Live(s.o.Now()), err
}

// End ends the session of the cookie, if there is one.
func (s *Sessions) End(ctx context.Context, cookie secret.Text) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return s.store.Delete(ctx, s.id(cookie))
}

// Own returns the sessions of the person who has the session mine, last used first.
func (s *Sessions) Own(ctx context.Context, mine Session) ([]Session, error) {
	return s.filter(ctx, mine.SamePerson)
}

// All returns the sessions of all people, last used first.
func (s *Sessions) All(ctx context.Context) ([]Session, error) {
	return s.filter(ctx, func(Session) bool { return true })
}

// filter returns the valid sessions that match, last used first.
func (s *Sessions) filter(ctx context.Context, match func(Session) bool) (out []Session, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	all, err := s.store.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range all {
		if !match(x) {
			continue
		}
		valid, err := s.isValid(ctx, x)
		if err != nil {
			return nil, err
		}
		if valid {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b Session) int { return b.Used.Compare(a.Used) })
	return out, nil
}

// Revoke ends the session with this id if it belongs to the person who has the session mine.
// Otherwise it returns [ErrNotFound].
func (s *Sessions) Revoke(ctx context.Context, mine Session, id string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	x, err := s.store.Get(ctx, id)
	if err == nil && !x.SamePerson(mine) {
		err = ErrNotFound
	}
	if err != nil {
		return err
	}
	return s.store.Delete(ctx, id)
}

// RevokeAny ends any session with this id and returns it, or [ErrNotFound].
func (s *Sessions) RevokeAny(ctx context.Context, id string) (Session, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	x, err := s.store.Get(ctx, id)
	if err != nil {
		return Session{}, err
	}
	return x, s.store.Delete(ctx, id)
}

// RevokeOthers ends all other sessions of the person who has the session x, and returns their
// number.
func (s *Sessions) RevokeOthers(ctx context.Context, x Session) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	all, err := s.store.List(ctx)
	for _, other := range all {
		if !other.SamePerson(x) || other.ID == x.ID {
			continue
		}
		if failed := s.store.Delete(ctx, other.ID); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		n++
	}
	return n, err
}

// CSRF returns the value that forms of the cookie's session must send. Pages of other sites cannot
// know it. CSRF computes it from the cookie, so no store has it.
func (s *Sessions) CSRF(cookie secret.Text) string { return s.key.Sum("csrf", cookie) }

// cookieLength is the length of 256 bits in base64.
const cookieLength = 43

// id returns the id of the cookie's session.
func (s *Sessions) id(cookie secret.Text) string { return s.key.Sum("login", cookie) }

// bootstrapID identifies the bootstrap token in the settings.
func (s *Sessions) bootstrapID() string { return s.key.Sum("bootstrap", secret.New(s.o.Bootstrap)) }

// clientID identifies the issuer and the client in the settings.
func (s *Sessions) clientID() string { return s.key.Sum("client", secret.New(s.o.Client)) }
