package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

const (
	metadataTime = 5 * time.Second // to read the metadata of one server

	maxChallenge = 500 // characters of a challenge to keep
	maxScopes    = 20
	maxIssuers   = 3
	maxNamed     = 200 // characters of a scope, an issuer or an address
)

// signInRequired reports whether the server refused a request without a credential with 401 and
// requires a bearer token, or named the metadata that a client needs to sign in.
func (e *evidence) signInRequired() bool {
	h := e.exchange.header
	return e.exchange.status == http.StatusUnauthorized && !e.authorized &&
		(oauth.RequiresBearer(h) || oauth.ChallengeParam(h, "resource_metadata") != "")
}

// authorized reports whether the requests of the operation have a credential for HTTP.
func (o *operation) authorized() bool { return o.ep != nil && o.ep.header.Get("Authorization") != "" }

// explain adds the server's challenge to the outcome of a load that the server denied. It also adds
// how a client signs in, if the server's metadata says so. If explain fails, the outcome stays a
// denial.
func (l *load) explain(out *outcome.Outcome) {
	if !l.refused(out) {
		return
	}
	c, x := l.challenge(out), l.last
	asks := c.Text == "" || oauth.RequiresBearer(x.header)
	if x.status == http.StatusUnauthorized && asks && !l.authorized() {
		ctx, cancel := context.WithTimeout(l.first, metadataTime)
		defer cancel()
		c.Metadata = ""
		switch err := l.metadata(ctx, c, oauth.ChallengeParam(x.header, "resource_metadata")); {
		case err == nil:
			out.Reason = outcome.ReasonSignInRequired
		case oauth.CodeOf(err) == oauth.ResourceMismatch:
			out.Reason, c.Fault = outcome.ReasonResourceMismatch, l.clean(l.text(err), maxNamed)
		case c.Text != "" && !errors.Is(err, errNoMetadata):
			c.Fault = l.clean(l.text(err), maxNamed)
		}
	}
	if c.Text != "" || c.Metadata != "" || c.Sent || c.Fault != "" {
		out.Challenge = c
	}
}

// refused reports whether the server denied the last request with a status of HTTP.
func (o *operation) refused(out *outcome.Outcome) bool {
	return out.Status == outcome.Denied && o.last != nil && o.last.denied() && o.t.Command == nil
}

// challenge returns what the server requires in its refusal. It makes no request. It changes the
// reason if the server requires scopes that the config does not allow.
func (o *operation) challenge(out *outcome.Outcome) *outcome.Challenge {
	x := o.last
	c := &outcome.Challenge{
		Text:     o.clean(strings.Join(x.header.Values("Www-Authenticate"), ", "), maxChallenge),
		Scopes:   o.scopes(strings.Fields(oauth.ChallengeParam(x.header, "scope"))),
		Metadata: o.clean(oauth.ChallengeParam(x.header, "resource_metadata"), maxNamed),
		Sent:     x.status == http.StatusUnauthorized && o.authorized() && o.ep.token.Reveal() == "",
	}
	s := o.t.SignIn
	if out.Reason == outcome.ReasonInsufficientScope && s != nil && s.Scopes != nil {
		over := slices.DeleteFunc(slices.Clone(c.Scopes), func(scope string) bool {
			return slices.Contains(s.Scopes, scope)
		})
		if len(over) > 0 {
			out.Reason, c.Scopes = outcome.ReasonScopeNotAllowed, over
		}
	}
	return c
}

var errNoMetadata = errors.New("the server publishes no metadata")

// metadata adds the metadata of the server's resource to c. The request has no configured header.
func (l *load) metadata(ctx context.Context, c *outcome.Challenge, named string) error {
	client := oauth.Client{HTTP: l.ep.transport, Agent: l.c.agent, Now: l.c.o.Now}
	m, err := client.ReadResource(ctx, l.ep.url, named)
	if err != nil {
		return err
	}
	if m == nil {
		return errNoMetadata
	}
	c.Metadata = l.clean(m.Address, maxNamed)
	if len(c.Scopes) == 0 {
		c.Scopes = l.scopes(m.Scopes)
		c.Listed = len(c.Scopes) > 0
	}
	for _, issuer := range m.Issuers {
		if len(issuer) <= maxNamed && len(c.Issuers) < maxIssuers {
			c.Issuers = append(c.Issuers, l.clean(issuer, maxNamed))
		}
	}
	return nil
}

// scopes returns the valid scopes (RFC 6749) among names, at most 20.
func (o *operation) scopes(names []string) (out []string) {
	valid := oauth.ValidScopes(names)
	for _, name := range valid[:min(len(valid), maxScopes)] {
		out = append(out, o.clean(name, maxNamed))
	}
	return out
}

// clean returns a text of the server on one line, without secrets. The argument most is the maximum
// of characters.
func (o *operation) clean(s string, most int) string {
	return text.Clip(text.Line(redact(s, o.secrets())), most)
}
