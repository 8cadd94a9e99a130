package console

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/decide"
	"github.com/portcullis-mcp/portcullis/pkg/review"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// maxForm is the longest form that is read, in bytes.
const maxForm = 64 << 10

// A toolPage shows one tool, with the forms that decide about it.
type toolPage struct {
	Page
	Tool    *decide.Tool
	Actions []string    // buttons
	Note    string      // what stood in the form that was refused
	Before  *threeParts // the definition approved before, if it is another
	Now     threeParts
}

// A threeParts is a definition in three parts: head and tail are the same before and now.
type threeParts struct{ Head, Changed, Tail string }

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
	mux.Handle("GET /admin/tools/{server}/{tool}", c.pageOr(next, func(w http.ResponseWriter, r *http.Request) { c.tool(w, r, nil) }))
	mux.HandleFunc("POST /admin/tools/{server}/{tool}", func(w http.ResponseWriter, r *http.Request) {
		if err := c.submit(w, r); err != nil {
			c.tool(w, r, err)
			return
		}
		// Sent again by a reload, a form would decide again.
		leadTo(w, http.StatusSeeOther, "./"+url.PathEscape(r.PathValue("tool")))
	})
	mux.Handle("/", next)
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

// tool shows a tool; after a form that was refused, why, with what was typed.
func (c *Console) tool(w http.ResponseWriter, r *http.Request, refused error) {
	id := idOf(r)
	t, err := c.o.Desk.Tool(r.Context(), id)
	if err != nil {
		c.failed(w, r, "page", err)
		return
	}
	p, status := &toolPage{Page: Page{Title: id.String(), Here: "tools"}, Tool: &t, Actions: actionsOf(t), Note: typedOf(r).Get("note")}, http.StatusOK
	if refused != nil {
		e := c.o.Desk.Explain(r.Context(), "form", refused)
		status, p.Problem, p.Note = e.Status, sentence(e.Detail), r.PostForm.Get("note")
	}
	p.Now = threeParts{Head: review.Readable(string(indented(t.Definition)))}
	if t.Approved != nil {
		before, now := compare(review.Readable(string(indented(t.Approved))), p.Now.Head)
		p.Before, p.Now = &before, now
	}
	c.setOpened(w, r, t.Hash)
	c.render(w, r, status, "tool", p)
}

// actionsOf returns what a person can do about the tool.
func actionsOf(t decide.Tool) []string {
	if t.Record == nil {
		return nil
	}
	var out []string
	denied := t.Denial != nil && !t.Denial.Unknown
	if !denied && t.Record.ApprovedHash != t.Record.CurrentHash {
		out = append(out, approval.ActionApprove)
	}
	switch {
	case !t.Record.Disabled:
		out = append(out, approval.ActionDisable)
	case !denied:
		out = append(out, approval.ActionEnable)
	}
	return out
}

func refused(status int, detail string) error { return &decide.Error{Status: status, Detail: detail} }

// submit carries out the form of a page.
func (c *Console) submit(w http.ResponseWriter, r *http.Request) error {
	if err := readForm(w, r); err != nil {
		return refused(http.StatusBadRequest, "the form cannot be read")
	}
	form := r.PostForm
	rev, err := strconv.ParseInt(form.Get("rev"), 10, 64)
	d := decide.Decision{Action: form.Get("action"), Hash: tool.Hash(form.Get("hash")), Rev: rev, Note: form.Get("note")}
	switch {
	case err != nil || rev < 1:
		return refused(http.StatusBadRequest, "the form does not say which revision of the record it shows")
	case !slices.Contains([]string{approval.ActionApprove, approval.ActionDisable, approval.ActionEnable}, d.Action):
		return refused(http.StatusBadRequest, "the form names no action")
	case len(d.Note) > approval.MaxNote:
		return refused(http.StatusBadRequest, "the note is too long")
	}
	_, err = c.o.Desk.Decide(r.Context(), idOf(r), d)
	return err
}

// indented returns a definition with one member a line.
func indented(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return raw
	}
	return b.Bytes()
}

// compare marks the lines between the first and the last that differ. It marks too much rather than
// too little: what is not marked need not be read again.
func compare(before, now string) (b, n threeParts) {
	x, y := strings.SplitAfter(before, "\n"), strings.SplitAfter(now, "\n")
	head, tail := 0, 0
	for head < min(len(x), len(y)) && x[head] == y[head] {
		head++
	}
	for tail < min(len(x), len(y))-head && x[len(x)-1-tail] == y[len(y)-1-tail] {
		tail++
	}
	part := func(lines []string) threeParts {
		end := len(lines) - tail
		return threeParts{strings.Join(lines[:head], ""), strings.Join(lines[head:end], ""), strings.Join(lines[end:], "")}
	}
	return part(x), part(y)
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
