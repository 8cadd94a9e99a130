package upstream

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

// An endpoint is a [Target] that is ready for requests.
type endpoint struct {
	url    *url.URL
	header http.Header
	values []string // configured or resolved texts that an error must not show
	refs   []string // secrets that the headers refer to

	secrets []string // the credentials among values: no result may show them

	token secret.Text // of the gateway's sign-in; empty: none

	transport transport
}

// A transport makes one exchange with a server as HTTP does, and stores its facts for the caller of
// [recorded]. An [http.Client] is the transport for URLs, a [programTransport] is the transport for
// programs.
type transport interface {
	Do(req *http.Request) (*http.Response, error)
}

// resolve prepares t for requests of the owner that key names. Its error is a [configError] or a
// [credentialError]; the gateway has sent nothing then. The dialer checks addresses later.
func (c *Client) resolve(ctx context.Context, t Target, key entryKey) (*endpoint, error) {
	if t.Command != nil {
		return c.resolveCommand(ctx, t, key)
	}
	u, err := url.Parse(t.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		// The error of url.Parse repeats the URL, which may contain secrets.
		return nil, &configError{msg: "the URL must be https or http, with a host"}
	}
	u.Fragment, u.RawFragment = "", ""
	ep := &endpoint{url: u, header: http.Header{}, transport: c.http}
	ep.values, ep.secrets = urlSecrets(u)
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		if err := c.addHeader(ctx, ep, name, t.Headers[name]); err != nil {
			return nil, err
		}
	}
	if err := c.addToken(ctx, ep, t, key.load); err != nil {
		return nil, err
	}
	return ep, nil
}

// addToken adds the access token of the gateway's sign-in at the server. A call reads the token
// only if the last load found a sign-in, so that other calls need no further read.
func (c *Client) addToken(ctx context.Context, ep *endpoint, t Target, load bool) error {
	if c.o.Connections == nil || t.SignIn == nil || !load && !t.Connected {
		return nil
	}
	token, err := c.o.Connections.Token(ctx, t.signInServer())
	if err == nil {
		ep.useToken(token, c.o.Connections.Secrets(t.signInServer()))
	} else if _, ended := errors.AsType[*oauth.EndedError](err); !ended {
		return &tokenError{err}
	}
	return err
}

func (t Target) signInServer() oauth.Server {
	return oauth.Server{Name: t.ID, URL: t.URL, Settings: *t.SignIn}
}

// useToken adds a token to each request, and to the secrets that no text or result shows. others
// are further secrets.
func (ep *endpoint) useToken(token secret.Text, others []string) {
	text := token.Reveal()
	if text == "" {
		return
	}
	ep.token = token
	ep.header.Set("Authorization", "Bearer "+text)
	ep.values, ep.secrets = append(ep.values, text), append(ep.secrets, text)
	for _, other := range others {
		if other != text {
			ep.values, ep.secrets = append(ep.values, other), append(ep.secrets, other)
		}
	}
}

// addHeader resolves the references in value and checks the result.
func (c *Client) addHeader(ctx context.Context, ep *endpoint, name, value string) error {
	resolved, err := c.expand(ctx, ep, "a header", value)
	if err != nil {
		return err
	}
	if strings.ContainsFunc(resolved, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return &configError{msg: fmt.Sprintf("the value of header %q holds a control character", name)}
	}
	ep.header.Set(name, resolved)
	_, credential, _ := strings.Cut(resolved, " ")
	ep.values = append(ep.values, resolved, credential)
	if secret.Looks(name, resolved) {
		ep.secrets = append(append(ep.secrets, resolved, credential), basic(resolved)...)
	}
	return nil
}

// basic returns the decoded parts of a Basic authorization header: user and password, and the
// password.
func basic(value string) []string {
	scheme, encoded, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return nil
	}
	plain, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil
	}
	_, password, _ := strings.Cut(string(plain), ":")
	return []string{string(plain), password}
}

// expand replaces each ${ref} of value. The argument what names the place of the value in errors.
func (c *Client) expand(ctx context.Context, ep *endpoint, what, value string) (string, error) {
	resolved, err := secret.Expand(value, func(ref string) (string, error) {
		v, err := c.cache.get(ctx, ref)
		switch {
		case errors.Is(err, secret.ErrNotFound):
			return "", &configError{what + " refers to a secret that does not exist", err}
		case err != nil:
			return "", &credentialError{err}
		}
		if !slices.Contains(ep.refs, ref) {
			ep.refs = append(ep.refs, ref)
		}
		ep.values = append(ep.values, v)
		ep.secrets = append(ep.secrets, v)
		return v, nil
	})
	if errors.Is(err, secret.ErrUnclosed) {
		return "", &configError{msg: what + " " + err.Error()}
	}
	return resolved, err
}

// A secretCache caches secrets, so that not every request reads them.
type secretCache struct {
	from  secret.Source
	known sync.Map // texts by reference
}

// get returns the secret of ref, from the cache if possible.
func (c *secretCache) get(ctx context.Context, ref string) (string, error) {
	if s, ok := c.known.Load(ref); ok {
		return s.(string), nil
	}
	return c.look(ctx, ref)
}

// look reads the secret from its source again.
func (c *secretCache) look(ctx context.Context, ref string) (string, error) {
	s, err := c.from.Secret(ctx, ref)
	if err == nil {
		c.known.Store(ref, s)
	}
	return s, err
}

// blockedRedirect reports whether a response redirects to an address that may not be dialed. The
// client follows no redirects, but a blocked redirect has its own alarm.
func (c *Client) blockedRedirect(ep *endpoint, x *exchange) bool {
	if ep == nil || x == nil || x.status/100 != 3 {
		return false
	}
	to, err := ep.url.Parse(x.header.Get("Location"))
	return err == nil && to.Host != ep.url.Host && c.dialer.Rule.Blocks(to)
}
