package console

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// A Challenge is the answer to a caller without valid credentials.
type Challenge struct {
	Send        string // the accepted credentials: "the admin key: …"; "": the answer names none
	Metadata    string // address of the OAuth metadata (RFC 9728); "": no access tokens
	ScopePrefix string // of the scopes that an [identity.Error] names

	// Shut says why the gateway accepts no credentials, and how to change that; "": it accepts
	// some.
	Shut string
}

// waitTime is the wait after too many failed attempts, if the error has none.
const waitTime = 3 * time.Second

// retryAfter sets the header Retry-After, and returns its seconds.
func retryAfter(w http.ResponseWriter, e *identity.Error) int {
	wait := cmp.Or(max(e.RetryAfter, 0), waitTime)
	seconds := int((wait + time.Second - 1) / time.Second)
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	return seconds
}

// unauthorized answers a caller that Options.Actor refused, without the reason.
func (c *Console) unauthorized(w http.ResponseWriter, r *http.Request, err error) {
	e, ok := errors.AsType[*identity.Error](err)
	if !ok {
		e = &identity.Error{Kind: identity.Invalid}
	}
	status, detail := http.StatusUnauthorized, "credentials are required"
	switch e.Kind {
	case identity.Unavailable:
		status, detail = http.StatusServiceUnavailable, "your credentials cannot be checked now; "+
			"nothing was done"
	case identity.Throttled:
		status, detail = http.StatusTooManyRequests, "too many failed attempts; nothing was done"
		retryAfter(w, e)
	case identity.Scope:
		status, detail = http.StatusForbidden, "you may not use the admin API"
	case identity.Invalid:
		if r.Header.Get("Authorization") != "" {
			detail = "the credentials are not valid"
		}
	case identity.Missing:
	}
	if status == http.StatusUnauthorized && c.o.Challenge.Shut != "" {
		status, detail = http.StatusForbidden, c.o.Challenge.Shut
	} else if status == http.StatusUnauthorized || status == http.StatusForbidden {
		w.Header().Set("WWW-Authenticate", e.Challenge("portcullis admin", c.o.Challenge.ScopePrefix, c.o.Challenge.Metadata))
		if c.o.Challenge.Send != "" {
			detail += ": send " + c.o.Challenge.Send
		}
	}
	w.Header().Set("Vary", "Accept")
	switch {
	case !wantsHTML(r.Header.Get("Accept")):
		decide.WriteProblem(w, status, detail)
	case status == http.StatusUnauthorized && c.o.SignIn != nil:
		c.askToSignIn(w, r)
	default:
		c.problem(w, r, status, sentence(detail))
	}
}
