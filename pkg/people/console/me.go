package console

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// A mePage shows people their own identity, role and sessions.
type mePage struct {
	Page
	How      string // how the person was authenticated
	Whence   string // where the role comes from
	Signs    bool   // the gateway has a sign-in
	Sessions []sessionRow
	Others   int // number of other sessions
}

// A sessionRow is a session in a list.
type sessionRow struct {
	signin.Session
	Here  bool // the session of this browser
	Role  string
	Bound string // servers that limit the role; "": no limit
	Way   string // how the person signed in
}

// noTokens explains why the page of agent tokens is empty.
const noTokens = "This gateway accepts no agent tokens, so there are none to list or to make. " +
	"To authenticate agents with tokens, an operator adds token to PORTCULLIS_AUTH instead of none, and restarts the gateway."

// ownPages registers the pages about the caller and about agent tokens.
func (c *Console) ownPages(mux *http.ServeMux, next http.Handler) {
	mux.Handle("GET /admin/me", c.pageOr(next, c.me))
	mux.Handle("POST /admin/me/keys", formOr(next, c.setKeys))
	mux.Handle("POST /admin/me/theme", formOr(next, c.setTheme))
	mux.Handle("POST /admin/me/revoke", formOr(next, c.revokeSession))
	mux.Handle("POST /admin/me/revoke-others", formOr(next, c.revokeOthers))
	if c.o.Tokens == nil {
		mux.Handle("GET /admin/tokens", c.pageOr(next, func(w http.ResponseWriter, r *http.Request) {
			c.problem(w, r, http.StatusNotFound, noTokens)
		}))
		return
	}
	mux.Handle("GET /admin/tokens", c.pageOr(next, c.tokens))
	mux.Handle("POST /admin/tokens", formOr(next, c.makeToken))
	mux.Handle("GET /admin/tokens/{id}/revoke", c.pageOr(next, c.askToRevoke))
	mux.Handle("POST /admin/tokens/{id}/revoke", formOr(next, c.revokeToken))
}

// wayTexts describe how a person was authenticated.
var wayTexts = map[string]string{
	signin.WayLink:      "You signed in with the link that the gateway printed on this machine: you are its operating system user.",
	signin.WayKey:       "You signed in with the admin key of the gateway's folder: you are its operating system user.",
	signin.WayToken:     "You signed in with the agent token of this name. Your sessions end with it.",
	signin.WayOIDC:      "You signed in at the issuer. At each request the gateway computes your role from your groups there, as they were when you signed in.",
	signin.WayBootstrap: "You signed in with the bootstrap token. Your sessions end when an operator replaces or removes that token.",
	"":                  "You are not signed in: each of your requests has its own credentials.",
}

// whenceTexts describe the source of a role.
var whenceTexts = map[string]string{
	signin.WayLink:      "The owner of the gateway's folder is its operator.",
	signin.WayKey:       "The owner of the gateway's folder is its operator.",
	signin.WayToken:     `It comes from the token, which was made with "admin": true.`,
	signin.WayBootstrap: "The holder of the bootstrap token is an operator.",
	signin.WayOIDC:      "It comes from your groups at the issuer when you signed in, and from the current settings of this gateway for them (PORTCULLIS_VIEWERS, _APPROVERS, _OPERATORS).",
	"":                  "It comes with the credentials that you send: the groups or the scope of an access token, \"admin\": true of an agent token, or PORTCULLIS_IAM_ADMINS.",
}

// isOSUser reports whether the session belongs to the owner of a gateway on one machine.
func isOSUser(s *signin.Session) bool {
	return s != nil && (s.Way == signin.WayLink || s.Way == signin.WayKey)
}

// me shows the identity, the role and the sessions of the caller.
func (c *Console) me(w http.ResponseWriter, r *http.Request) {
	who := callerOf(r.Context())
	p := &mePage{Page: Page{Title: "You", Here: "me"}, How: wayTexts[""], Whence: whenceTexts[""], Signs: c.o.SignIn != nil}
	if n, err := strconv.Atoi(r.URL.Query().Get("ended")); err == nil && n > 0 && fromHere(r) {
		p.Message = text.Count(n, "session") +
			" ended. The gateway refuses all further requests of an ended session."
	}
	if who.session != nil {
		p.How, p.Whence = wayTexts[who.session.Way], whenceTexts[who.session.Way]
		own, err := c.o.SignIn.Sessions.Own(r.Context(), *who.session)
		if err != nil {
			c.storeDown(w, r, err)
			return
		}
		for _, s := range own {
			p.Sessions = append(p.Sessions, c.rowOf(s, who.session))
		}
		p.Others = len(own) - 1
	}
	c.render(w, r, http.StatusOK, "me", p)
}

// storeDown answers when the sessions cannot be read or written.
func (c *Console) storeDown(w http.ResponseWriter, r *http.Request, err error) {
	c.o.Log.LogAttrs(r.Context(), slog.LevelError, "sessions not read or written", slog.Any("error", err))
	c.problem(w, r, http.StatusServiceUnavailable, "The gateway's store does not answer now. Some of the sessions may not have ended: open this page again in a minute.")
}

// revokeSession ends one session of the caller.
func (c *Console) revokeSession(w http.ResponseWriter, r *http.Request) {
	who := callerOf(r.Context())
	id := r.PostFormValue("id")
	switch {
	case who.session == nil:
		c.problem(w, r, http.StatusConflict, "You are not signed in with a browser, so you have no session that could end.")
		return
	case id == who.session.ID:
		c.signOut(w, r)
		return
	}
	err := c.o.SignIn.Sessions.Revoke(r.Context(), *who.session, id)
	switch {
	case errors.Is(err, signin.ErrNotFound):
		redirectTo(w, http.StatusSeeOther, "../me") // already ended
	case err != nil:
		c.storeDown(w, r, err)
	default:
		c.showEnded(w, r, 1)
	}
}

// revokeOthers ends all sessions of the caller except the current one.
func (c *Console) revokeOthers(w http.ResponseWriter, r *http.Request) {
	who, n := callerOf(r.Context()), 0
	if who.session != nil {
		var err error
		if n, err = c.o.SignIn.Sessions.RevokeOthers(r.Context(), *who.session); err != nil {
			c.storeDown(w, r, err)
			return
		}
	}
	c.showEnded(w, r, n)
}

// showEnded redirects to the page with the number of ended sessions.
func (c *Console) showEnded(w http.ResponseWriter, r *http.Request, n int) {
	c.o.Log.LogAttrs(r.Context(), slog.LevelInfo, "sessions ended by their owner", slog.String("actor", callerOf(r.Context()).Name), slog.Int("sessions", n))
	if n > 0 {
		c.record(r, audit.Line{Action: audit.ActionSessionRevoked, Note: text.Count(n, "session") + " of one's own"})
	}
	redirectTo(w, http.StatusSeeOther, "../me?ended="+strconv.Itoa(n))
}

// record writes an event to the audit. If that fails, it logs the event.
func (c *Console) record(r *http.Request, l audit.Line) {
	l.Source = hostname.Trim(r.RemoteAddr)
	_ = c.o.Service.Record(r.Context(), l)
}

// choiceLife is the time for which a browser remembers a choice of its user.
const choiceLife = 365 * 24 * time.Hour

// setKeys stores in the browser whether single keys are commands.
func (c *Console) setKeys(w http.ResponseWriter, r *http.Request) {
	c.choose(w, r, keysCookie, r.PostFormValue("keys"), "off")
}

// setTheme stores the theme in the browser.
func (c *Console) setTheme(w http.ResponseWriter, r *http.Request) {
	c.choose(w, r, themeCookie, r.PostFormValue("theme"), "light", "dark")
}

// choose stores a value in the browser if it is one of the values, and otherwise removes the stored
// value.
func (c *Console) choose(
	w http.ResponseWriter,
	r *http.Request,
	name, value string,
	values ...string,
) {
	if slices.Contains(values, value) {
		c.cookieKind(r).set(w, name, value, int(choiceLife/time.Second))
	} else {
		c.cookieKind(r).set(w, name, "", -1)
	}
	redirectTo(w, http.StatusSeeOther, "../me")
}
