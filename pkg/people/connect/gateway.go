package connect

import (
	"errors"
	"slices"
)

// A Gateway describes this gateway to clients.
type Gateway struct {
	BaseURL string  // its URL without a path; empty if it is not configured
	Auths   []Auth  // accepted ways to authenticate; the first is the default
	Issuer  string  // issuer for OAuth
	Seen    *Visits // nil if this process does not see the clients
}

// ErrNoAddress reports that the gateway does not know its own URL.
var ErrNoAddress = errors.New("the gateway does not know its own address: set PORTCULLIS_BASE_URL (parameter BaseUrl)")

// At returns the endpoint at a path for callers that use an Auth; an empty Auth means the first. It
// refuses an Auth that the gateway does not accept.
func (g *Gateway) At(path string, auth Auth) (Endpoint, error) {
	if g.BaseURL == "" {
		return Endpoint{}, ErrNoAddress
	}
	if auth == "" && len(g.Auths) > 0 {
		auth = g.Auths[0]
	}
	if !slices.Contains(g.Auths, auth) {
		return Endpoint{}, errors.New("the gateway does not accept this way to authenticate")
	}
	return Endpoint{URL: g.BaseURL + path, Auth: auth}, nil
}
