package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/url"
	"strings"
	"time"
)

// FlowLife is how long a sign-in may take.
const FlowLife = 10 * time.Minute

// maxCallback is the maximum length of the query of a callback, in bytes.
const maxCallback = 8 << 10

// A Flow is a sign-in between the authorization request and the callback. The caller keeps it
// sealed, because it has the verifier.
type Flow struct {
	Discovery Discovery    `json:"discovery"`
	Client    Registration `json:"-"` // the caller stores it, because it can have a secret
	Redirect  string       `json:"redirect"`
	State     string       `json:"state"`
	Verifier  string       `json:"verifier"`
	Began     time.Time    `json:"began"`
}

// NewFlow begins a sign-in.
func (c *Client) NewFlow(d Discovery, r Registration, redirect string) Flow {
	// These are no longer needed, and the state has to fit into a cookie.
	d.Issuer.Scopes, d.Issuer.Challenges, d.Issuer.TokenAuth = nil, nil, nil
	d.Issuer.Registration = ""
	return Flow{
		Discovery: d, Client: r, Redirect: redirect, State: rand.Text(),
		Verifier: rand.Text() + rand.Text(), // 52 characters; RFC 7636 requires 43 to 128
		Began:    c.Now().UTC(),
	}
}

// URL returns the address at the issuer to which the person's browser goes.
func (f Flow) URL() string {
	sum := sha256.Sum256([]byte(f.Verifier))
	u, err := url.Parse(f.Discovery.Issuer.Authorization)
	if err != nil {
		return "" // cannot happen: Discover has checked the URL
	}
	q := u.Query()
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	set("response_type", "code")
	set("client_id", f.Client.ID)
	set("redirect_uri", f.Redirect)
	set("state", f.State)
	set("code_challenge", base64.RawURLEncoding.EncodeToString(sum[:]))
	set("code_challenge_method", "S256")
	set("scope", strings.Join(f.Discovery.Scopes, " "))
	set("resource", f.Discovery.Resource)
	for _, scope := range f.Discovery.Scopes {
		if scope == "offline_access" { // without consent, some issuers give no refresh token
			set("prompt", "consent")
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Grant returns the data that requests to the token endpoint need.
func (f Flow) Grant() Grant {
	i := f.Discovery.Issuer
	return Grant{Issuer: i.Issuer, Token: i.Token, Client: f.Client, Resource: f.Discovery.Resource}
}

// Finish checks the query of the callback and exchanges its code. Errors are [Fault]s.
func (c *Client) Finish(ctx context.Context, f Flow, query string) (Token, error) {
	code, err := f.code(query, c.Now())
	if err != nil {
		return Token{}, err
	}
	return c.Exchange(ctx, f.Grant(), code, f.Verifier, f.Redirect)
}

// code returns the code of a callback. It checks the state and the issuer before it uses the code
// or the error, because anybody can send a browser to the callback.
func (f Flow) code(query string, now time.Time) (string, error) {
	if age := now.Sub(f.Began); age >= FlowLife || age < -FlowLife {
		return "", fault(
			Expired,
			"the sign-in took longer than %d minutes",
			int(FlowLife.Minutes()),
		)
	}
	q, err := url.ParseQuery(query)
	if err != nil || len(query) > maxCallback {
		return "", fault(BadCallback, "the address of the callback is not valid")
	}
	for _, name := range []string{"state", "iss", "code", "error"} {
		if len(q[name]) > 1 {
			return "", fault(BadCallback, "the callback has the parameter %s twice", name)
		}
	}
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(f.State)) != 1 {
		return "", fault(BadCallback, "the callback belongs to another sign-in")
	}
	i := f.Discovery.Issuer
	host := Host(i.Issuer)
	switch {
	case q.Has("iss") && q.Get("iss") != i.Issuer:
		return "", fault(IssuerMismatch, "the callback comes from another issuer than %s", host)
	case !q.Has("iss") && i.NamesItself:
		return "", fault(
			IssuerMismatch,
			"the callback does not name its issuer, but %s always does",
			host,
		)
	case q.Has("error"):
		return "", authorizationRefusal(q.Get("error"), host)
	case q.Get("code") == "":
		return "", fault(BadCallback, "the callback has neither a code nor an error")
	}
	return q.Get("code"), nil
}

// authorizationRefusal returns the fault for the error code of a callback.
func authorizationRefusal(code, host string) error {
	switch code {
	case "access_denied":
		return fault(AccessDenied, "the sign-in at %s was declined", host)
	case "invalid_scope":
		return fault(InvalidScope, "the issuer %s does not grant these scopes", host)
	case "invalid_target":
		return fault(InvalidTarget, "the issuer %s does not accept the resource", host)
	case "unauthorized_client", "invalid_client":
		return fault(InvalidClient, "the issuer %s does not accept Portcullis as a client", host)
	case "server_error", "temporarily_unavailable":
		return fault(Unreachable, "the issuer %s reports a failure of its own", host)
	}
	return fault(Refused, "the issuer %s refused the sign-in", host)
}
