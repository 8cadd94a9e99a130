package console

import (
	"mime"
	"net/http"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/decide"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// pages serves browsers, at the addresses that remediations link to; everything else is next's.
func (c *Console) pages(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /admin", c.inbox)
	mux.Handle("GET /admin/tools", c.pageOr(next, c.tools))
	mux.Handle("POST /admin/tools", formOr(next, c.decideAll))
	mux.HandleFunc("POST "+sheetPath, c.bulk)
	mux.HandleFunc("GET "+sheetPath, c.bulkAgain)
	mux.HandleFunc("GET /admin/{$}", func(w http.ResponseWriter, _ *http.Request) { leadTo(w, http.StatusPermanentRedirect, "../admin") })
	mux.HandleFunc("GET /admin/login", c.login)
	mux.HandleFunc("POST /admin/login", c.submitLogin)
	mux.HandleFunc("POST /admin/logout", c.signOut)
	mux.HandleFunc("GET /admin/assets/{name}", serveAsset)
	show := func(w http.ResponseWriter, r *http.Request) {
		if compares(r.URL.Query()) {
			c.compare(w, r)
			return
		}
		c.review(w, r, nil)
	}
	mux.Handle("GET /admin/tools/{server}/{tool}", c.pageOr(next, show))
	mux.Handle("POST /admin/tools/{server}/{tool}", formOr(next, c.keepNote))
	mux.HandleFunc("GET /admin/tools/{server}/{tool}/text", c.text)
	for _, verb := range decide.Actions() {
		mux.Handle("POST /admin/tools/{server}/{tool}/"+verb, formOr(next, func(w http.ResponseWriter, r *http.Request) { c.decided(w, r, verb) }))
	}
	mux.Handle("GET /admin/tools/{server}/{tool}/history", c.pageOr(next, c.history))
	mux.Handle("GET /admin/servers", c.pageOr(next, c.servers))
	mux.Handle("GET /admin/servers/{server}", c.pageOr(next, c.server))
	mux.Handle("POST /admin/sync", formOr(next, c.sync))
	mux.Handle("GET /admin/config", c.pageOr(next, c.config))
	mux.Handle("POST /admin/approvals/restore", formOr(next, c.settle(c.o.Desk.Restore)))
	mux.Handle("POST /admin/approvals/accept", formOr(next, c.settle(c.o.Desk.Accept)))
	c.ownPages(mux, next)
	mux.Handle("/", c.problemPages(next))
	return mux
}

// pageOr answers a browser with a page, and a program with next.
func (c *Console) pageOr(next http.Handler, page http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if wantsHTML(r.Header.Get("Accept")) {
			page(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// formOr is pageOr for what is sent: a form is a browser's.
func formOr(next http.Handler, page http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isForm(r) && wantsHTML(r.Header.Get("Accept")) {
			page(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// wantsHTML reports whether the Accept header is a browser's.
func wantsHTML(accept string) bool {
	html, json := strings.Index(accept, "text/html"), strings.Index(accept, "application/json")
	return html >= 0 && (json < 0 || html < json)
}

// idOf returns the tool that a page is about.
func idOf(r *http.Request) tool.ID {
	return tool.ID{Server: r.PathValue("server"), Name: r.PathValue("tool")}
}

// isForm reports whether the body of r is what a form sends.
func isForm(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/x-www-form-urlencoded"
}

// readForm reads the form that r holds.
func readForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	return r.ParseForm()
}
