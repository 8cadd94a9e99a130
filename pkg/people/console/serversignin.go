package console

import (
	"net/http"
	"net/url"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

const (
	// serverCookie keeps the sealed state while a person is at the issuer of a server.
	serverCookie = "portcullis-server"

	// maxServerState is the longest state that fits into a cookie: browsers keep 4 KB with the name
	// and the attributes.
	maxServerState = 3800
)

// A serverSignInPage leads to the issuer of a server, or asks a question first.
type serverSignInPage struct {
	Page
	decide.SignInStart
	Name string
}

// A serverSignedInPage says how a sign-in at a server ended.
type serverSignedInPage struct {
	Page
	decide.SignedIn
	Link string // to the page of the server, or to the list
}

// signInPages registers the pages of sign-ins at servers.
func (c *Console) signInPages(mux *http.ServeMux, next http.Handler) {
	mux.Handle("POST /admin/servers/{server}/sign-in", formOr(next, c.startServerSignIn))
	mux.Handle("POST /admin/servers/{server}/sign-out", formOr(next, c.endServerSignIn))
	mux.HandleFunc("GET "+connection.CallbackPath, c.finishServerSignIn)
}

// ownCallback returns the gateway's callback at the host at which the console was opened, or "" if
// issuers cannot send a browser there. A browser sends a cookie only to the host that set it.
func (c *Console) ownCallback(r *http.Request) string {
	switch {
	case hostname.IsLoopback(r.Host) && !c.overTLS(r):
		return "http://" + r.Host + connection.CallbackPath
	case c.isBaseHost(r) && c.overTLS(r):
		return c.o.BaseURL + connection.CallbackPath
	}
	return ""
}

// startServerSignIn prepares a sign-in and shows the link to the issuer. It does not redirect: the
// person first sees the issuer's host and the requested scopes.
func (c *Console) startServerSignIn(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("server")
	q := decide.SignInQuery{Redirect: c.ownCallback(r), Confirm: r.PostForm.Get("confirm") != ""}
	if q.Redirect == "" {
		c.showServer(w, r, http.StatusConflict,
			"Nobody was signed in: issuers cannot send a browser back to this address. "+
				useCommand(name))
		return
	}
	s, err := c.o.Service.StartSignIn(r.Context(), name, q)
	if err != nil {
		e := c.o.Service.Explain(r.Context(), "sign-in", err)
		text := sentence(e.Detail)
		if oauth.CodeOf(err) == oauth.NotRegistered { // some issuers accept only callbacks at loopback addresses
			text += " " + useCommand(name)
		}
		c.showServer(w, r, e.Status, text)
		return
	}
	if len(s.State) > maxServerState {
		c.showServer(w, r, http.StatusConflict,
			"Nobody was signed in: the data of this sign-in does not fit into a cookie. "+
				useCommand(name))
		return
	}
	if s.Question == "" {
		c.keepServerSignIn(w, r, s.State)
	}
	s.Question = sentence(s.Question)
	c.render(w, r, http.StatusOK, "serversignin", &serverSignInPage{
		Page: Page{Title: "Sign in to " + name, Here: "servers"}, SignInStart: s, Name: name,
	})
}

// useCommand returns the advice to sign in with a command instead.
func useCommand(server string) string {
	return "On your own machine, use: portcullis servers login " + server + "."
}

// keepServerSignIn stores the state in the browser; "" removes it. The issuer sends the browser
// back from another site, so the cookie must be lax, unlike the cookie of the session.
func (c *Console) keepServerSignIn(w http.ResponseWriter, r *http.Request, state string) {
	age := int(oauth.FlowLife / time.Second)
	if state == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // plain http drops Secure cookies
		Name: c.serverCookieName(r), Value: state, Path: connection.CallbackPath, MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.overTLS(r),
	})
}

func (c *Console) serverCookieName(r *http.Request) string {
	if c.overTLS(r) {
		return "__Secure-" + serverCookie
	}
	return serverCookie
}

// finishServerSignIn handles the callback. When another site sends the browser here,
// the browser does not send the cookie of the session. So only the sealed state says who began the
// sign-in.
func (c *Console) finishServerSignIn(w http.ResponseWriter, r *http.Request) {
	p := &serverSignedInPage{
		Page: Page{Title: "Sign-in at a server", Here: "-"}, Link: rootOf(r) + "admin/servers",
	}
	cookie, err := r.Cookie(c.serverCookieName(r))
	if err != nil {
		p.Problem = "Nothing happened: this browser has no sign-in in progress. The sign-in began in " +
			"another browser, is complete already, or took more than ten minutes. To sign in, " +
			"press \"Sign in\" on the server's page."
		c.render(w, r, http.StatusBadRequest, "serversignedin", p)
		return
	}
	done, err := c.o.Service.FinishSignIn(r.Context(), cookie.Value, r.URL.RawQuery)
	if err == nil || !decide.IsOtherSignIn(err) { // otherwise the current sign-in continues
		c.keepServerSignIn(w, r, "")
	}
	if err != nil {
		e := c.o.Service.Explain(r.Context(), "sign-in", err)
		p.Problem = sentence(e.Detail)
		c.render(w, r, e.Status, "serversignedin", p)
		return
	}
	p.SignedIn, p.Title = done, "Signed in to "+done.Connection.Server
	p.Link += "/" + url.PathEscape(done.Connection.Server)
	c.render(w, r, http.StatusOK, "serversignedin", p)
}

// endServerSignIn ends the gateway's sign-in at a server.
func (c *Console) endServerSignIn(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("server")
	out, err := c.o.Service.SignOut(r.Context(), name)
	if err != nil {
		c.failed(w, r, "sign-out", err)
		return
	}
	did := "out"
	switch {
	case !out.Was:
		did = "none"
	case !out.Revoked:
		did = "unrevoked"
	}
	redirectTo(w, http.StatusSeeOther, "../"+url.PathEscape(name)+"?did="+did)
}

// signOutMessage returns the texts about the result of a sign-out, which is in the query of the
// URL.
func signOutMessage(r *http.Request) (message, problem string) {
	if !fromHere(r) {
		return "", ""
	}
	switch r.URL.Query().Get("did") {
	case "out":
		message = "The sign-in has ended: the tokens are deleted here and revoked at the issuer."
	case "unrevoked":
		message = "The sign-in has ended: the tokens are deleted here."
		problem = "The issuer did not revoke the tokens. Revoke the access in your account there."
	case "none":
		message = "The gateway was not signed in to this server. Nothing was changed."
	}
	return message, problem
}

// signInMark returns what a server needs from an operator, if its last refusal says so, or "".
func signInMark(o decide.Outcome) string {
	switch o.Reason {
	case outcome.ReasonSignInRequired:
		return "Sign-in required"
	case outcome.ReasonCredentialExpired:
		return "Sign-in ended"
	}
	return ""
}

// SignInMark returns the mark of the server about its sign-in, or "".
func (r serverRow) SignInMark() string { return signInMark(r.Outcome) }

// SignInMark returns the mark of the server about its sign-in, or "".
func (p *serverPage) SignInMark() string {
	if c := p.Connection; c != nil && c.Status == connection.Ended {
		return "Sign-in ended"
	}
	if p.SignedInSince() {
		return ""
	}
	return signInMark(p.Outcome)
}

// SignedInSince reports whether the gateway signed in after the server's last refusal.
func (p *serverPage) SignedInSince() bool {
	c := p.Connection
	return c != nil && c.Status == connection.Connected && c.Since.After(p.Outcome.CheckedAt) &&
		signInMark(p.Outcome) != ""
}
