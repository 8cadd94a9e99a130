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

// A Challenge is what a caller without valid credentials is told.
type Challenge struct {
	Send        string // the credentials that are taken: "the admin key: …"; "": not said
	Metadata    string // address of what says where to get an access token (RFC 9728); "": none is taken
	ScopePrefix string // of the scopes that an [identity.Error] names

	// Shut says why no credentials are taken at all, and how that is changed; "": some are.
	Shut string
}

// waitTime is when to come again after too many failed attempts, if the error does not say.
const waitTime = 3 * time.Second

// retryAfter tells the sender in how many seconds to come again, and returns them.
func retryAfter(w http.ResponseWriter, e *identity.Error) int {
	wait := cmp.Or(max(e.RetryAfter, 0), waitTime)
	seconds := int((wait + time.Second - 1) / time.Second)
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	return seconds
}

// unauthorized answers a caller whom Options.Actor refused, without the reason.
func (c *Console) unauthorized(w http.ResponseWriter, r *http.Request, err error) {
	e, ok := errors.AsType[*identity.Error](err)
	if !ok {
		e = &identity.Error{Kind: identity.Invalid}
	}
	status, detail := http.StatusUnauthorized, "credentials are required"
	switch e.Kind {
	case identity.Unavailable:
		status, detail = http.StatusServiceUnavailable, "your credentials cannot be checked for now; nothing was done"
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
