package oauth

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
)

// A Resource is the metadata of a protected resource (RFC 9728), without the members that the
// gateway does not use.
type Resource struct {
	Address string   `json:"-"` // where the metadata are
	Name    string   `json:"resource"`
	Issuers []string `json:"authorization_servers"`
	Scopes  []string `json:"scopes_supported"`
}

const wellKnownResource = "/.well-known/oauth-protected-resource"

// ReadResource reads the metadata of the server at u. The argument named is the address that the
// server's challenge names. If it is "", ReadResource tries the two well-known addresses. It
// returns nil if there are no metadata.
//
// The metadata must have the origin of the server. Their "resource" must be the server's URL, or a
// URL whose path is a prefix of the server's path by whole segments. Otherwise a hostile server
// could receive a token for another server. The specification allows metadata at another origin;
// the gateway does not read them.
func (c *Client) ReadResource(ctx context.Context, u *url.URL, named string) (*Resource, error) {
	places := []string{named}
	if named == "" {
		root := u.Scheme + "://" + u.Host + wellKnownResource
		own := root + strings.TrimSuffix(u.EscapedPath(), "/")
		places = slices.Compact([]string{own, root})
	}
	var first error
	for _, place := range places {
		r, err := c.readResource(ctx, u, place)
		if r != nil {
			return r, nil
		}
		if err == nil && named != "" {
			err = fault(BadMetadata, "the server's challenge names metadata that do not exist")
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// readResource reads the metadata at one address, or returns nil if there are none.
func (c *Client) readResource(ctx context.Context, u *url.URL, place string) (*Resource, error) {
	at, err := url.Parse(place)
	if err != nil || len(place) > maxURL || at.User != nil || Origin(at) != Origin(u) {
		return nil, fault(BadMetadata,
			"the server's metadata are at another scheme, host or port, and were not read")
	}
	r := &Resource{Address: place}
	found, err := c.get(ctx, place, r)
	if err != nil || !found {
		return nil, err
	}
	if !covers(r.Name, u) {
		return nil, fault(ResourceMismatch, "the server's metadata describe another resource")
	}
	r.Scopes = ValidScopes(r.Scopes)
	r.Issuers = slices.DeleteFunc(
		r.Issuers,
		func(i string) bool { return checkURL("issuer", i) != nil },
	)
	return r, nil
}

// covers reports whether the URL resource includes the server at u: both have the same origin, and
// the path of resource is a prefix of the path of u by whole segments, or the same path.
func covers(resource string, u *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || len(resource) > maxURL || r.User != nil || r.Fragment != "" ||
		r.RawQuery != "" && r.RawQuery != u.RawQuery || Origin(r) != Origin(u) {
		return false
	}
	path := strings.TrimSuffix(r.EscapedPath(), "/")
	return strings.HasPrefix(strings.TrimSuffix(u.EscapedPath(), "/")+"/", path+"/")
}

// An Issuer is the metadata of an authorization server (RFC 8414), without the members that the
// gateway does not use.
type Issuer struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint,omitempty"`
	Revocation    string   `json:"revocation_endpoint,omitempty"`
	Scopes        []string `json:"scopes_supported,omitempty"`
	Challenges    []string `json:"code_challenge_methods_supported,omitempty"`
	TokenAuth     []string `json:"token_endpoint_auth_methods_supported,omitempty"`
	Documents     bool     `json:"client_id_metadata_document_supported,omitempty"`
	NamesItself   bool     `json:"authorization_response_iss_parameter_supported,omitempty"`

	// Guessed says that no metadata were read. The endpoints are from the config, or they are the
	// defaults of the specification 2025-03-26. It is unknown whether the issuer supports PKCE.
	Guessed bool `json:"guessed,omitempty"`
}

// A Discovery says where and how to sign in to a server.
type Discovery struct {
	Resource string   `json:"resource,omitempty"` // parameter "resource"; "": do not send it
	Issuer   Issuer   `json:"issuer"`
	Scopes   []string `json:"scopes,omitempty"` // to request
}

// A Challenge has what a server required with 401 or 403.
type Challenge struct {
	Metadata string   // address of the metadata of the resource; "": not named
	Scopes   []string // needed for the refused request
}

// Discover finds out where to sign in to the server at u. Errors are [Fault]s.
func (c *Client) Discover(
	ctx context.Context, u *url.URL, ch Challenge, s Settings,
) (Discovery, error) {
	r, err := c.ReadResource(ctx, u, ch.Metadata)
	if err != nil && (s.Issuer == "" || CodeOf(err) == ResourceMismatch) {
		return Discovery{}, err
	}
	issuer, own := s.Issuer, u.Scheme+"://"+u.Host
	d := Discovery{Resource: own + u.EscapedPath()} // without the query, which may have secrets
	switch {
	case r != nil && issuer == "" && len(r.Issuers) == 0:
		return Discovery{}, fault(BadMetadata, "the server's metadata name no usable issuer")
	case issuer == "" && r != nil:
		issuer = r.Issuers[0]
	case issuer == "":
		issuer = own // as in the specification 2025-03-26
	}
	if r != nil {
		d.Resource = r.Name
	}
	switch s.Resource {
	case "":
	case ResourceOmit:
		d.Resource = ""
	default:
		d.Resource = s.Resource
	}
	if d.Issuer, err = c.issuer(ctx, issuer, r == nil && s.Issuer == "", s); err != nil {
		return Discovery{}, err
	}
	d.Scopes = scopes(ch, r, d.Issuer, s)
	return d, nil
}

// scopes returns the scopes to request: the configured scopes, or the scopes of the challenge, or
// all scopes of the resource. offline_access requests a refresh token.
func scopes(ch Challenge, r *Resource, i Issuer, s Settings) []string {
	out := slices.Clone(s.Scopes)
	if out == nil {
		out = ValidScopes(ch.Scopes)
		if len(out) == 0 && r != nil {
			out = slices.Clone(r.Scopes)
		}
	}
	const offline = "offline_access"
	if slices.Contains(i.Scopes, offline) && !slices.Contains(out, offline) {
		out = append(out, offline)
	}
	return out
}

// issuer returns the metadata of an issuer. guess permits the endpoints of the specification
// 2025-03-26 if there are no metadata.
func (c *Client) issuer(
	ctx context.Context, name string, guess bool, s Settings,
) (Issuer, error) {
	if s.Authorization != "" && s.Token != "" {
		return Issuer{
			Issuer: name, Authorization: s.Authorization, Token: s.Token, Guessed: true,
		}, nil
	}
	if err := checkURL("the server's issuer", name); err != nil {
		return Issuer{}, err
	}
	var first error
	for _, place := range issuerPlaces(name) {
		var i Issuer
		found, err := c.get(ctx, place, &i)
		if CodeOf(err) == Unreachable {
			return Issuer{}, err
		}
		if err != nil || !found { // many servers send a page or a redirect for an unknown address
			first = cmp.Or(first, err)
			continue
		}
		if guess && strings.TrimSuffix(i.Issuer, "/") == name {
			name = i.Issuer // name is an origin from u, which has no final slash
		}
		return i, checkIssuer(i, name)
	}
	if first != nil {
		return Issuer{}, first
	}
	if !guess {
		return Issuer{}, fault(BadMetadata, "the issuer %s publishes no metadata", Host(name))
	}
	return Issuer{
		Issuer: name, Authorization: name + "/authorize", Token: name + "/token",
		Registration: name + "/register", Guessed: true,
	}, nil
}

// issuerPlaces returns the addresses of an issuer's metadata, in the order of the specification.
func issuerPlaces(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	const oauth, oidc = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	root, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	if path == "" {
		return []string{root + oauth, root + oidc}
	}
	return []string{root + oauth + path, root + oidc + path, root + path + oidc}
}

// checkIssuer returns an error if the gateway must not sign in with these metadata.
func checkIssuer(i Issuer, name string) error {
	host := Host(name)
	if i.Issuer != name {
		return fault(IssuerMismatch, "the metadata of the issuer %s name another issuer", host)
	}
	ends := map[string]string{
		"authorization_endpoint": i.Authorization, "token_endpoint": i.Token,
		"registration_endpoint": i.Registration, "revocation_endpoint": i.Revocation,
	}
	for _, name := range []string{
		"authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint",
	} {
		if optional := strings.HasPrefix(name, "re"); optional && ends[name] == "" {
			continue
		}
		if err := checkURL("the "+name+" of the issuer "+host, ends[name]); err != nil {
			return err
		}
	}
	if !slices.Contains(i.Challenges, "S256") {
		return fault(NoPKCE, "the issuer %s does not support PKCE with S256, "+
			"so a stolen authorization code could be used", host)
	}
	return nil
}
