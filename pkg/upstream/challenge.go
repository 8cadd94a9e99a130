package upstream

import (
	"context"
	"errors"
	"net/http"
	"regexp"
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

// challengeParam is one parameter of WWW-Authenticate. It matches a whole quoted value, so that it
// finds no parameter inside the quotes.
var challengeParam = regexp.MustCompile(`([A-Za-z_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))`)

// paramOf returns the first value of a parameter in the challenges of h, or "" if they have none.
func paramOf(h http.Header, name string) string {
	for _, v := range h.Values("Www-Authenticate") {
		for _, m := range challengeParam.FindAllStringSubmatch(v, -1) {
			if strings.EqualFold(m[1], name) {
				return m[2] + m[3]
			}
		}
	}
	return ""
}

// signInRequired reports whether the server refused a request without a credential with 401 and
// named the metadata that a client needs to sign in.
func (e *evidence) signInRequired() bool {
	return e.exchange.status == http.StatusUnauthorized && !e.authorized && paramOf(e.exchange.header, "resource_metadata") != ""
}

// authorized reports whether the requests of the operation have a credential for HTTP.
func (o *operation) authorized() bool { return o.ep != nil && o.ep.header.Get("Authorization") != "" }

// explain adds the server's challenge to the outcome of a load that the server denied. It also adds
// how a client signs in, if the server's metadata says so. If explain fails, the outcome stays a
// denial.
func (l *load) explain(out *outcome.Outcome) {
	x := l.last
	if out.Status != outcome.Denied || x == nil || !x.denied() || l.t.Command != nil {
		return
	}
	sent := strings.Join(x.header.Values("Www-Authenticate"), ", ")
	c := outcome.Challenge{Text: l.clean(sent, maxChallenge), Scopes: l.scopes(strings.Fields(paramOf(x.header, "scope")))}
	asks := sent == "" || strings.Contains(strings.ToLower(sent), "bearer")
	if x.status == http.StatusUnauthorized && asks && !l.authorized() {
		ctx, cancel := context.WithTimeout(l.first, metadataTime)
		defer cancel()
		address := paramOf(x.header, "resource_metadata")
		switch err := l.metadata(ctx, &c, address); {
		case err == nil:
			out.Reason = outcome.ReasonSignInRequired
		case address != "":
			c.Fault = l.clean(l.text(err), maxNamed)
		}
	}
	if c.Text != "" || c.Metadata != "" {
		out.Challenge = &c
	}
}

// metadata adds the metadata of the server's resource to c. The request has no configured header.
func (l *load) metadata(ctx context.Context, c *outcome.Challenge, named string) error {
	client := oauth.Client{HTTP: l.ep.transport, Agent: l.c.agent, Now: l.c.o.Now}
	m, err := client.ReadResource(ctx, l.ep.url, named)
	if err != nil {
		return err
	}
	if m == nil {
		return errors.New("it publishes no metadata")
	}
	c.Metadata = l.clean(m.Address, maxNamed)
	if len(c.Scopes) == 0 {
		c.Scopes = l.scopes(m.Scopes)
	}
	for _, issuer := range m.Issuers {
		if len(issuer) <= maxNamed && len(c.Issuers) < maxIssuers {
			c.Issuers = append(c.Issuers, l.clean(issuer, maxNamed))
		}
	}
	return nil
}

// scopes returns the valid scopes (RFC 6749) among names, at most 20.
func (l *load) scopes(names []string) (out []string) {
	valid := oauth.ValidScopes(names)
	for _, name := range valid[:min(len(valid), maxScopes)] {
		out = append(out, l.clean(name, maxNamed))
	}
	return out
}

// clean returns a text of the server on one line, without secrets, and at most most characters
// long.
func (l *load) clean(s string, most int) string {
	return text.Clip(text.Line(redact(s, l.secrets())), most)
}
