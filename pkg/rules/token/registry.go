package token

import (
	"context"
	"log/slog"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// A Registry makes and revokes tokens for people, and logs their names. Its Store and Keys must be
// set.
type Registry struct {
	Store *Store
	Keys  *KeyRing
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: none

	// Record stores that the actor made or revoked a token. If it fails for a new token, the token
	// is revoked at once, before anybody has seen its text, and Make returns the error. nil: the
	// event is only logged.
	Record func(ctx context.Context, actor string, t Token) error
}

// A Spec describes a token to make.
type Spec struct {
	Name     string   `json:"name"`
	Servers  []string `json:"servers"`
	Tiers    []string `json:"tiers"`
	Toolsets []string `json:"toolsets,omitempty"`
	Admin    bool     `json:"admin"`
	Days     int      `json:"days"` // after which it expires
}

// A FaultError says why a token cannot be made as specified; the text is for the author of the
// Spec.
type FaultError struct{ error }

// Make makes a token and returns it with its text, which is not stored. It returns a [FaultError]
// if no such token is possible.
func (r *Registry) Make(ctx context.Context, actor string, w Spec) (Token, secret.Text, error) {
	keys, err := r.Keys.Newest(ctx)
	if err != nil {
		return Token{}, secret.Text{}, err
	}
	text, now := New(), r.now().UTC()
	id, hash := keys.Current.Identify(text)
	t := Token{
		ID: id, Hash: hash, Key: keys.Current.ID(), Name: w.Name, Servers: w.Servers, Tiers: w.Tiers, Toolsets: w.Toolsets, Admin: w.Admin,
		CreatedAt: now, CreatedBy: actor, ExpiresAt: now.Add(time.Duration(w.Days) * 24 * time.Hour),
	}
	if err := t.Check(); err != nil {
		return Token{}, secret.Text{}, FaultError{err}
	}
	if t, err = r.Store.PutToken(ctx, t); err != nil {
		return Token{}, secret.Text{}, err
	}
	if err := r.log(ctx, "make", actor, t); err != nil {
		if t, revoked := r.Store.PutToken(context.WithoutCancel(ctx), t.Revoke(actor, r.now())); revoked == nil {
			_ = r.log(ctx, "revoke", actor, t) // Make returns its own error
		}
		return Token{}, secret.Text{}, err
	}
	return t, text, nil
}

// Revoke ends the token with the id. It returns [ErrNotFound], or [ErrConflict] if another writer
// changed it at the same time. Revoking a revoked token changes nothing.
func (r *Registry) Revoke(ctx context.Context, actor, id string) (Token, error) {
	t, err := r.Store.Token(ctx, id)
	if err != nil || !t.RevokedAt.IsZero() {
		return t, err
	}
	if t, err = r.Store.PutToken(ctx, t.Revoke(actor, r.now())); err != nil {
		return Token{}, err
	}
	_ = r.log(ctx, "revoke", actor, t) // it is revoked in any case
	return t, nil
}

func (r *Registry) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// log logs who made or revoked a token, and records it. The token's text is in no log.
func (r *Registry) log(ctx context.Context, action, actor string, t Token) error {
	if r.Log != nil {
		r.Log.LogAttrs(ctx, slog.LevelInfo, "agent tokens changed", slog.String("action", action), slog.String("actor", actor),
			slog.String("token", t.ID), slog.String("name", t.Name), slog.Bool("admin", t.Admin))
	}
	if r.Record == nil {
		return nil
	}
	return r.Record(ctx, actor, t)
}
