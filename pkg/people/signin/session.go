package signin

import (
	"encoding/json"
	"errors"
	"time"
)

// Errors that callers may have to distinguish.
var (
	ErrNotFound = errors.New("session not found")          // never opened, ended, or expired
	ErrConflict = errors.New("session changed since read") // or ended; read it again
)

// The ways in which a person signs in.
const (
	WayLink      = "link"      // the one-time link that a gateway on one machine prints
	WayKey       = "key"       // the admin key in its folder
	WayToken     = "token"     // an agent token of an admin
	WayBootstrap = "bootstrap" // the token that a setting names
	WayOIDC      = "oidc"      // at an OpenID Connect issuer
)

// Format is the version of the stored form. Raise it if older programs would give a session too
// many rights. A new way to sign in needs no new version, because older programs refuse sessions
// with an unknown way.
const Format = 1

// A Session is a person's stored session in one browser.
type Session struct {
	Format  int       `json:"format"`            // set by the store at each write
	ID      string    `json:"id"`                // keyed hash of the cookie; the hash is no credential
	Actor   string    `json:"actor"`             // name in the audit
	Way     string    `json:"way"`               // how the person signed in: one of the ways
	Token   string    `json:"token,omitempty"`   // id of a token; the session ends with this token; see [Person]
	Subject string    `json:"subject,omitempty"` // the issuer's name for the person; see [Person]
	Groups  []string  `json:"groups,omitempty"`  // groups at the issuer that have a role here
	Browser string    `json:"browser,omitempty"` // user agent
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"` // accurate to five minutes
	Expires time.Time `json:"expires"`
	Rev     int64     `json:"rev"` // 0: not stored yet
}

// Encode returns s with its next revision, and its stored form.
func (s Session) Encode() (next Session, data []byte, err error) {
	s.Format = max(s.Format, Format)
	s.Rev++
	data, err = json.Marshal(s)
	return s, data, err
}

// decode parses the result of Encode.
func decode(data []byte) (s Session, err error) {
	err = json.Unmarshal(data, &s)
	return s, err
}

// SamePerson reports whether s and other are sessions of the same person. An issuer's subject is
// unique, but two people may have the same name.
func (s Session) SamePerson(other Session) bool {
	return s.Subject == other.Subject && (s.Subject != "" || s.Actor == other.Actor)
}

// Live reports whether s has not expired.
func (s Session) Live(now time.Time) bool { return now.Before(s.Expires) }
