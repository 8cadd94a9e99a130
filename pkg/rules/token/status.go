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
	Void    = "void" // it would be live, but the key that it was made under is gone
)

// A KeyStatus says how a token stands to the keys.
type KeyStatus string

// The places.
const (
	UnderCurrent  KeyStatus = "current"
	UnderPrevious KeyStatus = "previous" // it lets somebody in until that key goes
	UnderNone     KeyStatus = "gone"     // under a key that is not taken any more: it lets nobody in
)

// A StatusView says how tokens stand at one moment.
type StatusView struct {
	Keys Keys // as they are now; zero: they cannot be read

	now               time.Time
	current, previous string // ids of the keys
}

// StatusAt returns one of this moment.
func (r *Registry) StatusAt(ctx context.Context) StatusView {
	j := StatusView{now: r.now()}
	if keys, err := r.Keys.Newest(ctx); err == nil {
		j.Keys, j.current, j.previous = keys, keys.Current.ID(), keys.Previous.ID()
	}
	return j
}

// Status returns which status t has.
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

// KeyStatus returns under which key t is; "" if the keys cannot be read. A token that was made
// before tokens had the id of their key is judged by when it was made.
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

// A KeySummary is how the tokens of a gateway stand to its keys.
type KeySummary struct {
	Current, Previous KeyInfo // Previous is zero if no token is taken under it
	Void              int     // tokens that would be live under a key that is gone
}

// A KeyInfo is what people may see of a key.
type KeyInfo struct {
	ID    string
	Since time.Time // zero: not known
	Until time.Time // from when on no token under it is taken; zero: as long as it is there
	Live  int       // tokens under it that let somebody in
	Last  time.Time // when the last of these expires; zero: there is none
}

// KeySummary returns how all tokens stand to the keys; false if the keys cannot be read.
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
