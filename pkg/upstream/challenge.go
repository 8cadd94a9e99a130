package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

const (
	wellKnownMetadata = "/.well-known/oauth-protected-resource" // RFC 9728
	metadataTime      = 5 * time.Second                         // to read the metadata of one server
	maxMetadata       = 64 << 10                                // bytes

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

// metadata adds the resource's metadata to c. It reads the address from the challenge, or without
// one, the two well-known addresses.
func (l *load) metadata(ctx context.Context, c *outcome.Challenge, address string) error {
	places := []string{address}
	if address == "" {
		at := url.URL{Scheme: l.ep.url.Scheme, Host: l.ep.url.Host, Path: wellKnownMetadata}
		root := at.String()
		at.Path += strings.TrimSuffix(l.ep.url.Path, "/")
		places = slices.Compact([]string{at.String(), root})
	}
	var faults []error
	for _, place := range places {
		m, err := l.readMetadata(ctx, place)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		c.Metadata = l.clean(place, maxNamed)
		if len(c.Scopes) == 0 {
			c.Scopes = l.scopes(m.Scopes)
		}
		for _, issuer := range m.Issuers {
			if u, err := url.Parse(issuer); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil &&
				len(issuer) <= maxNamed && len(c.Issuers) < maxIssuers && !strings.ContainsFunc(issuer, notPlain) {
				c.Issuers = append(c.Issuers, l.clean(issuer, maxNamed))
			}
		}
		return nil
	}
	return errors.Join(faults...)
}

// A resourceMetadata is the part of a protected resource's metadata that the gateway uses.
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Issuers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// readMetadata reads the metadata at an address, which must have the origin of the server. The
// request has no configured header, and follows no redirect. Metadata of another resource is an
// error, because the issuer could then issue a token for the other resource.
func (l *load) readMetadata(ctx context.Context, address string) (m resourceMetadata, err error) {
	at, err := url.Parse(address)
	if err != nil || len(address) > maxAddress || at.User != nil || originOf(at) != originOf(l.ep.url) {
		return m, errors.New("its metadata is not at the server's own scheme, host and port, and was not read")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return m, errors.New("the address of its metadata is not a valid URL")
	}
	req.Header.Set("User-Agent", l.c.agent)
	req.Header.Set("Accept", "application/json")
	resp, err := l.ep.transport.Do(req)
	if err != nil {
		return m, fmt.Errorf("its metadata cannot be read: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxMetadata+1))
	switch {
	case resp.StatusCode != http.StatusOK:
		return m, fmt.Errorf("the address of its metadata answers with HTTP status %d", resp.StatusCode)
	case err != nil:
		return m, fmt.Errorf("its metadata cannot be read: %w", err)
	case len(data) > maxMetadata:
		return m, fmt.Errorf("its metadata is longer than %d bytes", maxMetadata)
	case json.Unmarshal(data, &m) != nil:
		return m, errors.New("its metadata is not valid")
	case !covers(m.Resource, l.ep.url):
		return m, errors.New("its metadata is about another resource")
	}
	return m, nil
}

// maxAddress is the maximum length of a metadata address, in bytes.
const maxAddress = 2 << 10

// originOf returns scheme, host and port of a URL.
func originOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Scheme + "://" + u.Hostname() + ":" + port)
}

// covers reports whether a resource is the server at u. It must have the same origin, and its path
// must be a prefix of the server's path, in whole segments.
func covers(resource string, u *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.User != nil || originOf(r) != originOf(u) {
		return false
	}
	path := strings.TrimSuffix(r.EscapedPath(), "/")
	return strings.HasPrefix(strings.TrimSuffix(u.EscapedPath(), "/")+"/", path+"/")
}

// scopes returns the valid scopes (RFC 6749) among names, at most 20.
func (l *load) scopes(names []string) (out []string) {
	for _, name := range names {
		if name != "" && len(name) <= maxNamed && len(out) < maxScopes && !strings.ContainsFunc(name, notPlain) {
			out = append(out, l.clean(name, maxNamed))
		}
	}
	return out
}

// notPlain reports whether r is invalid in a scope and in a URL.
func notPlain(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }

// clean returns a text of the server on one line and without secrets, with at most most characters.
func (l *load) clean(s string, most int) string {
	return text.Clip(text.Line(redact(s, l.secrets())), most)
}
