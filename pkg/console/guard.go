package console

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/decide"
)

// guard passes on requests to a known host, from the same origin, by a caller whom Options.Actor or
// a session names; without a caller, only those for the pages by which a person signs in.
func (c *Console) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		if !c.knownHost(r) {
			decide.WriteProblem(w, http.StatusMisdirectedRequest, "this host is not served here")
			return
		}
		if origin.Check(r) != nil {
			decide.WriteProblem(w, http.StatusForbidden, "the request comes from another site")
			return
		}
		if !isPublic(r.URL.Path) {
			actor, err := c.actor(r)
			if err != nil {
				c.o.Log.LogAttrs(r.Context(), slog.LevelWarn, "admin request refused", slog.String("path", r.URL.Path), slog.Any("error", err))
				c.refuse(w, r, err)
				return
			}
			r = r.WithContext(decide.WithActor(r.Context(), actor))
		}
		next.ServeHTTP(w, r)
	})
}

// knownHost reports whether r names a host of the gateway. That matters on loopback alone: a page
// of another site can point its own name there, and is of the same origin then.
func (c *Console) knownHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !isLoopback(hostOf(local.String())) {
		return true
	}
	host := hostOf(r.Host)
	base, err := url.Parse(c.o.BaseURL)
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
func isPublic(path string) bool {
	return path == "/admin/login" || strings.HasPrefix(path, "/admin/assets/")
}

// actor returns the name of who sends r. A bearer credential decides alone; who sends none may be
// signed in.
func (c *Console) actor(r *http.Request) (string, error) {
	if c.o.Login != nil && r.Header.Get("Authorization") == "" {
		if actor, ok := c.signedIn(r); ok {
			return actor, nil
		}
	}
	if c.o.Actor == nil {
		return "", errors.New("no authentication is configured")
	}
	actor, err := c.o.Actor(r)
	if err == nil && actor == "" {
		err = errors.New("the caller has no name")
	}
	return actor, err
}
