package boot

import (
	"context"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/admin"
)

// An Actor says who sends a request to /admin. An error refuses it.
type Actor = func(*http.Request) (string, error)

// Public returns the handler of /mcp, of the well-known metadata and of /healthz,
// which names servers to admins alone. Where everybody is let in it names none.
func (p *Program) Public() (http.Handler, error) {
	actor, err := p.Actor(context.Background())
	if err != nil {
		return nil, err
	}
	if p.Settings.Access.Open() {
		actor = nil
	}
	return p.public(actor)
}

func (p *Program) public(actor Actor) (*http.ServeMux, error) {
	mcp, err := p.MCP()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", mcp) // its 404 is JSON-RPC
	mux.Handle("GET /healthz", admin.Health(p.States, p.adminOptions(actor)))
	return mux, nil
}

// Admin returns the handler of /admin. sync is what POST /admin/sync runs.
func (p *Program) Admin(actor Actor, sync admin.Syncer) http.Handler {
	return admin.New(p.States, p.Stores.Approvals, sync, p.adminOptions(actor))
}

func (p *Program) adminOptions(actor Actor) *admin.Options {
	o := &admin.Options{Actor: actor, BaseURL: p.Settings.BaseURL, Version: Version, Log: p.Log}
	if p.tokens != nil {
		o.Tokens, o.TokenKey = p.tokens.Store, p.tokens.Key
	}
	return o
}

// Everything returns the handler of every path, for a program that serves all of them.
func (p *Program) Everything(actor Actor) (http.Handler, error) {
	mux, err := p.public(actor)
	if err != nil {
		return nil, err
	}
	handler := p.Admin(actor, p)
	mux.Handle("/admin", handler)
	mux.Handle("/admin/", handler)
	return mux, nil
}
