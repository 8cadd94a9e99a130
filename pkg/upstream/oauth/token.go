package oauth

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// A Grant has the data for requests to an issuer's token endpoint.
type Grant struct {
	Issuer   string
	Token    string // URL of the token endpoint
	Client   Registration
	Resource string // "": send none
}

// A Token is the answer of a token endpoint.
type Token struct {
	Access  secret.Text
	Refresh secret.Text // "": the issuer gave none
	Expires time.Time   // zero: unknown
	Scopes  []string    // nil: the issuer did not name the granted scopes
}

const (
	maxToken = 16 << 10         // maximum length of a token, in bytes
	maxLife  = 10 * 365 * 86400 // maximum lifetime of a token, in seconds
	maxTime  = 1 << 40          // larger numbers of seconds in an answer are cut to this
)

// Exchange exchanges a code for a token. Errors are [Fault]s.
func (c *Client) Exchange(
	ctx context.Context,
	g Grant,
	code, verifier, redirect string,
) (Token, error) {
	return c.token(ctx, g, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {verifier},
		"redirect_uri": {redirect},
	})
}

// Refresh exchanges a refresh token for a token. scopes are the granted scopes. Errors are
// [Fault]s. If the answer has no refresh token, the caller keeps the old one.
func (c *Client) Refresh(
	ctx context.Context, g Grant, refresh secret.Text, scopes []string,
) (Token, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh.Reveal()}}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	return c.token(ctx, g, form)
}

// Revoke revokes a token at an endpoint (RFC 7009).
func (c *Client) Revoke(ctx context.Context, g Grant, endpoint string, token secret.Text) error {
	a, err := c.post(ctx, g, endpoint, url.Values{"token": {token.Reveal()}})
	if err != nil {
		return err
	}
	if a.status != http.StatusOK {
		return fault(Refused, "the issuer %s did not revoke the token (HTTP status %d)",
			Host(g.Issuer), a.status)
	}
	return nil
}

// token sends a request to the token endpoint and reads the token.
func (c *Client) token(ctx context.Context, g Grant, form url.Values) (Token, error) {
	if g.Resource != "" {
		form.Set("resource", g.Resource)
	}
	sent := c.Now()
	a, err := c.post(ctx, g, g.Token, form)
	if err != nil {
		return Token{}, err
	}
	return readToken(a.body, a.status, Host(g.Issuer), sent)
}

// post sends a form with the client's authentication.
func (c *Client) post(
	ctx context.Context,
	g Grant,
	endpoint string,
	form url.Values,
) (answer, error) {
	if g.Client.Auth != authBasic {
		form.Set("client_id", g.Client.ID)
	}
	if g.Client.Auth == authPost {
		form.Set("client_secret", g.Client.Secret.Reveal())
	}
	body := strings.NewReader(form.Encode())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, body)
	if err != nil {
		return answer{}, fault(BadMetadata, "an endpoint of %s is not a URL", Host(g.Issuer))
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if g.Client.Auth == authBasic { // id and secret are URL-encoded first: RFC 6749, section 2.3.1
		req.SetBasicAuth(url.QueryEscape(g.Client.ID), url.QueryEscape(g.Client.Secret.Reveal()))
	}
	return c.do(req, tokenTime)
}

// readToken reads the answer of a token endpoint: JSON, or a form as some issuers send. If the
// answer has an error code, readToken returns an error, even with HTTP status 200.
func readToken(body []byte, status int, host string, sent time.Time) (t Token, err error) {
	var got struct {
		Access  string  `json:"access_token"`
		Refresh string  `json:"refresh_token"`
		Type    string  `json:"token_type"`
		Expires seconds `json:"expires_in"`
		Scope   *string `json:"scope"`
		Error   string  `json:"error"`
	}
	if json.Unmarshal(body, &got) != nil {
		form, err := url.ParseQuery(strings.TrimSpace(string(body)))
		if err != nil || !form.Has("access_token") && !form.Has("error") {
			return t, badToken(host, status)
		}
		got.Access, got.Refresh = form.Get("access_token"), form.Get("refresh_token")
		got.Type, got.Error = form.Get("token_type"), form.Get("error")
		got.Expires = parseSeconds(form.Get("expires_in"))
		if scope := form.Get("scope"); form.Has("scope") {
			got.Scope = &scope
		}
	}
	switch {
	case got.Error != "" || status/100 != 2:
		return t, tokenRefusal(got.Error, status, host)
	case !validToken(got.Access), got.Refresh != "" && !validToken(got.Refresh):
		return t, badToken(host, status)
	case got.Type != "" && !strings.EqualFold(got.Type, "bearer"):
		return t, fault(BadAnswer, "the issuer %s gives tokens that are not bearer tokens", host)
	}
	t = Token{Access: secret.New(got.Access), Refresh: secret.New(got.Refresh)}
	if got.Expires > 0 {
		t.Expires = sent.Add(time.Duration(min(got.Expires, maxLife)) * time.Second)
	}
	if got.Scope != nil {
		t.Scopes = ValidScopes(
			strings.FieldsFunc(*got.Scope, func(r rune) bool { return r == ' ' || r == ',' }),
		)
	}
	return t, nil
}

func badToken(host string, status int) error {
	return fault(BadAnswer, "the issuer %s answers with HTTP status %d and no valid token", host, status)
}

// validToken reports whether a token can be sent in a header.
func validToken(s string) bool {
	return s != "" && len(s) <= maxToken &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// tokenRefusal returns the fault for the error code of a token endpoint. GitHub and Slack have
// their own codes.
func tokenRefusal(code string, status int, host string) error {
	switch code {
	case "invalid_grant", "bad_verification_code", "bad_refresh_token", "invalid_refresh_token":
		return fault(InvalidGrant, "the issuer %s no longer accepts this sign-in", host)
	case "invalid_client", "unauthorized_client", "incorrect_client_credentials":
		return fault(InvalidClient, "the issuer %s does not accept Portcullis as a client", host)
	case "invalid_scope":
		return fault(InvalidScope, "the issuer %s does not grant these scopes", host)
	case "invalid_target":
		return fault(InvalidTarget, "the issuer %s does not accept the resource", host)
	case "temporarily_unavailable", "slow_down":
		return fault(Unreachable, "the issuer %s is temporarily unavailable", host)
	case "access_denied":
		return fault(AccessDenied, "the issuer %s denied access", host)
	}
	if status == http.StatusUnauthorized && code == "" {
		return fault(InvalidClient, "the issuer %s does not accept Portcullis as a client", host)
	}
	return fault(
		BadAnswer,
		"the issuer %s refused the request for a token (HTTP status %d)",
		host,
		status,
	)
}

// seconds is a number of seconds. Some issuers write it as a string or as a fraction.
type seconds int64

// UnmarshalJSON accepts a number and a string with a number. It reads everything else as 0, which
// means unknown.
func (s *seconds) UnmarshalJSON(data []byte) error {
	*s = parseSeconds(strings.Trim(string(data), `"`))
	return nil
}

func parseSeconds(text string) seconds {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || f < 0 {
		return 0
	}
	return seconds(min(f, maxTime))
}
