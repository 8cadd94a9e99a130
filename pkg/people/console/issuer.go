package console

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
)

// callbackPath is the address to which the issuer sends a browser back.
const callbackPath = "/admin/login/callback"

// Callback returns the address to which issuers send browsers back, for a gateway whose /admin is
// at base.
func Callback(base string) string { return base + callbackPath }

// A redirectPage is a page that redirects the browser. HTTP redirects have two limits that such a
// page does not have. After a form, a redirect may lead only to hosts in the page's form-action,
// which would have to list every host behind an issuer. After a redirect by another site, browsers
// do not send strict cookies.
type redirectPage struct {
	Page
	To string
}

// redirectFrom answers with a page that redirects.
func (c *Console) redirectFrom(w http.ResponseWriter, r *http.Request, title, to string) {
	w.Header().Set("Refresh", "0; url="+to)
	c.render(
		w,
		r,
		http.StatusOK,
		"redirect",
		&redirectPage{Page: Page{Title: title, Here: "-"}, To: to},
	)
}

// leave redirects a browser to the issuer.
func (c *Console) leave(w http.ResponseWriter, r *http.Request, p *loginPage) {
	carry, err := signInState{Next: p.Next, Form: p.Form}.pack()
	var to, cookie string
	if err == nil {
		to, cookie, err = c.o.SignIn.Issuer.Begin(r.Context(), carry)
	}
	if err != nil {
		c.notAtIssuer(w, r, p, err)
		return
	}
	c.keepPending(w, r, cookie)
	c.redirectFrom(w, r, "Continue at "+p.Issuer, to)
}

// comeBack handles the answer with which the issuer sends a browser back.
func (c *Console) comeBack(w http.ResponseWriter, r *http.Request) {
	if c.closed(w, r) {
		return
	}
	o := c.o.SignIn
	if o.Issuer == nil {
		c.problem(w, r, http.StatusNotFound, "This gateway has no issuer at which people sign in.")
		return
	}
	who, carry, err := o.Issuer.Finish(r.Context(), c.pending(r), r.URL.Query())
	carried := unpack(carry)
	p := c.askFor(r, carried.Next)
	p.Form = carried.Form
	e, failed := errors.AsType[*signin.Error](err)
	if !failed || e.Reason != signin.OtherState { // otherwise the current sign-in continues
		c.keepPending(w, r, "")
	}
	if failed && e.Reason == signin.NotBegun {
		if _, _, err := c.signedIn(r); err == nil { // the browser reloaded the callback
			redirectTo(w, http.StatusSeeOther, "../"+afterSignIn(""))
			return
		}
	}
	if err != nil {
		c.notAtIssuer(w, r, p, err)
		return
	}
	person := signin.Person{
		Actor:   who.Name,
		Way:     signin.WayOIDC,
		Subject: who.Subject,
		Groups:  who.Groups,
	}
	if person.Actor == o.Owner { // only the owner may have this name in the audit
		person.Actor += " (at the issuer)"
	}
	if len(who.Groups) == 0 && !p.asks() {
		c.o.Log.LogAttrs(
			r.Context(),
			slog.LevelWarn,
			"sign-in without a role refused",
			slog.String("actor", person.Actor),
			slog.String("way", person.Way),
		)
		p.Problem = noRole(o.Issuer, person.Actor)
		c.render(w, r, http.StatusForbidden, "login", p)
		return
	}
	cookie, err := o.Sessions.Open(r.Context(), person, r.UserAgent())
	if err != nil {
		c.o.Log.LogAttrs(r.Context(), slog.LevelError, "session not opened", slog.Any("error", err))
		p.Problem = "You are not signed in, and nothing was decided: the gateway's store does not answer for now. Try again in a minute."
		c.render(w, r, http.StatusServiceUnavailable, "login", p)
		return
	}
	c.enter(w, r, person, cookie)
	to := "../" + afterSignIn(p.Next)
	switch {
	case p.Form != nil:
		c.showForm(w, r, cookie, p.Form)
	case c.overTLS(r):
		redirectTo(w, http.StatusSeeOther, to)
	default:
		c.redirectFrom(w, r, "Signed in", to)
	}
}

// asks reports whether the sign-in leads to a page that needs no role.
func (p *loginPage) asks() bool {
	next := p.Next
	if p.Form != nil {
		next = p.Form.Page
	}
	return strings.HasPrefix("/admin/"+next, askAt)
}

// isOfIssuer reports whether the person of a session signed in at the issuer.
func (c *Console) isOfIssuer(s *signin.Session) bool {
	return s != nil && s.Way == signin.WayOIDC && c.o.SignIn.Issuer != nil
}

// noRole returns the message for a person without a role.
func noRole(i *signin.Issuer, name string) string {
	return fmt.Sprintf(
		"You signed in at %s as %q, and none of your groups there has a role here; nothing was done. "+
			"An operator gives a role to a group by the settings PORTCULLIS_VIEWERS, PORTCULLIS_APPROVERS and PORTCULLIS_OPERATORS (parameters Viewers, Approvers, Operators). "+
			"Your groups are in the claim %q of the ID token. If you are new in a group, sign in again.",
		i.Host(),
		name,
		i.Claim(),
	)
}

// notAtIssuer answers after a failed sign-in at the issuer.
func (c *Console) notAtIssuer(w http.ResponseWriter, r *http.Request, p *loginPage, err error) {
	e, ok := errors.AsType[*signin.Error](err)
	if !ok {
		e = &signin.Error{Err: err}
	}
	c.o.Log.LogAttrs(
		r.Context(),
		slog.LevelWarn,
		"sign-in refused",
		slog.String("way", signin.WayOIDC),
		slog.Any("error", err),
	)
	status, why := issuerText(e, p.Issuer)
	p.Problem = why + " You are not signed in, and nothing was decided."
	switch {
	case status == http.StatusServiceUnavailable && p.Typed():
		p.Problem += " Try again in a minute, or sign in with a secret below."
	case status == http.StatusServiceUnavailable:
		p.Problem += " Try again in a minute."
	}
	c.render(w, r, status, "login", p)
}

// issuerText returns the status and the message for a failed sign-in. host is the issuer's host.
func issuerText(e *signin.Error, host string) (status int, why string) {
	const ask = " An operator finds more in the gateway's log."
	switch e.Reason {
	case signin.NotBegun:
		return http.StatusBadRequest, "This browser has no sign-in in progress: the sign-in began in another browser or at another address of this gateway, is complete already, or took more than ten minutes."
	case signin.Late:
		return http.StatusBadRequest, "The sign-in took more than ten minutes."
	case signin.OtherState:
		return http.StatusBadRequest, "This answer does not belong to the last sign-in that began in this browser."
	case signin.OtherIssuer:
		return http.StatusBadRequest, "This answer is not from " + host + ", or does not name it."
	case signin.Refused:
		return http.StatusForbidden, host + " did not sign you in" + refusalText(e.Code) + "."
	case signin.Unsuited:
		return http.StatusBadGateway, host + " refuses this gateway, not you: the settings of " +
			"the issuer or of the gateway are wrong." + ask
	case signin.SpentCode:
		return http.StatusBadRequest, host + " refused the code that your browser brought back: the code was used already, or is too old."
	case signin.BadToken:
		return http.StatusBadGateway, "The ID token of " + host + " is not valid: its signature or its content is wrong." + ask
	case signin.OldToken:
		return http.StatusBadGateway, "The ID token of " + host + " has expired or is not valid yet: perhaps a clock is wrong." + ask
	case signin.OtherAudience:
		return http.StatusBadGateway, "The ID token of " + host + " is for another program than this gateway." + ask
	case signin.OtherNonce:
		return http.StatusBadGateway, "The ID token of " + host + " belongs to another sign-in." + ask
	case signin.TooManyGroups:
		return http.StatusForbidden, host + " left your groups out of the ID token, because there are too many. The administrator of the issuer can limit the list to the groups that this gateway needs, or to roles of the application."
	case signin.Nonsense:
		return http.StatusBadGateway, host + " sent an invalid answer." + ask
	case signin.Unavailable:
		return http.StatusServiceUnavailable, host + " does not answer now, or sends an invalid " +
			"answer."
	case signin.NoKey:
		return http.StatusServiceUnavailable, "The gateway cannot read its own keys now." + ask
	case signin.Malformed:
	}
	return http.StatusBadRequest, "Your browser came back with an invalid answer."
}

// refusalText explains an error code of the OAuth and OpenID standards.
func refusalText(code string) string {
	switch code {
	case "access_denied":
		return ": you declined there, or a rule there refuses you"
	case "login_required", "interaction_required", "account_selection_required", "consent_required":
		return ": it requires a step from you that it did not show"
	}
	return ""
}

// signInState is the data that the console needs after a sign-in at the issuer.
type signInState struct {
	Next string        `json:"next,omitempty"`
	Form *resubmission `json:"kept,omitempty"`
}

// pack encodes the state in at most [signin.MaxCarry] bytes. If the state is too long, pack drops
// the last fields of the form.
func (c signInState) pack() ([]byte, error) {
	if c.Form != nil {
		kept := *c.Form
		c.Form = &kept
	}
	for {
		var b bytes.Buffer
		z, err := flate.NewWriter(&b, flate.BestCompression)
		if err == nil {
			err = json.NewEncoder(z).Encode(c)
		}
		if err == nil {
			err = z.Close()
		}
		switch {
		case err != nil:
			return nil, err
		case b.Len() <= signin.MaxCarry:
			return b.Bytes(), nil
		case c.Form != nil && len(c.Form.Fields) > 0:
			c.Form.Fields, c.Form.Cut = c.Form.Fields[:len(c.Form.Fields)-1], true
		default:
			c = signInState{}
		}
	}
}

// unpack decodes the output of pack; it returns the zero value on an error.
func unpack(packed []byte) (c signInState) {
	z := flate.NewReader(bytes.NewReader(packed))
	defer z.Close()
	if err := json.NewDecoder(io.LimitReader(z, maxForm)).Decode(&c); err != nil {
		return signInState{}
	}
	c.Next = safeNext(c.Next)
	return c
}

// The state of a sign-in is split over several cookies: browsers limit a cookie to 4,096
// characters.
const (
	pendingCookie = "-login"
	maxCookie     = 3800
	maxParts      = 2
)

// pendingKind returns the kind of the cookies of a running sign-in. Unlike session cookies,
// browsers must send them when the issuer redirects back.
func (c *Console) pendingKind(r *http.Request) cookieKind {
	k := c.cookieKind(r)
	k.sameSite = http.SameSiteLaxMode
	return k
}

// keepPending stores a running sign-in in the browser; "" removes it.
func (c *Console) keepPending(w http.ResponseWriter, r *http.Request, kept string) {
	k := c.pendingKind(r)
	for part := range maxParts {
		n := min(len(kept), maxCookie)
		name := fmt.Sprint(pendingCookie, part)
		if n > 0 {
			k.set(w, name, kept[:n], int(signin.Life/time.Second))
		} else if _, err := r.Cookie(k.prefix + name); err == nil {
			k.set(w, name, "", -1)
		}
		kept = kept[n:]
	}
}

// pending returns the sign-in that the browser stores; "" if none.
func (c *Console) pending(r *http.Request) string {
	var kept strings.Builder
	for part := range maxParts {
		if cookie, err := r.Cookie(c.pendingKind(r).prefix + fmt.Sprint(pendingCookie, part)); err == nil {
			kept.WriteString(cookie.Value)
		}
	}
	return kept.String()
}

// ownLogin returns the address of the sign-in page at the base URL, if a browser on this machine
// uses another name of the machine. The browser would send no cookies from that name to
// the base URL, so the sign-in would fail.
// Otherwise ownLogin returns "".
func (c *Console) ownLogin(r *http.Request, next string) string {
	base, err := url.Parse(c.o.BaseURL)
	if err != nil || !hostname.IsLoopback(r.Host) || !hostname.IsLoopback(base.Hostname()) ||
		strings.EqualFold(base.Hostname(), hostname.Trim(r.Host)) {
		return ""
	}
	return c.o.BaseURL + "/admin/login?next=" + url.QueryEscape(next)
}
