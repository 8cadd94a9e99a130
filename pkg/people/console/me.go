package console

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// A mePage shows people who they are here, and where else they are signed in.
type mePage struct {
	Page
	How      string // they were let in
	Whence   string // their role comes
	Signs    bool   // people sign in here
	Sessions []sessionRow
	Others   int // of the sessions
}

// A sessionRow is a session in a list.
type sessionRow struct {
	signin.Session
	Here  bool // it is that of this browser
	Role  string
	Bound string // servers that bound the role; "": none do
	Way   string // of signing in
}

// noTokens explains why the page of agent tokens is empty.
const noTokens = "This gateway takes no agent tokens, so there are none to list or to make. " +
	"To have agents prove who they are with tokens, an operator adds token to PORTCULLIS_AUTH instead of none, and starts the gateway again."

// ownPages adds the pages about oneself and about agent tokens.
func (c *Console) ownPages(mux *http.ServeMux, next http.Handler) {
	mux.Handle("GET /admin/me", c.pageOr(next, c.me))
	mux.Handle("POST /admin/me/keys", formOr(next, c.setKeys))
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

// wayTexts say how somebody was let in.
var wayTexts = map[string]string{
	signin.WayLink:      "You signed in by the link that the gateway printed on this machine: you are its user of the operating system.",
	signin.WayKey:       "You signed in with the admin key of the gateway's folder: you are its user of the operating system.",
	signin.WayToken:     "You signed in with the agent token of this name. Your sessions end with it.",
	signin.WayOIDC:      "You signed in at the issuer. What you may do here is worked out at each request from your groups there, as they were when you signed in.",
	signin.WayBootstrap: "You signed in with the bootstrap token. Your sessions end when the gateway is given another one, or none.",
	"":                  "You are not signed in: each of your requests brings its own credentials.",
}

// whenceTexts say where a role comes from.
var whenceTexts = map[string]string{
	signin.WayLink:      "Whom the gateway's folder belongs to is its operator.",
	signin.WayKey:       "Whom the gateway's folder belongs to is its operator.",
	signin.WayToken:     `It comes from the token, which was made with "admin": true.`,
	signin.WayBootstrap: "Who has the bootstrap token is an operator.",
	signin.WayOIDC:      "It comes from your groups at the issuer as of when you signed in, and from what the settings of this gateway (PORTCULLIS_VIEWERS, _APPROVERS, _OPERATORS) say of them now.",
	"":                  "It comes with the credentials that you send: the groups or the scope of an access token, \"admin\": true of an agent token, or PORTCULLIS_IAM_ADMINS.",
}

// isOSUser reports whether a session is that of whom a gateway on one machine belongs to.
func isOSUser(s *signin.Session) bool {
	return s != nil && (s.Way == signin.WayLink || s.Way == signin.WayKey)
}

// me shows who sends the request.
func (c *Console) me(w http.ResponseWriter, r *http.Request) {
	who := callerOf(r.Context())
	p := &mePage{Page: Page{Title: "You", Here: "me"}, How: wayTexts[""], Whence: whenceTexts[""], Signs: c.o.SignIn != nil}
	if n, err := strconv.Atoi(r.URL.Query().Get("ended")); err == nil && n > 0 && fromHere(r) {
		p.Message = text.Count(n, "session") + " ended. The next request of each is refused."
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
	c.problem(w, r, http.StatusServiceUnavailable, "The gateway's store does not answer for now. It is not known which of the sessions that were to end did; open this page again in a minute.")
}

// revokeSession ends one session of who sends the form.
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
		redirectTo(w, http.StatusSeeOther, "../me") // it is over, as was wanted
	case err != nil:
		c.storeDown(w, r, err)
	default:
		c.ended(w, r, 1)
	}
}

// revokeOthers ends all sessions of who sends the form but that which sends it.
func (c *Console) revokeOthers(w http.ResponseWriter, r *http.Request) {
	who, n := callerOf(r.Context()), 0
	if who.session != nil {
		var err error
		if n, err = c.o.SignIn.Sessions.RevokeOthers(r.Context(), *who.session); err != nil {
			c.storeDown(w, r, err)
			return
		}
	}
	c.ended(w, r, n)
}

// ended leads back to the page, which says how many sessions ended.
func (c *Console) ended(w http.ResponseWriter, r *http.Request, n int) {
	c.o.Log.LogAttrs(r.Context(), slog.LevelInfo, "sessions ended by their owner", slog.String("actor", callerOf(r.Context()).Name), slog.Int("sessions", n))
	if n > 0 {
		c.record(r, audit.Line{Action: audit.ActionSessionRevoked, Note: text.Count(n, "session") + " of one's own"})
	}
	redirectTo(w, http.StatusSeeOther, "../me?ended="+strconv.Itoa(n))
}

// record keeps an event whether or not it is in the audit. If it is not, the log says so.
func (c *Console) record(r *http.Request, l audit.Line) {
	l.Source = hostOf(r.RemoteAddr)
	_ = c.o.Service.Record(r.Context(), l)
}

// keysLife is how long a browser remembers that somebody wants no single keys.
const keysLife = 365 * 24 * time.Hour

// setKeys keeps in the browser whether single keys are commands.
func (c *Console) setKeys(w http.ResponseWriter, r *http.Request) {
	if r.PostFormValue("keys") == "off" {
		c.cookieKind(r).set(w, keysCookie, "off", int(keysLife/time.Second))
	} else {
		c.cookieKind(r).set(w, keysCookie, "", -1)
	}
	redirectTo(w, http.StatusSeeOther, "../me")
}
