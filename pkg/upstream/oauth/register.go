package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// The methods of client authentication at a token endpoint (RFC 7591, section 2).
const (
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
	authNone  = "none"
)

// A Registration is the gateway's client at one issuer.
type Registration struct {
	ID       string
	Secret   secret.Text
	Auth     string    // client_secret_basic, client_secret_post or none
	Redirect string    // the registered callback
	Expires  time.Time // of the secret; zero: never
	Dynamic  bool      // the gateway registered it, and can do so again
	Scopes   []string  // that the gateway registered
}

// Live reports whether a stored registration can be used with the callback redirect to request
// scopes. Some issuers refuse a scope that the client did not register.
func (r Registration) Live(redirect string, scopes []string, now time.Time) bool {
	isMissing := func(scope string) bool { return !slices.Contains(r.Scopes, scope) }
	return r.ID != "" && r.Redirect == redirect && (r.Expires.IsZero() || now.Before(r.Expires)) &&
		!slices.ContainsFunc(scopes, isMissing)
}

// Client returns the client with which the gateway signs in at an issuer. It is the first of these:
// the configured client, the document at the address document, a stored registration, a new
// registration. s.Scopes are the scopes to request. document is "" if the gateway has no public
// address. made reports that the registration is new, so that the caller stores it.
func (c *Client) Client(
	ctx context.Context, i Issuer, s Settings, redirect, document string, stored Registration,
) (r Registration, made bool, err error) {
	switch {
	case s.ClientID != "":
		return Registration{
			ID: s.ClientID, Secret: s.Secret, Redirect: redirect,
			Auth: configuredAuth(s, i.TokenAuth),
		}, false, nil
	case document != "" && i.Documents:
		return Registration{ID: document, Redirect: redirect, Auth: authNone}, false, nil
	case stored.Live(redirect, s.Scopes, c.Now()):
		return stored, false, nil
	case i.Registration == "" || s.NoRegister:
		return r, false, fault(
			NoClient,
			"the issuer %s does not register clients automatically: register Portcullis there "+
				"with the redirect URI %s",
			Host(i.Issuer),
			redirect,
		)
	}
	var scopes []string // of all servers that use the registration
	if stored.Redirect == redirect {
		scopes = stored.Scopes
	}
	scopes = ValidScopes(slices.Concat(s.Scopes, scopes))
	r, err = c.register(ctx, i, redirect, scopes)
	if CodeOf(err) == NotRegistered && len(scopes) > 0 {
		// Some issuers register only scopes that they know, and a server can have other scopes.
		r, err = c.register(ctx, i, redirect, nil)
	}
	r.Scopes = scopes
	return r, err == nil, err
}

// configuredAuth returns the authentication method of a configured client.
func configuredAuth(s Settings, supported []string) string {
	switch {
	case s.Auth == "basic":
		return authBasic
	case s.Auth == "post":
		return authPost
	case s.Auth == "none" || s.Secret.Reveal() == "":
		return authNone
	case supported != nil && !slices.Contains(supported, authBasic) && slices.Contains(supported, authPost):
		return authPost
	}
	return authBasic // the default of RFC 8414
}

// registeredAuth returns the method that a new registration requests. A public client has no secret
// that could leak; PKCE protects its codes.
func registeredAuth(supported []string) string {
	for _, method := range []string{authNone, authBasic, authPost} {
		if slices.Contains(supported, method) {
			return method
		}
	}
	return authNone
}

// Document returns the members that describe the gateway as a client: the body of a registration
// (RFC 7591), and of a client ID metadata document.
func Document(redirects []string, auth string) map[string]any {
	kind := "web"
	if u, err := url.Parse(redirects[0]); err == nil && hostname.IsLoopback(u.Hostname()) {
		kind = "native"
	}
	return map[string]any{
		"client_name": "Portcullis", "redirect_uris": redirects, "application_type": kind,
		"grant_types":                []string{"authorization_code", "refresh_token"},
		"response_types":             []string{"code"},
		"token_endpoint_auth_method": auth,
	}
}

// register registers the gateway at an issuer (RFC 7591).
func (c *Client) register(
	ctx context.Context, i Issuer, redirect string, scopes []string,
) (r Registration, err error) {
	members := Document([]string{redirect}, registeredAuth(i.TokenAuth))
	if len(scopes) > 0 {
		members["scope"] = strings.Join(scopes, " ")
	}
	body, err := json.Marshal(members)
	if err != nil {
		return r, err
	}
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		i.Registration,
		bytes.NewReader(body),
	)
	if err != nil {
		return r, fault(BadMetadata, "the registration_endpoint of %s is not a URL", Host(i.Issuer))
	}
	req.Header.Set("Content-Type", "application/json")
	a, err := c.do(req, requestTime)
	if err != nil {
		return r, err
	}
	if a.status != http.StatusCreated && a.status != http.StatusOK {
		return r, fault(NotRegistered, "the issuer %s refused to register Portcullis with the "+
			"redirect URI %s (HTTP status %d)", Host(i.Issuer), redirect, a.status)
	}
	var got struct {
		ID      string  `json:"client_id"`
		Secret  string  `json:"client_secret"`
		Auth    string  `json:"token_endpoint_auth_method"`
		Expires seconds `json:"client_secret_expires_at"`
	}
	if json.Unmarshal(a.body, &got) != nil || got.ID == "" {
		return r, fault(BadAnswer, "the issuer %s answers a registration without a client_id",
			Host(i.Issuer))
	}
	r = Registration{
		ID: got.ID, Secret: secret.New(got.Secret), Auth: got.Auth, Redirect: redirect, Dynamic: true,
	}
	if got.Expires > 0 {
		r.Expires = time.Unix(int64(got.Expires), 0)
	}
	if !slices.Contains([]string{authNone, authBasic, authPost}, r.Auth) {
		if r.Auth = registeredAuth(i.TokenAuth); got.Secret != "" && r.Auth == authNone {
			r.Auth = authBasic
		}
	}
	return r, nil
}
