package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// actorKey is the context key of who sends the request.
type actorKey struct{}

// actorOf returns who sends the request; guard has set it.
func actorOf(ctx context.Context) string {
	actor, _ := ctx.Value(actorKey{}).(string)
	return actor
}

// guard passes on requests to a known host, from the same origin, by a caller whom Options.Actor or
// a session names; without a caller, only those for the pages by which a person signs in.
func (a *api) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		if !a.knownHost(r) {
			writeProblem(w, http.StatusMisdirectedRequest, "this host is not served here")
			return
		}
		if origin.Check(r) != nil {
			writeProblem(w, http.StatusForbidden, "the request comes from another site")
			return
		}
		if !isPublic(r.URL.Path) {
			actor, err := a.actor(r)
			if err != nil {
				a.o.Log.LogAttrs(r.Context(), slog.LevelWarn, "admin request refused", slog.String("path", r.URL.Path), slog.Any("error", err))
				a.refuse(w, r, err)
				return
			}
			r = r.WithContext(context.WithValue(r.Context(), actorKey{}, actor))
		}
		next.ServeHTTP(w, r)
	})
}

// knownHost reports whether r names a host of the gateway. That matters on loopback alone: a page
// of another site can point its own name there, and is of the same origin then.
func (a *api) knownHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !isLoopback(hostOf(local.String())) {
		return true
	}
	host := hostOf(r.Host)
	base, err := url.Parse(a.o.BaseURL)
	return isLoopback(host) || err == nil && base.Host != "" && strings.EqualFold(base.Hostname(), host)
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

// isPublic reports whether a path is served without credentials: what it takes to sign in.
func isPublic(path string) bool { return path == "/admin/login" || path == "/admin/style.css" }

// actor returns the name of who sends r. A bearer credential decides alone; who sends none may be
// signed in.
func (a *api) actor(r *http.Request) (string, error) {
	if a.o.Login != nil && r.Header.Get("Authorization") == "" {
		if actor, ok := a.signedIn(r); ok {
			return actor, nil
		}
	}
	if a.o.Actor == nil {
		return "", errors.New("no authentication is configured")
	}
	actor, err := a.o.Actor(r)
	if err == nil && actor == "" {
		err = errors.New("the caller has no name")
	}
	return actor, err
}

// requireJSON refuses a body that a form of another site could send.
func requireJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			if mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mt != "application/json" {
				writeProblem(w, http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// writeProblem answers with an RFC 9457 body, as the API does for its own errors.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	// The caller has gone if this fails, and there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(problem(status, detail))
}
