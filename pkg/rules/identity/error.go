package identity

import (
	"strings"
	"time"
)

// A Kind is all that a refused caller may learn of why.
type Kind int

// The zero Kind is Invalid: an error that says nothing is a refusal.
const (
	Invalid     Kind = iota // credentials were sent and are not good
	Missing                 // none were sent
	Scope                   // they are good, but do not reach this far
	Unavailable             // they could not be checked, for now
	Throttled               // too many before them were not good; these were not looked at
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

// An Error refuses a caller. Kind and Scopes reach the caller; Err is for the
// log alone, and no credential may stand in it.
type Error struct {
	Kind       Kind
	Scopes     []string      // what a token would need, without the prefix of the issuer's: read, admin; may be nil
	RetryAfter time.Duration // when to come again; 0: not said
	Err        error         // may be nil
}

// Error is for the log.
func (e *Error) Error() string {
	s := "authenticate: " + e.Kind.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Challenge returns the WWW-Authenticate header (RFC 6750) that says what the caller lacks, and
// where to get it: metadata is the address of RFC 9728, "": none. One who sent nothing is told of no
// error. A scope is asked for with the prefix of the issuer's.
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

// quotable drops what may not stand in a quoted string of a header.
func quotable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, s)
}
