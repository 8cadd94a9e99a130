package console

import (
	"mime"
	"net/http"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// pages serves browsers, at the addresses that remediations link to; next serves everything else.
func (c *Console) pages(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /admin", c.inbox)
	mux.Handle("GET /admin/tools", c.pageOr(next, c.tools))
	mux.Handle("POST /admin/tools", formOr(next, c.decideAll))
	mux.HandleFunc("POST "+bulkPath, c.bulk)
	mux.HandleFunc("GET "+bulkPath, c.bulkAgain)
	mux.HandleFunc("GET /admin/{$}", func(w http.ResponseWriter, _ *http.Request) { redirectTo(w, http.StatusPermanentRedirect, "../admin") })
	mux.HandleFunc("GET /admin/login", c.login)
	mux.HandleFunc("POST /admin/login", c.submitLogin)
	mux.HandleFunc("GET "+callbackPath, c.comeBack)
	mux.HandleFunc("POST /admin/logout", c.signOut)
	mux.HandleFunc("GET /admin/assets/{name}", serveAsset)
	for _, kind := range []tool.Kind{tool.Tool, tool.Prompt, tool.Resource} {
		c.itemPages(mux, next, kind)
	}
	c.serverPages(mux, next)
	mux.Handle("GET /admin/config", c.pageOr(next, c.config))
	mux.Handle("POST /admin/approvals/restore", formOr(next, c.reconcile(c.o.Service.Restore)))
	mux.Handle("POST /admin/approvals/accept", formOr(next, c.reconcile(c.o.Service.Accept)))
	mux.Handle("GET /admin/try", c.pageOr(next, c.try))
	c.filePages(mux, next)
	c.callPages(mux, next)
	c.auditPages(mux, next)
	c.usagePages(mux, next)
	mux.Handle("GET /admin/agents", c.pageOr(next, c.agents))
	c.stopPages(mux, next)
	c.signInPages(mux, next)
	c.requestPages(mux, next)
	c.ownPages(mux, next)
	c.sessionPages(mux, next)
	mux.Handle("GET /admin/health", c.pageOr(next, c.health))
	c.connectPages(mux, next)
	mux.Handle("/", c.problemPages(next))
	return mux
}

// itemPages registers the pages about items of a kind.
func (c *Console) itemPages(mux *http.ServeMux, next http.Handler, kind tool.Kind) {
	list := "/admin/" + kind.String() + "s"
	at := list + "/{server}/{name}"
	// about wraps a handler for one item.
	about := func(handle func(http.ResponseWriter, *http.Request, tool.ID)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			id, err := c.o.Service.Find(r.Context(), kind, r.PathValue("server"), r.PathValue("name"))
			if err != nil {
				c.failed(w, r, "page", err)
				return
			}
			handle(w, r, id)
		}
	}
	mux.Handle("GET "+at, c.pageOr(next, about(c.show)))
	mux.Handle("POST "+at, formOr(next, about(c.keepNote)))
	mux.HandleFunc("GET "+at+"/text", about(c.text))
	for _, verb := range decide.Actions() {
		mux.Handle("POST "+at+"/"+verb, formOr(next, about(func(w http.ResponseWriter, r *http.Request, id tool.ID) { c.decideItem(w, r, id, verb) })))
	}
	mux.Handle("GET "+at+"/history", c.pageOr(next, about(c.history)))
	if kind != tool.Tool { // a shortened address leads to the list
		mux.Handle("GET "+list, c.pageOr(next, func(w http.ResponseWriter, _ *http.Request) {
			redirectTo(w, http.StatusSeeOther, "./tools?kind="+kind.String())
		}))
	}
}

// pageOr serves a page to a browser, and next to a program.
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

// formOr is pageOr for POST: a form comes from a browser.
func formOr(next http.Handler, page http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isForm(r) && wantsHTML(r.Header.Get("Accept")) {
			page(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// wantsHTML reports whether the Accept header is from a browser.
func wantsHTML(accept string) bool {
	html, json := strings.Index(accept, "text/html"), strings.Index(accept, "application/json")
	return html >= 0 && (json < 0 || html < json)
}

// isForm reports whether the body of r is an HTML form.
func isForm(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/x-www-form-urlencoded"
}

// readForm reads the form of r.
func readForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	return r.ParseForm()
}
