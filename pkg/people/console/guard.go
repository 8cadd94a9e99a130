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

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// A caller is who sends a request.
type caller struct {
	decide.Actor
	session *signin.Session // of the browser; nil: the request brought credentials
	csrf    string          // what forms of the session must hold
}

// callerKey is the context key of a caller.
type callerKey struct{}

// callerOf returns who sends a request that was let in.
func callerOf(ctx context.Context) caller {
	who, _ := ctx.Value(callerKey{}).(caller)
	return who
}

// guard passes on requests to a known host, from the same origin, by a caller whom Options.Actor or
// a session names; without a caller, only those for the pages by which a person signs in or out. A
// browser that is signed in changes nothing without the proof that its own pages hold, and nobody
// does what his role does not allow.
func (c *Console) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", referrerPolicy(r))
		h.Set("X-Content-Type-Options", "nosniff")
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
			c.deny(w, r, http.StatusForbidden, "the agent "+strconv.Quote(who.Agent)+" is "+is.Note()+" — until an operator undoes it, that holds here too; nothing was done")
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

// referrerPolicy says what a browser tells of the address of a page: our own pages may know it, but for
// one that holds the code of a link, which no log is to have. With no-referrer a browser would say of no
// form where it comes from.
func referrerPolicy(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, askAt) || r.URL.Path == "/admin/login" {
		return "strict-origin"
	}
	return "same-origin"
}

// What people and programs are told of a request that a page of another site may have sent.
const (
	otherSite = "the request comes from another site, and nothing was done; decide on the gateway's own page"
	noProof   = "a browser that is signed in must send what its page holds, as the field csrf or the header X-CSRF-Token; nothing was done"
)

// isSafe reports whether a request of this method changes nothing.
func isSafe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// deny answers a browser with a page, and a program with a problem.
func (c *Console) deny(w http.ResponseWriter, r *http.Request, status int, detail string) {
	c.refuse(w, r, &decide.Error{Status: status, Detail: detail})
}

// refuse is deny of what has a code.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, e *decide.Error) {
	if wantsHTML(r.Header.Get("Accept")) {
		c.problem(w, r, e.Status, sentence(e.Detail))
		return
	}
	e.Write(w)
}

// knownHost reports whether r names a host of the gateway. That matters on loopback alone: a page
// of another site can point its own name there, and is of the same origin then.
func (c *Console) knownHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return !ok || !isLoopback(hostOf(local.String())) || isLoopback(hostOf(r.Host)) || c.isBaseHost(r)
}

// isBaseHost reports whether r names the host of the gateway's own address.
func (c *Console) isBaseHost(r *http.Request) bool {
	base, err := url.Parse(c.o.BaseURL)
	return err == nil && base.Host != "" && strings.EqualFold(base.Hostname(), hostOf(r.Host))
}

// hostOf returns a host without its port.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.Trim(host, "[]")
}

// isLoopback reports whether a host is this machine, whatever a name server says.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// isPublic reports whether a request is served without credentials: what it takes to sign in or
// out. Whatever no page of these answers would reach the API.
func isPublic(method, path string) bool {
	switch path {
	case "/admin/login":
		return isSafe(method) || method == http.MethodPost
	case callbackPath:
		return method == http.MethodGet
	case "/admin/logout":
		return method == http.MethodPost
	}
	asset, ok := strings.CutPrefix(path, "/admin/assets/")
	return ok && isSafe(method) && asset != "" && !strings.Contains(asset, "/")
}

// caller returns who sends r. A bearer credential decides alone; who sends none may be signed in.
// What cannot be looked up is refused, whoever else vouches for the request.
func (c *Console) caller(r *http.Request) (caller, error) {
	if r.Header.Get("Authorization") == "" {
		cookie, session, err := c.signedIn(r)
		switch {
		case err == nil:
			a := decide.Actor{Name: session.Actor, Rights: c.o.SignIn.rights(session), Subject: session.Subject, Source: hostOf(r.RemoteAddr)}
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
	actor.Source = hostOf(r.RemoteAddr)
	return caller{Actor: actor}, err
}
