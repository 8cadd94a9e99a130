package console

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// A SignIn configures how people sign in with a browser.
type SignIn struct {
	Sessions *signin.Sessions

	// Check returns the person to whom a typed secret belongs. The secret is not stored. The Kind
	// of an [*identity.Error] says why the secret was refused.
	Check func(r *http.Request, text secret.Text) (signin.Person, error)

	// Token and Bootstrap say which secrets a person may type, so that the page can explain them.
	// The gateway accepts the admin key if Codes is set.
	Token, Bootstrap bool

	// Rights returns the rights of a session. If it is nil, people have all rights, except people
	// of an issuer, who have none.
	Rights func(signin.Session) identity.Rights

	Issuer *signin.Issuer // at which people sign in; nil: none

	Codes *signin.Codes // of the links that sign the owner in; nil: no links and no key
	Owner string        // the owner's name in the audit
}

func (s *SignIn) rights(x signin.Session) identity.Rights {
	switch {
	case s.Rights != nil:
		return s.Rights(x)
	case x.Way == signin.WayOIDC:
		return identity.Rights{}
	}
	return identity.Everything()
}

// maxNext limits the bytes of the address to which a sign-in redirects.
const maxNext = 8 << 10 // an ask link's code may contain a long URI

// A loginPage is the page on which people sign in.
type loginPage struct {
	Page
	Code                  string        // of the opened link; "": the person types a secret
	Next                  string        // address after the sign-in, below /admin
	Form                  *resubmission // form that a person sent after their session had ended
	Key, Token, Bootstrap bool          // accepted secrets
	Issuer                string        // host of the issuer; "": none
	Own                   string        // this page at the base URL, if at another host
	SignedOut             bool          // the person signed out here, but not at the issuer
	EndSession            string        // address that ends the issuer's session; "": not known
}

// Typed reports whether the page has a field for a secret.
func (p *loginPage) Typed() bool { return p.Key || p.Token || p.Bootstrap }

// askFor returns the sign-in page that leads to next, below /admin.
func (c *Console) askFor(r *http.Request, next string) *loginPage {
	o := c.o.SignIn
	p := &loginPage{
		Page:      Page{Title: "Sign in"},
		Next:      next,
		Key:       o.Codes != nil,
		Token:     o.Token,
		Bootstrap: o.Bootstrap,
	}
	if o.Issuer != nil {
		p.Issuer, p.Own = o.Issuer.Host(), c.ownLogin(r, next)
	}
	return p
}

// askToSignIn answers a browser without valid credentials. The sign-in page keeps the form that the
// browser sent.
func (c *Console) askToSignIn(w http.ResponseWriter, r *http.Request) {
	if !isSafe(r.Method) {
		kept := resubmissionOf(w, r)
		p := c.askFor(r, kept.Page)
		p.Form = kept
		c.render(w, r, http.StatusUnauthorized, "login", p)
		return
	}
	to := rootOf(r) + "admin/login"
	if next := nextOf(r); next != "" {
		to += "?next=" + url.QueryEscape(next)
	}
	redirectTo(w, http.StatusSeeOther, to)
}

// closed reports whether nobody can sign in here. In that case it answers with the reason.
func (c *Console) closed(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case c.o.Challenge.Shut != "":
		c.problem(w, r, http.StatusForbidden, sentence(c.o.Challenge.Shut))
	case c.o.SignIn == nil:
		c.problem(w, r, http.StatusNotFound, "People cannot sign in with a browser here.")
	case c.isOpenToEavesdroppers(r):
		c.problem(w, r, http.StatusForbidden, "Nobody can sign in over plain http from another "+
			"machine, because others on the network could read your secret and your session. "+
			"Open this page over https, or on the machine itself at a loopback address.")
	default:
		return false
	}
	return true
}

// login shows the button that signs in by the code of a link, or the field for a secret.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	if c.closed(w, r) {
		return
	}
	query := r.URL.Query()
	p := c.askFor(r, safeNext(query.Get("next")))
	if _, _, err := c.signedIn(r); err == nil {
		redirectTo(w, http.StatusSeeOther, afterSignIn(p.Next))
		return
	}
	if p.Issuer != "" && query.Has("out") && fromHere(r) {
		p.SignedOut, p.EndSession = true, c.o.SignIn.Issuer.EndSession(r.Context())
	}
	code := query.Get("code")
	if site := r.Header.Get("Sec-Fetch-Site"); code == "" && !c.overTLS(r) &&
		(site == "cross-site" || site == "same-site") {
		// A browser does not send a strict cookie after a link from another site, such as a chat
		// with an agent. So this page reloads the address itself.
		w.Header().Set("Refresh", "0; url="+afterSignIn(p.Next))
	}
	switch {
	case code == "":
	case c.o.SignIn.Codes != nil && c.o.SignIn.Codes.Takes(code):
		p.Code = code
	default:
		p.Problem = spentCode
	}
	c.render(w, r, http.StatusOK, "login", p)
}

const spentCode = "This link was used already, is older than ten minutes, or is from an earlier start of the gateway."

// submitLogin exchanges a code or a secret for a session.
func (c *Console) submitLogin(w http.ResponseWriter, r *http.Request) {
	if c.closed(w, r) {
		return
	}
	p := c.askFor(r, "")
	if err := readForm(w, r); err != nil {
		p.Problem = "The form cannot be read. You are not signed in."
		c.render(w, r, http.StatusBadRequest, "login", p)
		return
	}
	p.Next, p.Form = safeNext(r.PostForm.Get("next")), keptOf(r.PostForm)
	code := r.PostForm.Get("code")
	// People paste the secret, perhaps with white space around it.
	typed := secret.New(strings.TrimSpace(r.PostForm.Get("key")))
	if p.Issuer != "" && r.PostForm.Has("issuer") && typed.Reveal() == "" {
		c.leave(w, r, p)
		return
	}
	who, cookie, err := c.open(r, code, typed)
	if err != nil {
		c.o.Log.LogAttrs(
			r.Context(),
			slog.LevelWarn,
			"sign-in refused",
			slog.Bool("link", code != ""),
			slog.Any("error", err),
		)
		var status int
		status, p.Problem = c.notSignedIn(w, code != "", err)
		c.render(w, r, status, "login", p)
		return
	}
	c.enter(w, r, who, cookie)
	if p.Form != nil {
		c.showForm(w, r, cookie, p.Form)
		return
	}
	redirectTo(w, http.StatusSeeOther, afterSignIn(p.Next))
}

// enter sets the cookie of a new session in the browser.
func (c *Console) enter(
	w http.ResponseWriter,
	r *http.Request,
	who signin.Person,
	cookie secret.Text,
) {
	c.o.Log.LogAttrs(
		r.Context(),
		slog.LevelInfo,
		"signed in",
		slog.String("actor", who.Actor),
		slog.String("way", who.Way),
	)
	c.record(r, audit.Line{Action: audit.ActionLogin, Actor: who.Actor, Note: "by " + who.Way})
	c.endAll(r) // a browser has one session
	c.cookieKind(r).set(w, "", cookie.Reveal(), 0)
}

// showForm shows the form that a person sent before the sign-in, for the session of this cookie.
func (c *Console) showForm(
	w http.ResponseWriter,
	r *http.Request,
	cookie secret.Text,
	form *resubmission,
) {
	c.showResubmit(
		w,
		r,
		http.StatusOK,
		c.o.SignIn.Sessions.CSRF(cookie),
		&resubmitPage{Page: Page{Title: "Signed in"}, Form: form},
	)
}

// errSpent refuses a code that is spent.
var errSpent = errors.New("the code of the link is no longer valid")

// open opens a session for a valid code or a valid secret.
func (c *Console) open(
	r *http.Request,
	code string,
	typed secret.Text,
) (who signin.Person, cookie secret.Text, err error) {
	o := c.o.SignIn
	switch {
	case code == "":
		who, err = o.Check(r, typed)
	case o.Codes == nil || !o.Codes.Takes(code):
		err = errSpent
	default:
		who = signin.Person{Actor: o.Owner, Way: signin.WayLink}
	}
	if err != nil {
		return who, cookie, err
	}
	if cookie, err = o.Sessions.Open(r.Context(), who, r.UserAgent()); err != nil {
		return who, cookie, &identity.Error{Kind: identity.Unavailable, Err: err}
	}
	if code != "" && !o.Codes.Use(code) { // another request has used the code
		return who, secret.Text{}, errors.Join(errSpent, o.Sessions.End(r.Context(), cookie))
	}
	return who, cookie, nil
}

// notSignedIn returns the status and the message for a failed sign-in.
func (c *Console) notSignedIn(
	w http.ResponseWriter,
	link bool,
	err error,
) (status int, problem string) {
	e, ok := errors.AsType[*identity.Error](err)
	switch {
	case link && !ok:
		return http.StatusUnauthorized, spentCode
	case !ok:
	case e.Kind == identity.Scope:
		return http.StatusForbidden, `This token is valid, but it is not an admin token: it was made without "admin": true. You are not signed in. An operator can make an admin token for you.`
	case e.Kind == identity.Unavailable:
		return http.StatusServiceUnavailable, "You are not signed in: the gateway's store does not answer for now. Try again in a minute with the same link or secret."
	case e.Kind == identity.Throttled:
		return http.StatusTooManyRequests, fmt.Sprintf(
			"Too many wrong tokens came from your address, so this one was not checked. You are not signed in. Try again in %d seconds.",
			retryAfter(w, e),
		)
	}
	switch o := c.o.SignIn; {
	case o.Token:
		return http.StatusUnauthorized, "This is not a token of this gateway, or the token has expired or was revoked. You are not signed in."
	case o.Codes != nil:
		return http.StatusUnauthorized, "This is not the admin key of this gateway. You are not signed in."
	case !o.Bootstrap:
		return http.StatusUnauthorized, "This gateway accepts no typed secret. You are not signed in."
	}
	return http.StatusUnauthorized, "This is not the bootstrap token: the gateway has another SHA-256. You are not signed in."
}

// endAll ends the sessions of the browser's cookies.
func (c *Console) endAll(r *http.Request) {
	for _, cookie := range c.cookies(r) {
		if err := c.o.SignIn.Sessions.End(r.Context(), cookie); err != nil {
			c.o.Log.LogAttrs(
				r.Context(),
				slog.LevelWarn,
				"session not ended",
				slog.Any("error", err),
			)
		}
	}
}

// signOut ends the browser's session.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	if !c.formRead(w, r, "you are still signed in") {
		return
	}
	cookie, session, err := c.signedIn(r)
	switch {
	case err == nil && !proves(r, c.o.SignIn.Sessions.CSRF(cookie)):
		c.deny(
			w,
			r,
			http.StatusForbidden,
			"you are still signed in: the button is not from a page of your current session; load the page again and press the button there",
		)
		return
	case err == nil:
		err = c.o.SignIn.Sessions.End(r.Context(), cookie)
	}
	if err != nil && !errors.Is(err, signin.ErrNotFound) {
		c.o.Log.LogAttrs(r.Context(), slog.LevelError, "session not ended", slog.Any("error", err))
		c.deny(w, r, http.StatusServiceUnavailable, "you are still signed in, because the "+
			"gateway's store does not answer now; try again in a minute")
		return
	}
	if err == nil {
		c.o.Log.LogAttrs(
			r.Context(),
			slog.LevelInfo,
			"signed out",
			slog.String("actor", session.Actor),
		)
		c.record(r, audit.Line{Action: audit.ActionLogout, Actor: session.Actor})
	}
	c.cookieKind(r).set(w, "", "", -1)
	to := rootOf(r) + "admin/login"
	if session.Way == signin.WayOIDC {
		to += "?out=issuer"
	}
	redirectTo(w, http.StatusSeeOther, to)
}

// redirectTo redirects a browser to a relative address: this program may not know the path before
// /admin.
func redirectTo(w http.ResponseWriter, status int, to string) {
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

// nextOf returns the address of r below /admin, with its query, as the target of a sign-in.
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
	if err != nil || len(next) > maxNext || strings.HasPrefix(next, "/") ||
		strings.Contains(next, `\`) ||
		strings.ContainsFunc(next, unicode.IsControl) {
		return ""
	}
	steps := strings.Split(strings.TrimPrefix(u.Path, "./"), "/")
	if slices.Contains(steps, "..") || slices.Contains(steps, ".") || steps[0] == "login" ||
		steps[0] == "logout" {
		return ""
	}
	return next
}

// afterSignIn returns the address of next relative to the sign-in page.
func afterSignIn(next string) string {
	if next == "" || strings.HasPrefix(next, "?") {
		return "../admin" + next
	}
	return "./" + next
}
