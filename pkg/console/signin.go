package console

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// cookieName names the session of a browser. Its path keeps it away from agents' addresses,
// where it would be worth nothing.
const (
	cookieName = "portcullis"
	cookiePath = "/admin"
)

// maxNext is the longest address, in bytes, that a sign-in leads on to.
const maxNext = 2048

// A loginPage is the sign-in page.
type loginPage struct {
	Page
	Form *signIn
}

// A signIn is what the sign-in page shows and sends.
type signIn struct {
	Code  string // of the link that was opened; "": the key is asked for
	Next  string // where to go then, below /admin
	Ended bool   // a form was sent by somebody who is no longer signed in
}

func signInPage(problem string, form *signIn) *loginPage {
	return &loginPage{Page{Title: "Sign in", Problem: problem}, form}
}

// signedIn returns who is signed in in the browser that sends r. Another program at the same name
// may have set a cookie of this name as well, so each is tried.
func (c *Console) signedIn(r *http.Request) (actor string, ok bool) {
	for _, cookie := range r.CookiesNamed(cookieName) {
		if actor, ok = c.o.Login.Actor(cookie.Value); ok {
			return actor, true
		}
	}
	return "", false
}

// askToSignIn answers a browser that sent no valid credentials. A form that it sent is refused in
// place, because a redirect would lose its fields.
func (c *Console) askToSignIn(w http.ResponseWriter, r *http.Request) {
	next := nextOf(r)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		c.render(w, r, http.StatusUnauthorized, "login", signInPage("", &signIn{Next: next, Ended: true}))
		return
	}
	to := rootOf(r) + "admin/login"
	if next != "" {
		to += "?next=" + url.QueryEscape(next)
	}
	leadTo(w, http.StatusSeeOther, to)
}

// login asks for the one click by which the code of a link signs in, or for the key.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	in := signIn{Code: query.Get("code"), Next: safeNext(query.Get("next"))}
	if c.o.Login == nil {
		if c.o.Challenge.Shut != "" {
			c.problem(w, r, http.StatusForbidden, c.o.Challenge.Shut)
			return
		}
		c.problem(w, r, http.StatusNotFound, "Nobody signs in with a browser here.")
		return
	}
	if _, ok := c.signedIn(r); ok {
		leadTo(w, http.StatusSeeOther, afterSignIn(in.Next))
		return
	}
	if site := r.Header.Get("Sec-Fetch-Site"); in.Code == "" && (site == "cross-site" || site == "same-site") {
		// A browser sends a strict cookie along with no link of another site's page, such as
		// a chat with an agent. What this page leads to is asked for by this page.
		w.Header().Set("Refresh", "0; url="+afterSignIn(in.Next))
	}
	if in.Code != "" && !c.o.Login.Takes(in.Code) {
		in.Code = ""
		c.render(w, r, http.StatusOK, "login", signInPage(spentCode, &in))
		return
	}
	c.render(w, r, http.StatusOK, "login", signInPage("", &in))
}

const spentCode = "This link was used already, is older than ten minutes, or is of an earlier start of the gateway."

// submitLogin trades a code or the key for a session.
func (c *Console) submitLogin(w http.ResponseWriter, r *http.Request) {
	if c.o.Login == nil {
		c.login(w, r)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		c.render(w, r, http.StatusBadRequest, "login", signInPage("The form cannot be read.", &signIn{}))
		return
	}
	next := safeNext(r.PostForm.Get("next"))
	code := r.PostForm.Get("code")
	session, ok := c.o.Login.SignIn(cmp.Or(code, strings.TrimSpace(r.PostForm.Get("key")))) // which was pasted
	if !ok {
		problem := "That is not the admin key of this gateway."
		if code != "" {
			problem = spentCode
		}
		c.o.Log.LogAttrs(r.Context(), slog.LevelWarn, "sign-in refused", slog.Bool("link", code != ""))
		c.render(w, r, http.StatusUnauthorized, "login", signInPage(problem, &signIn{Next: next}))
		return
	}
	actor, _ := c.o.Login.Actor(session)
	c.o.Log.LogAttrs(r.Context(), slog.LevelInfo, "signed in", slog.String("actor", actor), slog.Bool("link", code != ""))
	setCookie(w, r, session, 0)
	leadTo(w, http.StatusSeeOther, afterSignIn(next))
}

// signOut ends the browser's session.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	if c.o.Login != nil {
		for _, cookie := range r.CookiesNamed(cookieName) {
			c.o.Login.SignOut(cookie.Value)
		}
	}
	setCookie(w, r, "", -1)
	leadTo(w, http.StatusSeeOther, "./login")
}

// setCookie keeps a session in the browser, or with a negative age takes it away.
func setCookie(w http.ResponseWriter, r *http.Request, session string, maxAge int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // over http on loopback a Secure cookie would not be kept
		Name: cookieName, Value: session, Path: cookiePath, MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
}

// leadTo redirects a browser to an address relative to where it is: this program may not know what
// precedes /admin.
func leadTo(w http.ResponseWriter, status int, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(status)
}

// rootOf returns the relative address of the parent of /admin.
func rootOf(r *http.Request) string {
	if n := strings.Count(r.URL.EscapedPath(), "/") - 1; n > 0 {
		return strings.Repeat("../", n)
	}
	return "./"
}

// nextOf returns the address of r below /admin, with its query, to which a sign-in leads back.
func nextOf(r *http.Request) string {
	next := strings.TrimPrefix(strings.TrimPrefix(r.URL.EscapedPath(), "/admin"), "/")
	if r.URL.RawQuery != "" && r.Method == http.MethodGet {
		next += "?" + r.URL.RawQuery
	}
	return safeNext(next)
}

// safeNext returns next if it is an address below /admin, and "" if it could lead anywhere else.
func safeNext(next string) string {
	u, err := url.Parse("./" + next)
	if err != nil || len(next) > maxNext || strings.HasPrefix(next, "/") || strings.Contains(next, `\`) || strings.ContainsFunc(next, unicode.IsControl) {
		return ""
	}
	steps := strings.Split(strings.TrimPrefix(u.Path, "./"), "/")
	if slices.Contains(steps, "..") || slices.Contains(steps, ".") || steps[0] == "login" || steps[0] == "logout" {
		return ""
	}
	return next
}

// afterSignIn returns where next is, seen from the page that signs in.
func afterSignIn(next string) string {
	if next == "" || strings.HasPrefix(next, "?") {
		return "../admin" + next
	}
	return "./" + next
}
