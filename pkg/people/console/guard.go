package console

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
)

// A caller identifies the sender of a request.
type caller struct {
	decide.Actor
	session *signin.Session // of the browser; nil: the request has its own credentials
	csrf    string          // value that each form of the session must have
}

// callerKey is the context key of a caller.
type callerKey struct{}

// callerOf returns the caller of a request that passed the guard.
func callerOf(ctx context.Context) caller {
	who, _ := ctx.Value(callerKey{}).(caller)
	return who
}

// guard passes a request to next if it is for a known host, from the same origin, and by a caller
// that Options.Actor or a session identifies. Requests for the pages of sign-in and sign-out need
// no caller. To change something, a signed-in browser must also send the CSRF token of its pages.
// The caller's role must allow the request.
func (c *Console) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", referrerPolicy(r))
		h.Set("X-Content-Type-Options", "nosniff")
		if sentByScript(r) {
			w = headerRedirect{w}
		}
		switch {
		case !c.knownHost(r):
			c.deny(w, r, http.StatusMisdirectedRequest, "this host is not served here")
			return
		case origin.Check(r) != nil:
			c.deny(w, r, http.StatusForbidden, otherSite)
			return
		case isPublic(r.Method, r.URL.Path):
			next.ServeHTTP(w, r)
			return
		}
		who, err := c.caller(r)
		if err != nil {
			c.o.Log.LogAttrs(r.Context(), slog.LevelWarn, "admin request refused", slog.String("path", loggedPath(r)), slog.Any("error", err))
			c.unauthorized(w, r, err)
			return
		}
		if is, stopped := c.o.Service.Stopped(r.Context(), who.Agent); stopped {
			c.o.Log.LogAttrs(r.Context(), slog.LevelWarn, "admin request of a stopped agent refused", slog.String("path", loggedPath(r)), slog.String("actor", who.Name))
			c.deny(w, r, http.StatusForbidden,
				"the agent "+strconv.Quote(who.Agent)+" is "+is.Note()+"; "+
					"the stop applies here too, until an operator undoes it; nothing was done")
			return
		}
		r = r.WithContext(context.WithValue(decide.WithActor(r.Context(), who.Actor), callerKey{}, who))
		if !c.formRead(w, r, "nothing was decided") {
			return
		}
		if who.session != nil && !isSafe(r.Method) && !proves(r, who.csrf) {
			c.o.Log.LogAttrs(r.Context(), slog.LevelWarn, "admin request without its proof refused", slog.String("path", loggedPath(r)), slog.String("actor", who.Name))
			c.unproven(w, r)
			return
		}
		if r = shownAgain(r); c.permits(w, r, who) {
			next.ServeHTTP(w, r)
		}
	})
}

// referrerPolicy returns the policy for the address of a page: the browser sends the address only
// to our own pages. It never sends an address with the code of a link, because logs must not
// contain the code. With no-referrer, the browser would not send the origin of forms either.
func referrerPolicy(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, askAt) || r.URL.Path == "/admin/login" || r.URL.Path == connection.CallbackPath {
		return "strict-origin"
	}
	return "same-origin"
}

// Answers to a request that a page of another site may have sent.
const (
	otherSite = "the request comes from another site, and nothing was done; decide on the gateway's own page"
	noProof   = "a signed-in browser must send the token of its page, as the field csrf or the header X-CSRF-Token; nothing was done"
)

// isSafe reports whether a request of this method changes nothing.
func isSafe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// deny answers a browser with a page, and a program with a problem.
func (c *Console) deny(w http.ResponseWriter, r *http.Request, status int, detail string) {
	c.refuse(w, r, &decide.Error{Status: status, Detail: detail})
}

// refuse is deny for an error that has a code.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, e *decide.Error) {
	if wantsHTML(r.Header.Get("Accept")) {
		c.problem(w, r, e.Status, sentence(e.Detail))
		return
	}
	e.Write(w)
}

// knownHost reports whether r names a host of the gateway. The check matters only on loopback:
// another site can point its own host name there, so that its pages have the same origin.
func (c *Console) knownHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return !ok || !hostname.IsLoopback(local.String()) || hostname.IsLoopback(r.Host) || c.isBaseHost(r)
}

// isBaseHost reports whether r names the host of the base URL.
func (c *Console) isBaseHost(r *http.Request) bool {
	base, err := url.Parse(c.o.BaseURL)
	return err == nil && base.Host != "" && strings.EqualFold(base.Hostname(), hostname.Trim(r.Host))
}

// isPublic reports whether a request needs no credentials. Only requests for assets and for the
// pages of sign-in and sign-out need none. It checks the method too, because a request that no page
// answers reaches the API.
func isPublic(method, path string) bool {
	switch path {
	case "/admin/login":
		return isSafe(method) || method == http.MethodPost
	case callbackPath, connection.CallbackPath:
		return method == http.MethodGet
	case "/admin/logout":
		return method == http.MethodPost
	}
	asset, ok := strings.CutPrefix(path, "/admin/assets/")
	return ok && isSafe(method) && asset != "" && !strings.Contains(asset, "/")
}

// caller returns the sender of r. If r has a bearer credential, only this credential counts;
// otherwise a session may. If the store of sessions fails, caller fails too, even if Options.Actor
// would accept the request.
func (c *Console) caller(r *http.Request) (caller, error) {
	if r.Header.Get("Authorization") == "" {
		cookie, session, err := c.signedIn(r)
		switch {
		case err == nil:
			a := decide.Actor{Name: session.Actor, Rights: c.o.SignIn.rights(session), Subject: session.Subject, Source: hostname.Trim(r.RemoteAddr)}
			if session.Way == signin.WayToken {
				a.Agent = session.Actor
			}
			return caller{a, &session, c.o.SignIn.Sessions.CSRF(cookie)}, nil
		case !errors.Is(err, signin.ErrNotFound):
			return caller{}, &identity.Error{Kind: identity.Unavailable, Err: err}
		}
	}
	if c.o.Actor == nil {
		return caller{}, errors.New("no authentication is configured")
	}
	actor, err := c.o.Actor(r)
	if err == nil && actor.Name == "" {
		err = errors.New("the caller has no name")
	}
	actor.Source = hostname.Trim(r.RemoteAddr)
	return caller{Actor: actor}, err
}
