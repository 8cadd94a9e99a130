package boot

import (
	"net"
	"net/http"
	"net/url"

	"github.com/portcullis-mcp/portcullis/pkg/admin"
)

// Admin returns the handlers of /admin and of /healthz. actor says who sends
// a request; sync runs what POST /admin/sync asks for.
func (p *Program) Admin(actor func(*http.Request) (string, error), sync admin.Syncer) (api, health http.Handler) {
	o := &admin.Options{Actor: actor, Hosts: p.hosts(), BaseURL: p.Settings.BaseURL, Version: Version, Log: p.Log}
	return admin.New(p.States, p.Stores.Approvals, sync, o), admin.Health(p.States, o)
}

// hosts are the names under which people reach the admin API: that of the base
// URL and, if it is this machine, every name of it.
func (p *Program) hosts() []string {
	u, err := url.Parse(p.Settings.BaseURL)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback()) {
		return []string{u.Hostname(), "localhost", "127.0.0.1", "::1"}
	}
	return []string{u.Hostname()}
}

// Everything returns the handler of every path, for a program that serves all of them.
func (p *Program) Everything(actor func(*http.Request) (string, error)) (http.Handler, error) {
	mcp, err := p.MCP()
	if err != nil {
		return nil, err
	}
	api, health := p.Admin(actor, p)
	mux := http.NewServeMux()
	for path, h := range map[string]http.Handler{
		"/mcp": mcp, "/mcp/": mcp, "/.well-known/": mcp, "/admin": api, "/admin/": api, "/healthz": health,
	} {
		mux.Handle(path, h)
	}
	return mux, nil
}
