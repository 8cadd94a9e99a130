package console

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// maxCookies is how many cookies of the session's name are looked up for one request.
const maxCookies = 4

// A cookieKind is how cookies are set under one scheme. Over https the prefix keeps other hosts of
// the domain from setting them, and they are sent along with links of other sites, such as a chat
// with an agent. Over http, on loopback, every program that serves pages on this machine could set
// and read them: they are sent along with no link of another site, and to /admin alone.
type cookieKind struct {
	prefix, path string
	secure       bool
	sameSite     http.SameSite
}

// cookiePath keeps a cookie away from agents' addresses, where it would be worth nothing.
const cookiePath = "/admin"

func (c *Console) cookieKind(r *http.Request) cookieKind {
	if c.overTLS(r) {
		return cookieKind{"__Host-portcullis", "/", true, http.SameSiteLaxMode}
	}
	return cookieKind{"portcullis", cookiePath, false, http.SameSiteStrictMode}
}

// overTLS reports whether the browser asks over https: this program ends TLS, or something before
// it does, as API Gateway, which the base URL says, or X-Forwarded-Proto. Who makes that header up
// harms himself alone.
func (c *Console) overTLS(r *http.Request) bool {
	secure := strings.HasPrefix(c.o.BaseURL, "https://")
	switch {
	case r.TLS != nil, secure && c.isBaseHost(r):
		return true
	case isLoopback(hostOf(r.Host)):
		return false
	}
	proto, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return secure || strings.EqualFold(strings.TrimSpace(proto), "https")
}

// isOpenToEavesdroppers reports whether a session would cross a network in clear.
func (c *Console) isOpenToEavesdroppers(r *http.Request) bool {
	return !c.overTLS(r) && !isLoopback(hostOf(r.Host))
}

// set keeps a value in the browser, or with a negative age takes it away.
func (k cookieKind) set(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // over http on loopback a Secure cookie would not be kept
		Name: k.prefix + name, Value: value, Path: k.path, MaxAge: maxAge, HttpOnly: true, SameSite: k.sameSite, Secure: k.secure,
	})
}

// cookies returns the sessions that r names. Another program at the same name may have set a cookie
// of this name as well.
func (c *Console) cookies(r *http.Request) (out []secret.Text) {
	for _, cookie := range r.CookiesNamed(c.cookieKind(r).prefix) {
		if len(out) < maxCookies {
			out = append(out, secret.New(cookie.Value))
		}
	}
	return out
}

// signedIn returns the session of the browser that sends r, and its cookie, or
// [signin.ErrNotFound].
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
		if errors.Is(err, signin.ErrNotFound) { // else a store could not tell, which counts
			err = found
		}
	}
	return cookie, s, err
}

// isPoll reports whether a page asks by itself whether it has become another: whoever left it open
// may have gone. A browser asks so for no page of ours, as it keeps none.
func isPoll(r *http.Request) bool {
	return isSafe(r.Method) && r.Header.Get("If-None-Match") != ""
}

// proves reports whether r, whose form was read, holds the proof that a page of its session holds.
func proves(r *http.Request, csrf string) bool {
	proof := r.Header.Get("X-CSRF-Token")
	if proof == "" {
		proof = r.PostForm.Get("csrf")
	}
	return token.SameHash(csrf, proof)
}

// formRead reads the form of a request that may change something, if it has one. It answers a form
// that cannot be read, and returns false then; nothing is what did not happen.
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

// keysCookie says, behind the prefix of its kind, whether single keys are commands.
const keysCookie = "-keys"

// singleKeys reports whether the browser that sends r wants single keys to be commands, as they are
// unless somebody said no: who speaks to a browser, or presses keys by mistake, does without.
func (c *Console) singleKeys(r *http.Request) bool {
	cookie, err := r.Cookie(c.cookieKind(r).prefix + keysCookie)
	return err != nil || cookie.Value != "off"
}
