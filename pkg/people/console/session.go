package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// maxCookies limits the cookies with the session's name that one request looks up.
const maxCookies = 4

// A cookieKind has the settings of cookies for a scheme. With https, the prefix of the name
// prevents other hosts of the domain from setting the cookies. Browsers also send the cookies after
// a link from another site, such as a chat with an agent. With http on loopback, every local web
// server could set and read the cookies. So browsers send them only to /admin, and not after a link
// from another site.
type cookieKind struct {
	prefix, path string
	secure       bool
	sameSite     http.SameSite
}

// cookiePath keeps cookies away from the agents' endpoints, which do not use them.
const cookiePath = "/admin"

func (c *Console) cookieKind(r *http.Request) cookieKind {
	if c.overTLS(r) {
		return cookieKind{"__Host-portcullis", "/", true, http.SameSiteLaxMode}
	}
	path := cookiePath
	if base, err := url.Parse(c.o.BaseURL); err == nil && strings.HasPrefix(r.RequestURI, base.Path+path) {
		path = base.Path + path // the browser sees the path that a proxy passes on
	}
	return cookieKind{"portcullis", path, false, http.SameSiteStrictMode}
}

// overTLS reports whether the browser uses https. Either this program terminates TLS, or a proxy
// such as API Gateway does: the base URL or X-Forwarded-Proto says so. A caller that forges this
// header harms only themselves.
func (c *Console) overTLS(r *http.Request) bool {
	secure := strings.HasPrefix(c.o.BaseURL, "https://")
	switch {
	case r.TLS != nil, secure && c.isBaseHost(r):
		return true
	case hostname.IsLoopback(r.Host):
		return false
	}
	proto, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return secure || strings.EqualFold(strings.TrimSpace(proto), "https")
}

// isOpenToEavesdroppers reports whether the session would be sent unencrypted over a network.
func (c *Console) isOpenToEavesdroppers(r *http.Request) bool {
	return !c.overTLS(r) && !hostname.IsLoopback(r.Host)
}

// set stores a value in the browser; a negative age removes it.
func (k cookieKind) set(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // over http on loopback a Secure cookie would not be kept
		Name: k.prefix + name, Value: value, Path: k.path, MaxAge: maxAge, HttpOnly: true, SameSite: k.sameSite, Secure: k.secure,
	})
}

// cookies returns the session cookies of r. There can be several cookies, because another program
// on the same host may have set a cookie with this name.
func (c *Console) cookies(r *http.Request) (out []secret.Text) {
	for _, cookie := range r.CookiesNamed(c.cookieKind(r).prefix) {
		if len(out) < maxCookies {
			out = append(out, secret.New(cookie.Value))
		}
	}
	return out
}

// signedIn returns the session of the browser that sent r, and its cookie, or [signin.ErrNotFound].
func (c *Console) signedIn(r *http.Request) (cookie secret.Text, s signin.Session, err error) {
	err = signin.ErrNotFound
	if c.o.SignIn == nil {
		return cookie, s, err
	}
	find := c.o.SignIn.Sessions.Find
	if isPoll(r) {
		find = c.o.SignIn.Sessions.Look
	}
	for _, cookie := range c.cookies(r) {
		s, found := find(r.Context(), cookie)
		if found == nil {
			return cookie, s, nil
		}
		if errors.Is(err, signin.ErrNotFound) { // a failed store is the more important error
			err = found
		}
	}
	return cookie, s, err
}

// isPoll reports whether a script of the page sent r to look for changes. A poll does not show that
// a person uses the browser. A navigation never has this header, because browsers store no copy of
// our pages.
func isPoll(r *http.Request) bool {
	return isSafe(r.Method) && r.Header.Get("If-None-Match") != ""
}

// proves reports whether r has the CSRF token of its session. The form was read before.
func proves(r *http.Request, csrf string) bool {
	proof := r.Header.Get("X-CSRF-Token")
	if proof == "" {
		proof = r.PostForm.Get("csrf")
	}
	return token.SameHash(csrf, proof)
}

// formRead reads the form of a request that may change something, if it has one. If the form cannot
// be read, it answers the request and returns false. The parameter nothing is the end of the
// answer. It says what did not happen.
func (c *Console) formRead(w http.ResponseWriter, r *http.Request, nothing string) bool {
	if isSafe(r.Method) || !isForm(r) {
		return true
	}
	err := readForm(w, r)
	if err == nil {
		return true
	}
	status, why := http.StatusBadRequest, "the form cannot be read"
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		status, why = http.StatusRequestEntityTooLarge, fmt.Sprintf("the form is longer than %d KB", maxForm>>10)
	}
	c.deny(w, r, status, why+"; "+nothing)
	return false
}

// keysCookie is the name, after the prefix of its kind, of the cookie that switches single keys
// off.
const keysCookie = "-keys"

// singleKeys reports whether single keys are commands in this browser. They are by default. People
// who dictate, or press keys by mistake, switch them off.
func (c *Console) singleKeys(r *http.Request) bool {
	return c.choiceOf(r, keysCookie) != "off"
}

// themeCookie is the name, after the prefix of its kind, of the cookie with the theme.
const themeCookie = "-theme"

// theme returns the theme that a person chose in this browser: light, dark, or "" for the theme of
// the system. The theme is in a cookie and not in the browser's storage, so the first byte of a
// page already has it: no script changes a page that was drawn.
func (c *Console) theme(r *http.Request) string {
	if theme := c.choiceOf(r, themeCookie); theme == "light" || theme == "dark" {
		return theme
	}
	return ""
}

// choiceOf returns a choice that a person made for this browser; "": none.
func (c *Console) choiceOf(r *http.Request, name string) string {
	cookie, err := r.Cookie(c.cookieKind(r).prefix + name)
	if err != nil {
		return ""
	}
	return cookie.Value
}
