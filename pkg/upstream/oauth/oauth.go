// Package oauth signs in to upstream servers as an OAuth client. It reads metadata, registers the
// client, prepares the authorization request, checks the callback, and uses the token endpoint. It
// stores nothing. Package connection stores the results.
//
// The rules come from the MCP authorization specification 2025-11-25, with the fallback of
// 2025-03-26. If a rule of this package is stricter, its comment says why.
package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

const (
	requestTime = 5 * time.Second // for one request of metadata or registration
	tokenTime   = 8 * time.Second // for one request to the token endpoint
	maxAnswer   = 64 << 10        // bytes of an answer
	maxURL      = 2 << 10         // bytes of a URL that another party sent
	maxName     = 200             // bytes of a scope
	maxScopes   = 50              // scopes of a list
)

// A Code says why a sign-in or a refresh failed. Pages and logs show it, so it is one of the
// constants below.
type Code string

// The codes.
const (
	ResourceMismatch Code = "resource_mismatch"     // the metadata describe another resource
	Unreachable      Code = "unreachable"           // no answer, or an answer that may change: 5xx, 429
	BadMetadata      Code = "bad_metadata"          // metadata that break a rule
	IssuerMismatch   Code = "issuer_mismatch"       // an answer of another issuer
	IssuerChanged    Code = "issuer_changed"        // not the issuer of the connection
	NoPKCE           Code = "no_pkce"               // the issuer does not support S256
	NoClient         Code = "no_client"             // no client id, and no way to register one
	NotRegistered    Code = "registration_refused"  // the issuer refused to register the client
	Expired          Code = "flow_expired"          // the sign-in took too long
	BadCallback      Code = "bad_callback"          // the callback does not belong to this sign-in
	AccessDenied     Code = "access_denied"         // the person or the issuer declined
	Refused          Code = "authorization_refused" // the issuer refused the authorization request
	InvalidGrant     Code = "invalid_grant"         // the code or the refresh token is not valid
	InvalidClient    Code = "invalid_client"        // the issuer does not accept the client
	InvalidScope     Code = "invalid_scope"         // the issuer does not grant these scopes
	InvalidTarget    Code = "invalid_target"        // the issuer does not accept the resource
	BadAnswer        Code = "bad_answer"            // an answer that breaks a rule
)

// A Fault is a failed step of a sign-in or a refresh.
type Fault struct {
	Code Code
	Text string // for operators; it contains nothing that another party wrote, except a host
	Err  error  // the cause, for the log; nil: none
}

// Error returns the text and the cause.
func (f *Fault) Error() string {
	if f.Err == nil {
		return f.Text
	}
	return f.Text + ": " + f.Err.Error()
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

func fault(code Code, format string, args ...any) *Fault {
	return &Fault{Code: code, Text: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of a [Fault] in err, or "".
func CodeOf(err error) Code {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Code
	}
	return ""
}

// Settings are the member auth of a server in the config. The zero value discovers everything.
type Settings struct {
	ClientID      string      // registered at the issuer; "": the gateway registers itself
	Secret        secret.Text // of the client
	Auth          string      // of the client at the token endpoint: basic, post or none; "": by the issuer
	Issuer        string      // "": discovered
	Authorization string      // endpoint; "": discovered
	Token         string      // endpoint; "": discovered
	Scopes        []string    // the scopes to request, and the maximum; nil: by challenge or metadata
	Resource      string      // the resource to send; "": the discovered one; ResourceOmit: none
	NoRegister    bool        // never register a client
}

// ResourceOmit is the value of [Settings.Resource] that sends no resource.
const ResourceOmit = "omit"

// A Client is the gateway as a client of authorization servers. It is safe for concurrent use.
type Client struct {
	HTTP  Doer             // follows no redirect, and dials only allowed addresses
	Agent string           // User-Agent
	Now   func() time.Time // required
}

// A Doer sends requests.
type Doer interface {
	Do(req *http.Request) (*http.Response, error)
}

// An answer is the response to a request of this package.
type answer struct {
	status int
	body   []byte
}

// isAbsent reports whether there is nothing at the address.
func (a answer) isAbsent() bool { return a.status/100 == 4 && a.status != http.StatusTooManyRequests }

// do sends a request and reads the whole answer. Its error is a [Fault] with [Unreachable] or
// [BadAnswer].
func (c *Client) do(req *http.Request, limit time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(req.Context(), limit)
	defer cancel()
	req = req.WithContext(ctx)
	req.Header.Set("User-Agent", c.Agent)
	req.Header.Set("Accept", "application/json")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return answer{}, &Fault{Unreachable, req.URL.Host + " does not answer", cause(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, &Fault{
			Unreachable,
			"the answer of " + req.URL.Host + " is incomplete",
			cause(err),
		}
	case len(body) > maxAnswer:
		return answer{}, fault(
			BadAnswer,
			"the answer of %s is longer than %d bytes",
			req.URL.Host,
			maxAnswer,
		)
	case resp.StatusCode/100 == 5 || resp.StatusCode == http.StatusTooManyRequests:
		return answer{}, fault(
			Unreachable,
			"%s answers with HTTP status %d",
			req.URL.Host,
			resp.StatusCode,
		)
	}
	return answer{resp.StatusCode, body}, nil
}

// cause returns err without the URL in its text.
func cause(err error) error {
	if sent, ok := errors.AsType[*url.Error](err); ok {
		return sent.Err
	}
	return err
}

// get reads a JSON document into v. found is false if there is nothing at the address.
func (c *Client) get(ctx context.Context, address string, v any) (found bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, fault(BadMetadata, "an address of metadata is not a URL")
	}
	a, err := c.do(req, requestTime)
	switch {
	case err != nil:
		return false, err
	case a.isAbsent():
		return false, nil
	case a.status != http.StatusOK:
		return false, fault(BadMetadata, "%s answers a request for metadata with HTTP status %d",
			req.URL.Host, a.status)
	case json.Unmarshal(a.body, v) != nil:
		return false, fault(BadMetadata, "the metadata of %s are not valid JSON", req.URL.Host)
	}
	return true, nil
}

// checkURL returns an error if an address is unsafe for a token or a code: only https, and http to
// the loopback interface.
func checkURL(name, address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil, len(address) > maxURL, u.Host == "", u.User != nil, u.Fragment != "",
		!text.IsPlain(address):
		return fault(BadMetadata, "%s is not a URL", name)
	case u.Scheme != "https" && (u.Scheme != "http" || !hostname.IsLoopback(u.Hostname())):
		return fault(BadMetadata, "%s is not an https URL", name)
	}
	return nil
}

// Host returns the host of a URL, for people, or "" if the text is not a URL.
func Host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// Origin returns scheme, host and port of a URL.
func Origin(u *url.URL) string {
	port := cmp.Or(
		u.Port(),
		map[string]string{"https": "443", "http": "80"}[strings.ToLower(u.Scheme)],
	)
	return strings.ToLower(u.Scheme + "://" + u.Hostname() + ":" + port)
}

// ValidScopes returns the valid scopes (RFC 6749, section 3.3) among names, without repetitions.
func ValidScopes(names []string) (out []string) {
	seen := map[string]bool{}
	for _, name := range names {
		if text.IsPlain(name) && len(name) <= maxName && len(out) < maxScopes && !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}

// A Server is an upstream server at which the gateway can sign in.
type Server struct {
	Name     string // in the config
	URL      string
	Settings Settings
}

// An EndedError says that the connection of a server has ended: a person must sign in again.
type EndedError struct {
	Reason string // a [Code], or one of package connection
}

// Error implements error.
func (e *EndedError) Error() string { return "the connection has ended: " + e.Reason }
