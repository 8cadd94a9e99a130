package token

import (
	"context"
	"time"
)

// The statuses of a token.
const (
	Live    = "live"
	Expired = "expired"
	Revoked = "revoked"
	Void    = "void" // not expired or revoked, but the gateway no longer has the token's key
)

// A KeyStatus says which key a token was made under.
type KeyStatus string

// The key statuses.
const (
	UnderCurrent  KeyStatus = "current"
	UnderPrevious KeyStatus = "previous" // accepted as long as the gateway accepts this key
	UnderNone     KeyStatus = "gone"     // refused, because the key is no longer accepted
)

// A StatusView computes statuses of tokens at one time.
type StatusView struct {
	Keys Keys // the current and the previous key; zero: they cannot be read

	now               time.Time
	current, previous string // ids of the keys
}

// StatusAt returns a StatusView for the present time.
func (r *Registry) StatusAt(ctx context.Context) StatusView {
	j := StatusView{now: r.now()}
	if keys, err := r.Keys.Newest(ctx); err == nil {
		j.Keys, j.current, j.previous = keys, keys.Current.ID(), keys.Previous.ID()
	}
	return j
}

// Status returns the status of t.
func (j StatusView) Status(t Token) string {
	switch {
	case !t.RevokedAt.IsZero():
		return Revoked
	case !t.Live(j.now):
		return Expired
	case j.KeyStatus(t) == UnderNone:
		return Void
	}
	return Live
}

// KeyStatus returns the key status of t, or "" if the keys cannot be read. Old tokens do not have
// the id of their key. For these, KeyStatus uses the time at which they were made.
func (j StatusView) KeyStatus(t Token) KeyStatus {
	if j.current == "" {
		return ""
	}
	current, previous := t.Key == j.current, j.previous != "" && t.Key == j.previous
	if t.Key == "" {
		current = j.previous == "" || !j.Keys.Since.IsZero() && !t.CreatedAt.Before(j.Keys.Since)
		previous = !current && !t.CreatedAt.Before(j.Keys.previousSince)
	}
	switch {
	case current:
		return UnderCurrent
	case previous && j.Keys.PreviousTaken(j.now):
		return UnderPrevious
	}
	return UnderNone
}

// A KeySummary counts the tokens of a gateway by key.
type KeySummary struct {
	Current, Previous KeyInfo // Previous is zero if the gateway accepts no tokens under it
	Void              int     // tokens that would be live, but whose key is no longer accepted
}

// A KeyInfo describes a key without its secret.
type KeyInfo struct {
	ID    string
	Since time.Time // zero: unknown
	Until time.Time // its tokens are accepted until then; zero: no end
	Live  int       // live tokens under it
	Last  time.Time // when the last of these expires; zero: none
}

// KeySummary returns the summary of all tokens; false if the keys cannot be read.
func (j StatusView) KeySummary(all []Token) (s KeySummary, ok bool) {
	if j.current == "" {
		return s, false
	}
	s.Current = KeyInfo{ID: j.current, Since: j.Keys.Since}
	if j.Keys.PreviousTaken(j.now) {
		s.Previous = KeyInfo{ID: j.previous, Since: j.Keys.previousSince, Until: j.Keys.Until}
	}
	for _, t := range all {
		key := &s.Current
		switch status := j.Status(t); {
		case status == Void:
			s.Void++
			continue
		case status != Live:
			continue
		case j.KeyStatus(t) == UnderPrevious:
			key = &s.Previous
		}
		key.Live++
		if t.ExpiresAt.After(key.Last) {
			key.Last = t.ExpiresAt
		}
	}
	return s, true
}
