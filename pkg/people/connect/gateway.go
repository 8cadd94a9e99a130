package connect

import (
	"errors"
	"slices"
)

// A Gateway is what the clients are told of.
type Gateway struct {
	BaseURL string // where it answers, without a path; "": nobody has said so
	Auths   []Auth // that it takes, the first where nobody chooses
	Issuer  string // at which OAuth signs in
	Seen    *Seen  // nil: nobody remembers which clients have come
}

// ErrNoAddress says that a gateway does not know where it is.
var ErrNoAddress = errors.New("the gateway was not told its own address: set PORTCULLIS_BASE_URL (parameter BaseUrl)")

// At returns the endpoint at a path for who comes by an Auth; "": the first. Auths that the gateway
// does not take are refused.
func (g *Gateway) At(path string, by Auth) (Endpoint, error) {
	if g.BaseURL == "" {
		return Endpoint{}, ErrNoAddress
	}
	if by == "" && len(g.Auths) > 0 {
		by = g.Auths[0]
	}
	if !slices.Contains(g.Auths, by) {
		return Endpoint{}, errors.New("the gateway does not take callers in that way")
	}
	return Endpoint{URL: g.BaseURL + path, Auth: by}, nil
}
