package boot

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
)

// Public returns the handler of /mcp, of the well-known metadata and of /healthz.
func (p *Program) Public() (*http.ServeMux, error) { return p.publicAt(p.Settings.BaseURL) }

// publicAt is Public at a public address.
func (p *Program) publicAt(base string) (*http.ServeMux, error) {
	mcp, err := p.mcpAt(base)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", mcp) // its 404 is JSON-RPC
	mux.Handle("GET /mcp", p.browsed(mcp, base))
	mux.Handle("GET /mcp/", p.browsed(mcp, base))
	mux.HandleFunc("GET /healthz", p.healthz)
	return mux, nil
}

// healthz says in one word how the gateway is, the same to everybody: what is wrong is for
// those who may read /admin/health. It is 503 only if no tool can be called.
func (p *Program) healthz(w http.ResponseWriter, r *http.Request) {
	condition, status := p.States.Load(r.Context()).Health.Condition(), http.StatusOK
	if condition == state.Failing {
		status = http.StatusServiceUnavailable
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "{\"status\":%q}", condition) // the caller has gone if this fails
}

// browsed explains the endpoint to a person who opens it in a browser. Clients that ask
// for anything but a page are mcp's.
func (p *Program) browsed(mcp http.Handler, base string) http.Handler {
	text := "This is the MCP endpoint of a Portcullis gateway. Agents talk to it with POST; a browser has nothing to see here.\n\n" +
		"People decide which tools agents may call at " + p.Settings.AdminURL + "/admin\n" +
		"How to connect each client: " + p.Settings.AdminURL + "/admin/connect\n" +
		"Its endpoint: " + base + "/mcp\n"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			mcp.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Allow", http.MethodPost)
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = io.WriteString(w, text) // the caller has gone if this fails
	})
}
