package config

import (
	"net/url"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// An Auth is the member auth of a server: how the gateway signs in to it. With the zero value, the
// gateway discovers everything.
type Auth struct {
	Off           bool        // the gateway does not sign in
	ClientID      string      // "": the gateway registers itself
	ClientSecret  secret.Text // a reference to the secret
	ClientAuth    string      // basic, post or none; "": a method that the issuer supports
	Issuer        string      // "": discovered
	Authorization string      // authorization endpoint; "": discovered, as is the token endpoint
	Token         string
	Scopes        []string // nil: the scopes that the server asks for
	Resource      string   // "": the resource that the server publishes; resourceOmit: none
	NoRegister    bool
}

// resourceOmit is the value of [Auth.Resource] that sends no resource.
const resourceOmit = "omit"

// SignsIn reports whether the gateway can sign in to the server: the server has a URL, its auth
// is not "none", and the config has no other credential for it.
func (s *Server) SignsIn() bool {
	_, credential := s.Headers["Authorization"]
	return s.Command == nil && !s.Auth.Off && !credential
}

// fileAuth is the member auth of a server.
type fileAuth struct {
	Type          *string  `json:"type,omitempty" jsonschema:"enum=oauth,enum=none,default=oauth" jsonschema_description:"oauth: the gateway can sign in, if the server requires it. none: it never signs in."`
	As            *string  `json:"as,omitempty" jsonschema:"enum=gateway,default=gateway" jsonschema_description:"gateway: one sign-in of the gateway, which all agents share."`
	Grant         *string  `json:"grant,omitempty" jsonschema:"enum=code,default=code" jsonschema_description:"code: a person signs in with a browser."`
	ClientID      *string  `json:"client_id,omitempty" jsonschema:"minLength=1" jsonschema_description:"The client that is registered at the issuer. The default is a registration by the gateway."`
	ClientSecret  *string  `json:"client_secret,omitempty" jsonschema:"pattern=^\\$\\{.+\\}$" jsonschema_description:"The client's secret, as a reference: ${secretsmanager:name}, ${ssm:/name} or ${env:NAME}."`
	ClientAuth    *string  `json:"client_auth,omitempty" jsonschema:"enum=basic,enum=post,enum=none" jsonschema_description:"How the client proves its identity at the token endpoint. The default is what the issuer supports."`
	Issuer        *string  `json:"issuer,omitempty" jsonschema:"pattern=^https?://" jsonschema_description:"The authorization server. The default is the first one in the server's metadata."`
	Authorization *string  `json:"authorization_endpoint,omitempty" jsonschema:"pattern=^https?://" jsonschema_description:"Where a person signs in, for an issuer without metadata. Needs token_endpoint."`
	Token         *string  `json:"token_endpoint,omitempty" jsonschema:"pattern=^https?://" jsonschema_description:"Where the gateway gets tokens, for an issuer without metadata. Needs authorization_endpoint."`
	Scopes        []string `json:"scopes,omitempty" jsonschema_description:"The scopes to request, which are also the maximum. The default is what the server asks for."`
	Resource      *string  `json:"resource,omitempty" jsonschema:"default=auto" jsonschema_description:"auto: the resource that the server publishes. omit: none, for an issuer that refuses it. Otherwise the URI to send."`
	Register      *string  `json:"register,omitempty" jsonschema:"enum=auto,enum=never,default=auto" jsonschema_description:"auto: the gateway registers itself at the issuer if it needs to. never: only client_id is used."`
}

// auth checks the member auth of a server.
func (c *checker) auth(f *fileServer, n *rawjson.Node, path string) (a Auth) {
	at, path := n.Get("auth"), JoinPath(path, "auth")
	if f.Auth == nil || c.bad[at] {
		return a
	}
	if n.Get("command") != nil {
		c.fault(at, path, "belongs to a server with a url; a program gets its credentials in env")
		return a
	}
	for name := range f.Headers {
		if strings.EqualFold(name, "Authorization") &&
			c.oneOf(f.Auth.Type, at, path, "type", "oauth", "none") != "none" {
			c.fault(at, path, "conflicts with the header Authorization; remove one of them")
			return a
		}
	}
	v := f.Auth
	a.Off = c.oneOf(v.Type, at, path, "type", "oauth", "none") == "none"
	c.oneOf(v.As, at, path, "as", "gateway")
	c.oneOf(v.Grant, at, path, "grant", "code")
	a.ClientAuth = c.oneOf(v.ClientAuth, at, path, "client_auth", "", "basic", "post", "none")
	a.NoRegister = c.oneOf(v.Register, at, path, "register", "auto", "never") == "never"
	a.ClientID = c.plain(v.ClientID, at, path, "client_id")
	a.Issuer = c.endpoint(v.Issuer, at, path, "issuer")
	a.Authorization = c.endpoint(v.Authorization, at, path, "authorization_endpoint")
	a.Token = c.endpoint(v.Token, at, path, "token_endpoint")
	a.Scopes = v.Scopes
	for i, scope := range v.Scopes {
		if !text.IsPlain(scope) {
			c.fault(
				at.Get("scopes").Kids[i],
				index(JoinPath(path, "scopes"), i),
				"%q is not a scope; write each scope as a separate text",
				clip(scope),
			)
		}
	}
	if (a.Authorization == "") != (a.Token == "") {
		c.fault(
			at,
			path,
			"has only one of authorization_endpoint and token_endpoint; write both or none",
		)
	}
	c.authClient(v, at, path, &a)
	return a
}

// authClient checks the members that concern the client and the resource.
func (c *checker) authClient(v *fileAuth, at *rawjson.Node, path string, a *Auth) {
	if node := at.Get("client_secret"); v.ClientSecret != nil && !c.bad[node] {
		ref, ok := secret.Reference(*v.ClientSecret)
		switch {
		case !ok:
			c.fault(
				node,
				JoinPath(path, "client_secret"),
				"is not a reference; write ${secretsmanager:name}, ${ssm:/name} or ${env:NAME}",
			)
		case secret.Check(ref) != nil:
			c.fault(node, JoinPath(path, "client_secret"), "%s", secret.Check(ref))
		case v.ClientID == nil:
			c.fault(node, JoinPath(path, "client_secret"), "needs a client_id")
		}
		a.ClientSecret = secret.New(*v.ClientSecret)
	}
	if a.NoRegister && v.ClientID == nil && !a.Off {
		c.fault(at.Get("register"), JoinPath(path, "register"), "\"never\" requires a client_id")
	}
	node := at.Get("resource")
	if v.Resource == nil || c.bad[node] {
		return
	}
	switch *v.Resource {
	case "auto":
	case resourceOmit:
		a.Resource = resourceOmit
		c.warn(
			node,
			JoinPath(path, "resource"),
			"with omit, the issuer does not know for which server a token is; "+
				"use omit only if the issuer refuses the resource",
		)
	default:
		if u, err := url.Parse(*v.Resource); err != nil || !u.IsAbs() || u.Fragment != "" {
			c.fault(node, JoinPath(path, "resource"), "must be auto, omit or an absolute URI without a fragment")
		}
		a.Resource = *v.Resource
	}
}

// plain returns the text of a member. It reports a fault if the text is empty or contains a control
// character.
func (c *checker) plain(value *string, n *rawjson.Node, path, key string) string {
	at := n.Get(key)
	if value == nil || c.bad[at] {
		return ""
	}
	if *value == "" ||
		strings.ContainsFunc(*value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		c.fault(at, JoinPath(path, key), "is empty or holds a control character")
	}
	return *value
}

// endpoint returns the URL in a member. It reports a fault if the gateway must not send codes and
// tokens there: the URL must be https, or http on this machine.
func (c *checker) endpoint(value *string, n *rawjson.Node, path, key string) string {
	at := n.Get(key)
	if value == nil || c.bad[at] {
		return ""
	}
	u, err := url.Parse(*value)
	switch {
	case err != nil || u.Host == "" || !text.IsPlain(*value):
		c.fault(at, JoinPath(path, key), "is not a URL")
	case u.User != nil || u.Fragment != "":
		c.fault(at, JoinPath(path, key), "has a user, a password or a fragment")
	case u.Scheme != "https" && (u.Scheme != "http" || !hostname.IsLoopback(u.Hostname())):
		c.fault(at, JoinPath(path, key), "is not an https URL")
	}
	return *value
}
