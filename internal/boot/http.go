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
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
)

// Ending returns a channel that is closed when the program is about to end; nil: never.
func (p *Program) Ending() <-chan struct{} { return p.ending }

// The paths that say how the process is. A server answers all of them, a function only HealthPath.
const (
	HealthPath = "/healthz" // can agents call tools?
	LivePath   = "/livez"   // does the process work?
	ReadyPath  = "/readyz"  // may it get requests?
)

// Public returns the handler of /mcp, of the well-known metadata, of /healthz, and of the document
// about the gateway as an OAuth client.
func (p *Program) Public() (*http.ServeMux, error) { return p.publicAt(p.Settings.BaseURL) }

// publicAt returns the handler of Public for a given public address.
func (p *Program) publicAt(base string) (*http.ServeMux, error) {
	mcp, err := p.mcpAt(base)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", mcp) // also answers unknown paths, with a JSON-RPC error
	mux.Handle("GET /mcp", p.explainToBrowser(mcp, base))
	mux.Handle("GET /mcp/", p.explainToBrowser(mcp, base))
	mux.HandleFunc("GET "+HealthPath, p.healthz)
	if p.Timeouts.Holds { // a platform decides itself when a function is ready
		mux.HandleFunc("GET "+LivePath, p.livez)
		mux.HandleFunc("GET "+ReadyPath, p.readyz)
	}
	if doc := p.clientDocument(base); doc != nil {
		mux.Handle("GET "+connection.DocumentPath, doc)
	}
	return mux, nil
}

// healthz returns the condition of the gateway in one word, the same for all callers. Only callers
// that may read /admin/health get details. The status is 503 only if no tool can be called.
func (p *Program) healthz(w http.ResponseWriter, r *http.Request) {
	condition := p.States.Load(r.Context()).Health.Condition()
	writeCondition(w, condition != state.Failing, string(condition))
}

// livez answers while the process can answer. It reads no store, because a supervisor restarts a
// process that does not answer, and a restart does not make a store work.
func (p *Program) livez(w http.ResponseWriter, _ *http.Request) { writeCondition(w, true, "alive") }

// readyz reports whether the gateway can answer requests: it has a config and a catalog, even if
// they are old, and does not end.
func (p *Program) readyz(w http.ResponseWriter, r *http.Request) {
	select {
	case <-p.ending:
		writeCondition(w, false, "draining")
		return
	default:
	}
	if !p.States.Load(r.Context()).Ready() {
		writeCondition(w, false, "not_ready")
		return
	}
	writeCondition(w, true, "ready")
}

// writeCondition answers a check of the gateway's health: 200 if isGood is set, and otherwise 503.
func writeCondition(w http.ResponseWriter, isGood bool, word string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if isGood {
		w.WriteHeader(http.StatusOK)
	} else {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = fmt.Fprintf(w, "{\"status\":%q}", word) // the caller has gone if this fails
}

// explainToBrowser explains the endpoint to a person who opens it in a browser. mcp serves all
// other requests.
func (p *Program) explainToBrowser(mcp http.Handler, base string) http.Handler {
	text := "This is the MCP endpoint of a Portcullis gateway. Agents talk to it with POST; a browser has nothing to see here.\n\n" +
		"People decide which tools agents may call at " + p.Settings.AdminURL + "/admin\n" +
		"How to connect each client: " + p.Settings.AdminURL + "/admin/connect\n" +
		"The endpoint for agents: " + base + "/mcp\n"
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

// initTime is the limit of [Program.Warm]. Lambda aborts a start after 10 s and begins again.
const initTime = 8 * time.Second

// Warm loads the data of the first request and opens the connections in parallel, because Lambda
// gives a function a whole processor only during its start. Failed reads are not fatal; requests
// report them and try again.
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
		// The read only opens the connection. No tool has this id, and the answer does not matter.
		_, _ = p.Stores.Approvals.Get(ctx, tool.ID{Server: "-", Name: "-"})
	})
	if p.Settings.Access.Takes(identity.WayToken) {
		// the functions that build the handlers return this error too
		wg.Go(func() { _ = p.readTokens(ctx) })
	}
	wg.Wait()
}
