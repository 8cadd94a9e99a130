package console

import (
	"bytes"
	"cmp"
	_ "embed" // the page and its style
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/decide"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

//go:embed page.html
var pageHTML string

//go:embed style.css
var styleCSS []byte

// pageCSP lets the page load its style and send its form, and nothing else.
const pageCSP = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxForm is the longest form that is read, in bytes.
const maxForm = 64 << 10

// A page is what page.html shows: one tool, the servers with their tools, or how to sign in.
type page struct {
	Status  int    // of the answer; 0: 200
	Title   string // "": Portcullis
	Root    string // relative address of what /admin lies in; set as the page is written
	Actor   string // who can sign out; set as the page is written
	Problem string
	SignIn  *signIn
	Tool    *decide.Tool
	Actions []string // buttons
	Note    string   // what stood in the form that was refused
	Before  *text    // the definition approved before, if it is another
	Now     text

	Servers  []pageServer
	Statuses []statusLink
	Next     string // address of the next page; "": this is the last one
}

// A text is a definition in three parts: head and tail are the same before and now.
type text struct{ Head, Changed, Tail string }

// pages serves browsers, at the addresses that remediations link to; everything else is next's.
func (c *Console) pages(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /admin", func(w http.ResponseWriter, r *http.Request) { c.write(w, r, c.indexPage(r)) })
	mux.Handle("GET /admin/tools", c.pageOr(next, c.indexPage))
	mux.HandleFunc("GET /admin/{$}", func(w http.ResponseWriter, _ *http.Request) { leadTo(w, http.StatusPermanentRedirect, "../admin") })
	mux.HandleFunc("GET /admin/login", c.loginPage)
	mux.HandleFunc("POST /admin/login", c.submitLogin)
	mux.HandleFunc("POST /admin/logout", c.signOut)
	mux.HandleFunc("GET /admin/style.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(styleCSS) // the caller has gone if this fails
	})
	mux.Handle("GET /admin/tools/{server}/{tool}", c.pageOr(next, c.toolPage))
	mux.HandleFunc("POST /admin/tools/{server}/{tool}", func(w http.ResponseWriter, r *http.Request) {
		if err := c.submit(w, r); err != nil {
			e, p := c.o.Desk.Explain(r.Context(), "form", err), c.toolPage(r)
			if p.Problem == "" {
				p.Status, p.Problem, p.Note = e.Status, e.Detail, r.PostForm.Get("note")
			}
			c.write(w, r, p)
			return
		}
		// Sent again by a reload, a form would decide again.
		leadTo(w, http.StatusSeeOther, "./"+url.PathEscape(r.PathValue("tool")))
	})
	mux.Handle("/", next)
	return mux
}

// pageOr answers a browser with a page, and a program with next.
func (c *Console) pageOr(next http.Handler, show func(*http.Request) page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if wantsHTML(r.Header.Get("Accept")) {
			c.write(w, r, show(r))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// parsePage panics if the page is wrong, when the program starts.
func parsePage() *template.Template { return template.Must(template.New("page").Parse(pageHTML)) }

func (c *Console) write(w http.ResponseWriter, r *http.Request, p page) {
	p.Title, p.Root = cmp.Or(p.Title, "Portcullis"), rootOf(r)
	if c.o.Login != nil {
		p.Actor = decide.ActorOf(r.Context())
	}
	var b bytes.Buffer
	if err := c.page.Execute(&b, p); err != nil {
		c.o.Log.LogAttrs(r.Context(), slog.LevelError, "page not written", slog.Any("error", err))
		decide.WriteProblem(w, http.StatusInternalServerError, "internal error; the log says more")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pageCSP)
	w.WriteHeader(cmp.Or(p.Status, http.StatusOK))
	_, _ = b.WriteTo(w) // the caller has gone if this fails
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

func (c *Console) toolPage(r *http.Request) page {
	id := idOf(r)
	p := page{Title: id.String() + " · Portcullis"}
	t, err := c.o.Desk.Tool(r.Context(), id)
	if err != nil {
		e := c.o.Desk.Explain(r.Context(), "page", err)
		p.Status, p.Problem = e.Status, e.Detail
		return p
	}
	p.Tool, p.Actions = &t, actionsOf(t)
	p.Now = text{Head: readable(t.Definition)}
	if t.Approved != nil {
		before, now := compare(readable(t.Approved), p.Now.Head)
		p.Before, p.Now = &before, now
	}
	return p
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
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
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

// readable returns a definition as text for a person, one member a line. Characters that a person
// cannot see are written as numbers: they could hide instructions that an agent reads.
func readable(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		b.Reset()
		b.Write(raw)
	}
	var out strings.Builder
	for _, r := range b.String() {
		if r == '\n' || visible(r) {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, "⟨U+%04X⟩", r)
		}
	}
	return out.String()
}

// compare marks the lines between the first and the last that differ. It marks too much rather than
// too little: what is not marked need not be read again.
func compare(before, now string) (b, n text) {
	x, y := strings.SplitAfter(before, "\n"), strings.SplitAfter(now, "\n")
	head, tail := 0, 0
	for head < min(len(x), len(y)) && x[head] == y[head] {
		head++
	}
	for tail < min(len(x), len(y))-head && x[len(x)-1-tail] == y[len(y)-1-tail] {
		tail++
	}
	part := func(lines []string) text {
		end := len(lines) - tail
		return text{strings.Join(lines[:head], ""), strings.Join(lines[head:end], ""), strings.Join(lines[end:], "")}
	}
	return part(x), part(y)
}

func visible(r rune) bool {
	return unicode.IsPrint(r) && r != '\u2800' && // a braille pattern without dots
		!unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
