package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// Path is where Prometheus reads the metrics.
const Path = "/metrics"

// Limits of requests for metrics.
const (
	maxReads = 4
	readTime = 10 * time.Second
)

// Handler returns the handler of [Path]. Before each answer it calls refresh, which reads the state
// of the gateway again if it is old. If key is not empty, callers send it as a bearer token.
// Otherwise only this machine may reach the handler, and the handler refuses a request that a page
// of another site sends to this machine (DNS rebinding).
func (x *Exporter) Handler(key secret.Text, refresh func(context.Context)) http.Handler {
	answer := promhttp.HandlerFor(x.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxReads, Timeout: readTime,
	})
	holder := identity.AdminKey{Digest: token.Digest(key)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		_, denied := holder.Authenticate(r)
		switch isOpen := key.Reveal() == ""; {
		case isOpen && !hostname.IsLoopback(r.Host):
			http.Error(
				w,
				"without a token, the metrics are only for this machine: use its loopback address",
				http.StatusForbidden,
			)
		case !isOpen && denied != nil:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(
				w,
				"the metrics need their token: send Authorization: Bearer TOKEN",
				http.StatusUnauthorized,
			)
		default:
			refresh(r.Context())
			answer.ServeHTTP(w, r)
		}
	})
	return mux
}
