package signin

import (
	"encoding/json"
	"errors"
	"time"
)

// What a caller may have to tell apart.
var (
	ErrNotFound = errors.New("session not found")          // never opened, ended, or expired
	ErrConflict = errors.New("session changed since read") // or ended: the caller reads again
)

// The ways in which a person signs in.
const (
	WayLink      = "link"      // the one-time link that a gateway on one machine prints
	WayKey       = "key"       // the admin key in its folder
	WayToken     = "token"     // an agent token of an admin
	WayBootstrap = "bootstrap" // the token that a setting names
	WayOIDC      = "oidc"      // at an OpenID Connect issuer
)

// Format is the number of the form that this program writes sessions in. It grows if a program
// that knows an earlier form would let somebody do what he may not. A way that a program does not
// know lets nobody in, so a session of a new one, whose rights an earlier program would not look
// at, is refused by that without another number.
const Format = 1

// A Session is who is signed in with one browser, as a store keeps it.
type Session struct {
	Format  int       `json:"format"`            // set by the store at each write
	ID      string    `json:"id"`                // keyed hash of the cookie: names the session to people, and signs nobody in
	Actor   string    `json:"actor"`             // whom the audit names
	Way     string    `json:"way"`               // how the person signed in: one of the ways
	Token   string    `json:"token,omitempty"`   // what the session was made of and ends with; see [Person]
	Subject string    `json:"subject,omitempty"` // whose it is, if an issuer says so; see [Person]
	Groups  []string  `json:"groups,omitempty"`  // of the person at the issuer, that have a role here
	Browser string    `json:"browser,omitempty"` // what it calls itself
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"` // to five minutes
	Expires time.Time `json:"expires"`
	Rev     int64     `json:"rev"` // 0: not stored yet
}

// Encode returns s at its next revision, and as a store keeps that.
func (s Session) Encode() (next Session, data []byte, err error) {
	s.Format = max(s.Format, Format)
	s.Rev++
	data, err = json.Marshal(s)
	return s, data, err
}

// decode returns the session of which Encode made data.
func decode(data []byte) (s Session, err error) {
	err = json.Unmarshal(data, &s)
	return s, err
}

// Of reports whether s is a session of the same person as other. An issuer's subject is nobody
// else's, while two people may go by one name.
func (s Session) Of(other Session) bool {
	return s.Subject == other.Subject && (s.Subject != "" || s.Actor == other.Actor)
}

// Live reports whether s has not expired.
func (s Session) Live(now time.Time) bool { return now.Before(s.Expires) }
