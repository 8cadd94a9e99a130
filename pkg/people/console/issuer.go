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

	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
)

// callbackPath is where a browser comes back from the issuer.
const callbackPath = "/admin/login/callback"

// Callback returns the address at which browsers come back from the issuer to a gateway, whose
// /admin is at base.
func Callback(base string) string { return base + callbackPath }

// A redirectPage leads on by itself. A browser that is sent on by the answer to a form goes nowhere
// that the page of the form may not send forms to, which would have to be every host that an issuer
// may lead through; and one that is sent on by another site brings no strict cookie. What a page of
// ours leads to is bound to neither.
type redirectPage struct {
	Page
	To string
}

// redirectFrom answers with a page that leads on.
func (c *Console) redirectFrom(w http.ResponseWriter, r *http.Request, title, to string) {
	w.Header().Set("Refresh", "0; url="+to)
	c.render(w, r, http.StatusOK, "redirect", &redirectPage{Page: Page{Title: title, Here: "-"}, To: to})
}

// leave sends a browser to the issuer.
func (c *Console) leave(w http.ResponseWriter, r *http.Request, p *loginPage) {
	carry, err := carried{Next: p.Next, Kept: p.Kept}.pack()
	var to, kept string
	if err == nil {
		to, kept, err = c.o.SignIn.Issuer.Begin(r.Context(), carry)
	}
	if err != nil {
		c.notAtIssuer(w, r, p, err)
		return
	}
	c.keepPending(w, r, kept)
	c.redirectFrom(w, r, "On to "+p.Issuer, to)
}

// comeBack takes the answer with which a browser comes back from the issuer.
func (c *Console) comeBack(w http.ResponseWriter, r *http.Request) {
	if c.closed(w, r) {
		return
	}
	o := c.o.SignIn
	if o.Issuer == nil {
		c.problem(w, r, http.StatusNotFound, "Nobody signs in at an issuer here.")
		return
	}
	who, carry, err := o.Issuer.Finish(r.Context(), c.pending(r), r.URL.Query())
	along := unpack(carry)
	p := c.askFor(r, along.Next)
	p.Kept = along.Kept
	e, failed := errors.AsType[*signin.Error](err)
	if !failed || e.Reason != signin.OtherState { // else the one that is under way goes on
		c.keepPending(w, r, "")
	}
	if failed && e.Reason == signin.NotBegun {
		if _, _, err := c.signedIn(r); err == nil { // and loads the page again that did it
			redirectTo(w, http.StatusSeeOther, "../"+afterSignIn(""))
			return
		}
	}
	if err != nil {
		c.notAtIssuer(w, r, p, err)
		return
	}
	person := signin.Person{Actor: who.Name, Way: signin.WayOIDC, Subject: who.Subject, Groups: who.Groups}
	if person.Actor == o.Owner { // whose name is not the issuer's to give
		person.Actor += " (at the issuer)"
	}
	if len(who.Groups) == 0 && !p.asks() {
		c.o.Log.LogAttrs(r.Context(), slog.LevelWarn, "sign-in without a role refused", slog.String("actor", person.Actor), slog.String("way", person.Way))
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
	case p.Kept != nil:
		c.showKept(w, r, cookie, p.Kept)
	case c.overTLS(r):
		redirectTo(w, http.StatusSeeOther, to)
	default:
		c.redirectFrom(w, r, "Signed in", to)
	}
}

// asks reports whether the sign-in leads on to a page that takes no role.
func (p *loginPage) asks() bool {
	next := p.Next
	if p.Kept != nil {
		next = p.Kept.Page
	}
	return strings.HasPrefix("/admin/"+next, askAt)
}

// isOfIssuer reports whether a session is of somebody who signed in at the issuer.
func (c *Console) isOfIssuer(s *signin.Session) bool {
	return s != nil && s.Way == signin.WayOIDC && c.o.SignIn.Issuer != nil
}

// noRole is what a person without a role is told.
func noRole(i *signin.Issuer, name string) string {
	return fmt.Sprintf("You signed in at %s as %q, and none of your groups there has a role here; nothing was done. "+
		"An operator gives a role to a group by the settings PORTCULLIS_VIEWERS, PORTCULLIS_APPROVERS and PORTCULLIS_OPERATORS (parameters Viewers, Approvers, Operators). "+
		"Your groups are those that the ID token lists as %q; who is new in a group signs in again.", i.Host(), name, i.Claim())
}

// notAtIssuer answers somebody whom the issuer did not sign in.
func (c *Console) notAtIssuer(w http.ResponseWriter, r *http.Request, p *loginPage, err error) {
	e, ok := errors.AsType[*signin.Error](err)
	if !ok {
		e = &signin.Error{Err: err}
	}
	c.o.Log.LogAttrs(r.Context(), slog.LevelWarn, "sign-in refused", slog.String("way", signin.WayOIDC), slog.Any("error", err))
	status, why := issuerText(e, p.Issuer)
	p.Problem = why + " You are not signed in, and nothing was decided."
	switch {
	case status == http.StatusServiceUnavailable && p.Typed():
		p.Problem += " Try again in a minute, or sign in by what can be typed below."
	case status == http.StatusServiceUnavailable:
		p.Problem += " Try again in a minute."
	}
	c.render(w, r, status, "login", p)
}

// issuerText says why an issuer, of this host, signs nobody in.
func issuerText(e *signin.Error, host string) (status int, why string) {
	const ask = " Who runs this gateway finds more in its log."
	switch e.Reason {
	case signin.NotBegun:
		return http.StatusBadRequest, "No sign-in is under way in this browser: it was begun in another browser or at another address of this gateway, was finished already, or took more than ten minutes."
	case signin.Late:
		return http.StatusBadRequest, "The sign-in took more than ten minutes."
	case signin.OtherState:
		return http.StatusBadRequest, "This answer does not belong to the sign-in that was begun last in this browser."
	case signin.OtherIssuer:
		return http.StatusBadRequest, "This answer is not one of " + host + ", or does not say so."
	case signin.Refused:
		return http.StatusForbidden, host + " did not sign you in" + refusalText(e.Code) + "."
	case signin.Unsuited:
		return http.StatusBadGateway, host + " refuses this gateway, and not you: one of the two is set up wrong." + ask
	case signin.SpentCode:
		return http.StatusBadRequest, host + " does not take the code with which your browser came back: it was used already, or is too old."
	case signin.BadToken:
		return http.StatusBadGateway, "The ID token that " + host + " gave is not good: its signature or its content is wrong." + ask
	case signin.OldToken:
		return http.StatusBadGateway, "The ID token that " + host + " gave has expired or is of another time: perhaps a clock is wrong." + ask
	case signin.OtherAudience:
		return http.StatusBadGateway, "The ID token that " + host + " gave is for another program than this gateway." + ask
	case signin.OtherNonce:
		return http.StatusBadGateway, "The ID token that " + host + " gave belongs to another sign-in." + ask
	case signin.TooManyGroups:
		return http.StatusForbidden, host + " left your groups out of the ID token, since they are too many. Who runs the issuer can have it list only those that this gateway needs, or roles of the application."
	case signin.Nonsense:
		return http.StatusBadGateway, host + " answered what no issuer answers." + ask
	case signin.Unavailable:
		return http.StatusServiceUnavailable, host + " does not answer for now, or not as an issuer does."
	case signin.NoKey:
		return http.StatusServiceUnavailable, "The gateway cannot read its own keys for now." + ask
	case signin.Malformed:
	}
	return http.StatusBadRequest, "Your browser came back with what no issuer answers."
}

// refusalText says what a code of the standards means.
func refusalText(code string) string {
	switch code {
	case "access_denied":
		return ": you said no there, or a rule there does"
	case "login_required", "interaction_required", "account_selection_required", "consent_required":
		return ": it wants something of you that it did not ask for"
	}
	return ""
}

// carried is what goes along with a sign-in at the issuer.
type carried struct {
	Next string        `json:"next,omitempty"`
	Kept *resubmission `json:"kept,omitempty"`
}

// pack returns what cookies have room for of it, the last fields being left out first.
func (c carried) pack() ([]byte, error) {
	if c.Kept != nil {
		kept := *c.Kept
		c.Kept = &kept
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
		case c.Kept != nil && len(c.Kept.Fields) > 0:
			c.Kept.Fields, c.Kept.Cut = c.Kept.Fields[:len(c.Kept.Fields)-1], true
		default:
			c = carried{}
		}
	}
}

// unpack reads what pack made; the zero value, if that cannot be.
func unpack(packed []byte) (c carried) {
	z := flate.NewReader(bytes.NewReader(packed))
	defer z.Close()
	if err := json.NewDecoder(io.LimitReader(z, maxForm)).Decode(&c); err != nil {
		return carried{}
	}
	c.Next = safeNext(c.Next)
	return c
}

// What is kept during a sign-in stands in as many cookies as it takes: a browser takes one of 4,096
// characters at most.
const (
	pendingCookie = "-login"
	maxCookie     = 3800
	maxParts      = 2
)

// pendingKind is how these cookies are set: other than a session's they have to come along when the
// issuer sends the browser back.
func (c *Console) pendingKind(r *http.Request) cookieKind {
	k := c.cookieKind(r)
	k.sameSite = http.SameSiteLaxMode
	return k
}

// keepPending keeps a sign-in that is under way in the browser, or with "" takes it away.
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

// pending returns the sign-in that the browser keeps; "" if none.
func (c *Console) pending(r *http.Request) string {
	var kept strings.Builder
	for part := range maxParts {
		if cookie, err := r.Cookie(c.pendingKind(r).prefix + fmt.Sprint(pendingCookie, part)); err == nil {
			kept.WriteString(cookie.Value)
		}
	}
	return kept.String()
}

// ownLogin returns the address of the sign-in page that the issuer knows, if a browser on this machine
// asks at another name of it, which has cookies of its own; "" otherwise.
func (c *Console) ownLogin(r *http.Request, next string) string {
	base, err := url.Parse(c.o.BaseURL)
	if err != nil || !isLoopback(hostOf(r.Host)) || !isLoopback(base.Hostname()) || strings.EqualFold(base.Hostname(), hostOf(r.Host)) {
		return ""
	}
	return c.o.BaseURL + "/admin/login?next=" + url.QueryEscape(next)
}
