// Package signin signs people in at /admin and keeps who is signed in: at an OpenID Connect issuer
// by the authorization code flow with PKCE (RFC 7636), or by a one-time code for the person whom a
// gateway on one machine belongs to, with sessions in a store that every instance of the gateway
// reads.
//
// The cookie of a session holds 256 random bits. A store holds their keyed hash, so that a copy of
// it signs nobody in. The store is read at each request, strongly consistent: a session that was
// ended anywhere is over everywhere. So is one whose agent token was revoked. A session of somebody
// who signed in at an issuer has the groups that count here, as they were then: what they may do is
// worked out at each request.
//
// A browser is sent to the issuer and comes back with a code, which is traded for an ID token.
// Nothing of a sign-in that is under way is kept here, so that any instance can finish it: what
// binds the answer to the browser stands sealed in a cookie. Nothing of the issuer's tokens is kept
// at all.
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
	idleLife    = time.Hour     // of a session that is not used
	sessionLife = 8 * time.Hour // of any session
	touchEvery  = 5 * time.Minute

	maxOwn     = 16  // sessions of one actor
	maxAll     = 512 // of all; at once, by some requests at one moment, there may be a few more
	maxBrowser = 160 // characters

	storeTime = 5 * time.Second // that a request waits for the stores
)

// SessionOptions are the knobs of [Sessions]. The zero value takes no session that was made of a
// token.
type SessionOptions struct {
	Tokens    *token.Store     // of agent tokens; nil: there are none
	Bootstrap string           // SHA-256 of the bootstrap token, as hex; "": there is none
	Client    string           // issuer at which people sign in, and the gateway's name there; "": they do not
	Now       func() time.Time // nil: time.Now
	Log       *slog.Logger     // nil: none
}

// Sessions opens, finds and ends the sessions of one gateway. It is safe for concurrent use.
type Sessions struct {
	store *Store
	key   token.Key
	o     SessionOptions
}

// NewSessions returns the sessions in a store, whose hashes key makes: under another key all of
// them are over. It makes no call.
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

// A Person is who signs in.
type Person struct {
	Actor string // whom the audit names
	Way   string // one of the ways
	Token string // the id of the agent token, if that is the way

	// Of who signed in at an issuer.
	Subject string   // the issuer's own name for the person
	Groups  []string // that have a role here
}

// Open opens a session with a browser, which calls itself that, and returns what its cookie holds.
// If the person has as many sessions as one may have, the one longest unused ends.
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

// end returns when x is over if it is not used any more.
func (s Session) end() time.Time {
	idle, most := s.Used.Add(idleLife), s.Created.Add(sessionLife)
	if most.Before(idle) {
		return most
	}
	return idle
}

// makeRoom ends the sessions that are too many if there is to be next.
func (s *Sessions) makeRoom(ctx context.Context, next Session) error {
	all, err := s.store.List(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b Session) int { return b.Used.Compare(a.Used) })
	own := 0
	for i, x := range all {
		if x.Of(next) {
			own++
		}
		if x.Of(next) && own >= maxOwn || i+1 >= maxAll {
			err = errors.Join(err, s.store.Delete(ctx, x.ID))
		}
	}
	return err
}

// Find is [Sessions.Look] for what a person does. It notes the use, at most every five minutes.
func (s *Sessions) Find(ctx context.Context, cookie secret.Text) (Session, error) {
	x, err := s.Look(ctx, cookie)
	if err != nil || s.o.Now().Sub(x.Used) < touchEvery {
		return x, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return s.touch(ctx, x)
}

// Look returns the session whose cookie this is, or [ErrNotFound] if there is none, or if what it
// was made of lets nobody in any more. Any other error says that the stores cannot tell. A session
// that is only looked at ends as one that is not used.
func (s *Sessions) Look(ctx context.Context, cookie secret.Text) (x Session, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if len(cookie.Reveal()) != cookieLength { // or it was made up: no store need be asked
		return Session{}, ErrNotFound
	}
	if x, err = s.store.Get(ctx, s.id(cookie)); err != nil {
		return Session{}, err
	}
	holds, err := s.holds(ctx, x)
	if err != nil {
		return Session{}, err
	}
	if !holds {
		s.o.Log.LogAttrs(ctx, slog.LevelInfo, "session ended with what it was made of", slog.String("actor", x.Actor), slog.String("way", x.Way))
		_ = s.store.Delete(ctx, x.ID) // it is refused anyway, and ends by itself
		return Session{}, ErrNotFound
	}
	return x, nil
}

// touch notes the use of x. A note that is lost ends a session early and stops no request.
func (s *Sessions) touch(ctx context.Context, x Session) (Session, error) {
	used := x
	used.Used = s.o.Now().UTC()
	used.Expires = used.end()
	next, err := s.store.Put(ctx, used)
	switch {
	case errors.Is(err, ErrConflict): // noted by another request, or ended
		return s.store.Get(ctx, x.ID)
	case err != nil:
		s.o.Log.LogAttrs(ctx, slog.LevelWarn, "use of a session not noted", slog.String("actor", x.Actor), slog.Any("error", err))
		return x, nil
	}
	return next, nil
}

// holds reports whether what x was made of would still sign its user in. One in a form that this
// program does not know does not hold.
func (s *Sessions) holds(ctx context.Context, x Session) (bool, error) {
	switch {
	case x.Format > Format || !x.Live(s.o.Now()):
		return false, nil
	case x.Way == WayLink || x.Way == WayKey:
		return true, nil // with another admin key the session is not found
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

// End ends the session whose cookie this is, if there is one.
func (s *Sessions) End(ctx context.Context, cookie secret.Text) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return s.store.Delete(ctx, s.id(cookie))
}

// Own returns the sessions of the person of mine, the one used last first.
func (s *Sessions) Own(ctx context.Context, mine Session) ([]Session, error) {
	return s.those(ctx, mine.Of)
}

// All returns the sessions of everybody, the one used last first.
func (s *Sessions) All(ctx context.Context) ([]Session, error) {
	return s.those(ctx, func(Session) bool { return true })
}

// those returns the sessions that are wanted, the one used last first.
func (s *Sessions) those(ctx context.Context, wanted func(Session) bool) (out []Session, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	all, err := s.store.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range all {
		if !wanted(x) {
			continue
		}
		holds, err := s.holds(ctx, x)
		if err != nil {
			return nil, err
		}
		if holds {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b Session) int { return b.Used.Compare(a.Used) })
	return out, nil
}

// Revoke ends the session with this id of the person of mine, or returns [ErrNotFound].
func (s *Sessions) Revoke(ctx context.Context, mine Session, id string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	x, err := s.store.Get(ctx, id)
	if err == nil && !x.Of(mine) {
		err = ErrNotFound
	}
	if err != nil {
		return err
	}
	return s.store.Delete(ctx, id)
}

// RevokeAny ends the session with this id, whosever it is, and returns it, or [ErrNotFound].
func (s *Sessions) RevokeAny(ctx context.Context, id string) (Session, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	x, err := s.store.Get(ctx, id)
	if err != nil {
		return Session{}, err
	}
	return x, s.store.Delete(ctx, id)
}

// RevokeOthers ends the sessions of the person of x but x, and returns how many they were.
func (s *Sessions) RevokeOthers(ctx context.Context, x Session) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	all, err := s.store.List(ctx)
	for _, other := range all {
		if !other.Of(x) || other.ID == x.ID {
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

// CSRF returns what a form of the session whose cookie this is must hold: a page of another site
// cannot know it. It is made of the cookie, so that nothing need be kept.
func (s *Sessions) CSRF(cookie secret.Text) string { return s.key.Sum("csrf", cookie) }

// cookieLength is that of 256 bits in base64.
const cookieLength = 43

// id returns the id of the session whose cookie this is.
func (s *Sessions) id(cookie secret.Text) string { return s.key.Sum("login", cookie) }

// bootstrapID stands for the bootstrap token that the setting names.
func (s *Sessions) bootstrapID() string { return s.key.Sum("bootstrap", secret.New(s.o.Bootstrap)) }

// clientID stands for the issuer and the client that the settings name.
func (s *Sessions) clientID() string { return s.key.Sum("client", secret.New(s.o.Client)) }
