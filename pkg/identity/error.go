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
	var b strings.Builder
	b.WriteString("authenticate: ")
	b.WriteString(e.Kind.String())
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
