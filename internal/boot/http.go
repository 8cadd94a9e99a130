package boot

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
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

// initTime bounds [Program.Warm]. Lambda gives up on a start after 10 s, and begins again.
const initTime = 8 * time.Second

// Warm loads what the first request will read and opens the connections, side
// by side: starting is the one time at which a function has a whole processor.
// What cannot be read is not fatal; requests say so and try again.
func (p *Program) Warm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, initTime)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		if s := p.States.Load(ctx); !s.Ready() {
			p.Log.LogAttrs(ctx, slog.LevelWarn, "started without config or catalog", slog.Any("config", s.Health.Config.Err), slog.Any("catalog", s.Health.Catalog.Err))
		}
	})
	wg.Go(func() {
		// There is no such tool. The answer does not matter, the open connection does.
		_, _ = p.Stores.Approvals.Get(ctx, tool.ID{Server: "-", Name: "-"})
	})
	if p.Settings.Access.Takes(identity.WayToken) {
		wg.Go(func() { _ = p.readTokens(ctx) }) // whoever builds the handlers is told what is wrong
	}
	wg.Wait()
}
