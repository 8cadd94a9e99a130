package upstream

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// An endpoint is a [Target] made ready to be dialed.
type endpoint struct {
	url    *url.URL
	header http.Header
	values []string // every configured or resolved text that an error must not show
	refs   []string // secrets that the headers refer to

	secrets []string // those of values that are credentials: no result may show them
}

// resolve makes t ready. Its error is a [configError] or a [credentialError];
// nothing has been sent then.
func (c *Client) resolve(ctx context.Context, t Target) (*endpoint, error) {
	u, err := c.checkURL(t.URL)
	if err != nil {
		return nil, err
	}
	ep := &endpoint{url: u, header: http.Header{}, values: urlSecrets(u), secrets: urlCredentials(u)}
	for _, name := range sortedKeys(t.Headers) {
		if err := c.addHeader(ctx, ep, name, t.Headers[name]); err != nil {
			return nil, err
		}
	}
	return ep, nil
}

// checkURL finds what is wrong with a URL before anything is dialed. Addresses
// behind names are checked when they are dialed.
func (c *Client) checkURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The error of url.Parse repeats the URL, and with it what may be secret.
		return nil, &configError{msg: "the URL does not parse"}
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, &configError{msg: fmt.Sprintf("the URL's scheme %q is not https", u.Scheme)}
	case u.Hostname() == "":
		return nil, &configError{msg: "the URL has no host"}
	case u.Scheme == "http" && len(c.dialer.Rule.Allow) == 0:
		return nil, &configError{msg: "the URL is not https, and no network is allowed for http"}
	}
	port := map[string]uint64{"https": 443, "http": 80}[u.Scheme]
	if p := u.Port(); p != "" {
		if port, err = strconv.ParseUint(p, 10, 16); err != nil || port == 0 {
			return nil, &configError{msg: "the URL's port is not one"}
		}
	}
	u.Fragment, u.RawFragment = "", ""
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		if err := c.dialer.Rule.Check(u.Scheme, netip.AddrPortFrom(addr, uint16(port))); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// addHeader resolves the references in value and checks what comes out.
func (c *Client) addHeader(ctx context.Context, ep *endpoint, name, value string) error {
	resolved, err := c.expand(ctx, ep, value)
	if err != nil {
		return err
	}
	if !tool.IsHeaderName(name) {
		return &configError{msg: fmt.Sprintf("%q is not the name of a header", name)}
	}
	if strings.ContainsFunc(resolved, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return &configError{msg: fmt.Sprintf("the value of header %q holds a control character", name)}
	}
	ep.header.Set(name, resolved)
	ep.values = append(ep.values, resolved)
	_, credential, ok := strings.Cut(resolved, " ")
	if ok {
		ep.values = append(ep.values, credential)
	}
	if isSecret(name, resolved) {
		ep.secrets = append(ep.secrets, resolved)
		if ok {
			ep.secrets = append(ep.secrets, credential)
			ep.secrets = append(ep.secrets, basic(resolved)...)
		}
	}
	return nil
}

// basic returns what a header of HTTP's Basic scheme encodes: user and password, and the password.
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

// expand replaces each ${ref} of value.
func (c *Client) expand(ctx context.Context, ep *endpoint, value string) (string, error) {
	resolved, err := secret.Expand(value, func(ref string) (string, error) {
		v, err := c.vault.get(ctx, ref)
		switch {
		case errors.Is(err, secret.ErrNotFound):
			return "", &configError{"a header refers to a secret that does not exist", err}
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
		return "", &configError{msg: "a header " + err.Error()}
	}
	return resolved, err
}

// blockedRedirect tells a response that redirects to an address that may not be dialed.
// Redirects are not followed; this one is worth an alarm of its own. A name is not
// resolved for it.
func (c *Client) blockedRedirect(ep *endpoint, x *exchange) bool {
	if ep == nil || x == nil || x.status/100 != 3 {
		return false
	}
	to, err := ep.url.Parse(x.header.Get("Location"))
	if err != nil || to.Host == ep.url.Host {
		return false
	}
	host := to.Hostname()
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		host = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	port, err := strconv.ParseUint(to.Port(), 10, 16)
	if err != nil {
		port = 443
	}
	return c.dialer.Rule.Check("https", netip.AddrPortFrom(addr, uint16(port))) != nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
