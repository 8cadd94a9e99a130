package identity

import (
	"strings"
	"time"
)

// A Kind is the reason of a refusal, as the caller may know it.
type Kind int

// The zero Kind is Invalid, so an incomplete error is a refusal.
const (
	Invalid     Kind = iota // the credentials are not valid
	Missing                 // no credentials were sent
	Scope                   // the credentials are valid, but do not allow this request
	Unavailable             // the credentials cannot be checked at the moment
	Throttled               // the source sent too many invalid credentials; these were not checked
)

// String names the kind for the log.
func (k Kind) String() string {
	switch k {
	case Missing:
		return "missing"
	case Scope:
		return "insufficient scope"
	case Unavailable:
		return "unavailable"
	case Throttled:
		return "throttled"
	}
	return "invalid"
}

// An Error refuses a caller. The caller gets Kind and Scopes. Err is only for the log, and must
// not contain a credential.
type Error struct {
	Kind       Kind
	Scopes     []string      // the scopes that a token needs, without the issuer's prefix: read, admin; may be nil
	RetryAfter time.Duration // when to retry; 0: unspecified
	Err        error         // may be nil
}

// Error returns the text for the log.
func (e *Error) Error() string {
	s := "authenticate: " + e.Kind.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Challenge returns the WWW-Authenticate header (RFC 6750), which says what the caller lacks and
// where to get it. metadata is the address of the metadata of RFC 9728; "": none. A caller without
// credentials gets no error code. The header names scopes with the issuer's prefix.
func (e *Error) Challenge(realm, scopePrefix, metadata string) string {
	var params []string
	add := func(name, value string) {
		if value != "" {
			params = append(params, name+`="`+quotable(value)+`"`)
		}
	}
	add("realm", realm)
	switch e.Kind {
	case Invalid:
		add("error", "invalid_token")
	case Scope:
		add("error", "insufficient_scope")
	}
	if len(e.Scopes) > 0 {
		add("scope", scopePrefix+strings.Join(e.Scopes, " "+scopePrefix))
	}
	add("resource_metadata", metadata)
	return strings.TrimSpace("Bearer " + strings.Join(params, ", "))
}

// quotable removes characters that a quoted string of a header may not contain.
func quotable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, s)
}
