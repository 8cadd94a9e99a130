package console

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
)

// A sessionsPage shows an operator all sessions, with buttons that end them.
type sessionsPage struct {
	Page
	Sessions []sessionRow
	pager
}

// wayNames are short names of the ways to sign in.
var wayNames = map[string]string{
	signin.WayLink: "the link of this machine", signin.WayKey: "the admin key", signin.WayToken: "an agent token",
	signin.WayBootstrap: "the bootstrap token", signin.WayOIDC: "the issuer",
}

// sessionPages registers the pages about all sessions.
func (c *Console) sessionPages(mux *http.ServeMux, next http.Handler) {
	if c.o.SignIn == nil {
		return
	}
	mux.Handle("GET /admin/sessions", c.pageOr(next, c.sessions))
	mux.Handle("POST /admin/sessions/{id}/revoke", formOr(next, c.revokeAny))
}

// sessions lists the people who are signed in, by name.
func (c *Console) sessions(w http.ResponseWriter, r *http.Request) {
	all, err := c.o.SignIn.Sessions.All(r.Context())
	if err != nil {
		c.storeDown(w, r, err)
		return
	}
	key := func(s signin.Session) string { return s.Actor + " " + s.ID }
	slices.SortFunc(all, func(a, b signin.Session) int { return strings.Compare(key(a), key(b)) })
	query := r.URL.Query()
	paging := decide.Paging{Limit: maxRows, After: query.Get("after")}
	page, next, err := decide.Cut(paging, "session-rows", all, key)
	if err != nil {
		c.failed(w, r, "sessions", err)
		return
	}
	p := &sessionsPage{Page: Page{Title: "Sessions", Here: "me"}}
	if query.Has("ended") && fromHere(r) {
		p.Message = "The session ended. Every process refuses its next request."
	}
	here := callerOf(r.Context()).session
	for _, s := range page {
		p.Sessions = append(p.Sessions, c.rowOf(s, here))
	}
	p.pager = pagerOf(rootOf(r)+"admin/sessions", url.Values{}, "", next)
	c.render(w, r, http.StatusOK, "sessions", p)
}

// rowOf returns the row of the session s. The argument here is the session of the browser that sent
// the request, or nil.
func (c *Console) rowOf(s signin.Session, here *signin.Session) sessionRow {
	rights := c.o.SignIn.rights(s)
	return sessionRow{Session: s, Here: here != nil && s.ID == here.ID, Role: rights.Role.String(), Bound: serversOf(rights), Way: wayNames[s.Way]}
}

// revokeAny ends the session whose id is in the URL, of any person.
func (c *Console) revokeAny(w http.ResponseWriter, r *http.Request) {
	s, err := c.o.SignIn.Sessions.RevokeAny(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, signin.ErrNotFound): // already ended
	case err != nil:
		c.storeDown(w, r, err)
		return
	default:
		c.o.Log.LogAttrs(r.Context(), slog.LevelInfo, "session ended by an operator",
			slog.String("actor", callerOf(r.Context()).Name), slog.String("of", s.Actor))
		c.o.Service.RecordRevoked(r.Context(), s)
	}
	redirectTo(w, http.StatusSeeOther, "../../sessions?ended=1")
}
