package console

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Every page is a file of templates, named as [Console.render] is told, that defines "main". It
// stands in the one layout (templates/layout.html), which has the head, the header with the
// navigation, the banner, the live region and <main>; templates/parts.html has what several pages
// show. To add a page:
//
//	type tokensPage struct {
//		Page
//		Tokens []token.Token
//	}
//
//	func (c *Console) tokens(w http.ResponseWriter, r *http.Request) {
//		c.render(w, r, http.StatusOK, "tokens", &tokensPage{Page: Page{Title: "Tokens", Here: "tokens"}, Tokens: …})
//	}
//
// with its route in [Console.pages] and, if people look for it, its line in nav. A page that only
// says what went wrong is [Console.problem], or [Console.failed] for an error of the desk.
//
// In a template every address begins with {{.Root}}, which leads to where /admin lies whatever
// precedes it; every form that changes something has {{template "csrf" $}}; a time is
// {{template "time" ($.Time .At)}}, a status {{template "status" .Status}}. Text of a server is
// written as {{readable .}}, never as it is; a name, which may be a URI, as {{shorten .}}.

//go:embed templates
var templateFiles embed.FS

// pageCSP lets a page load our own style and script, ask us, and send forms to us.
const pageCSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// A Page is what the layout shows around a page; each page embeds it. The first part is the page's
// own, the rest is set as it is written.
type Page struct {
	Title   string // without the program's name
	Here    string // its entry in the navigation: a Path of nav
	Message string // what was done just now; read out
	Problem string // what went wrong, and that nothing was done
	Undo    *flash // undoes what Message says; nil: it cannot be undone

	Root     string // relative address of what /admin lies in: "./", "../", …
	Actor    string // who is let in; "": nobody, and the page shows nothing of the gateway
	OSUser   bool   // whom a gateway on one machine belongs to
	SignOut  bool   // the browser is signed in
	CSRF     string // proof that a form is ours
	Keys     bool   // single keys are commands
	Waiting  int    // tools, prompts and resources that wait for a decision of who is let in
	OpenAsks int    // requests that do
	Banner   []notice
	Role     string // of who is let in
	rights   identity.Rights
	now      time.Time
	tokens   bool // there are agent tokens
	asks     bool // agents can ask for things
	reads    bool // the caller may read
}

// A notice is a line above every page: something that is wrong with what is in use, or stopped. Path,
// below /admin, and Link lead to more.
type notice struct{ Text, Detail, Path, Link string }

// A navItem is an entry of the navigation.
type navItem struct{ Path, Name string } // Path is below /admin

// nav is what the header leads to.
var nav = []navItem{{"", "Inbox"}, {"tools", "Tools"}, {"servers", "Servers"}, {"audit", "Audit"}, {"usage", "Usage"}, {"try", "Try"}, {"connect", "Connect"}, {"config", "Config"}}

// A framed page is one that embeds [Page].
type framed interface{ frame() *Page }

func (p *Page) frame() *Page { return p }

// Nav returns the entries of the navigation.
func (p *Page) Nav() []navItem {
	if !p.reads {
		return nil
	}
	all := slices.Clone(nav)
	if p.asks {
		all = slices.Insert(all, 1, navItem{"requests", "Requests"})
	}
	if p.tokens {
		all = append(all, navItem{"tokens", "Tokens"})
	}
	return all
}

// Reads reports whether who is let in may read.
func (p *Page) Reads() bool { return p.reads }

// At returns the address of something below /admin.
func (p *Page) At(below string) string { return p.Root + strings.TrimSuffix("admin/"+below, "/") }

// Asset returns the address of a file of ours.
func (p *Page) Asset(name string) string { return p.Root + "admin/assets/" + assets[name].address }

// render writes a page, whose main part is the template name.
func (c *Console) render(w http.ResponseWriter, r *http.Request, status int, name string, data framed) {
	c.fill(data.frame(), r)
	var b bytes.Buffer
	if err := templates()[name]().ExecuteTemplate(&b, "layout", data); err != nil {
		c.o.Log.LogAttrs(r.Context(), slog.LevelError, "page not written", slog.String("page", name), slog.Any("error", err))
		decide.WriteProblem(w, http.StatusInternalServerError, "internal error; the log says more")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pageCSP)
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // the caller has gone if this fails
}

// fill sets what the layout shows on every page. Who was not let in is shown nothing of it, and who
// has no role nothing of the gateway.
func (c *Console) fill(p *Page, r *http.Request) {
	who := callerOf(r.Context())
	p.Root, p.Title, p.Keys = rootOf(r), cmp.Or(p.Title, "Portcullis"), c.singleKeys(r)
	p.Actor, p.OSUser, p.SignOut, p.CSRF = who.Name, isOSUser(who.session), who.session != nil, who.csrf
	p.rights, p.Role = who.Rights, who.Rights.Role.String()
	p.tokens = c.o.Tokens != nil && p.MayOperate()
	p.now = c.o.Now()
	if lateOf(r) != nil {
		p.Problem = cmp.Or(p.Problem, typedAgain)
	}
	if p.reads = who.Rights.Role >= identity.Viewer; !p.reads {
		return
	}
	v := c.o.Service.View(r.Context())
	for _, kind := range []tool.Set{v.Tools(), v.Items()} {
		for i := range kind.All() {
			if v.Status(i) == lock.PendingApproval && p.MayDecide(v.ID(i).Server) {
				p.Waiting++
			}
		}
	}
	p.asks, p.OpenAsks = c.o.Service.TakesRequests(), c.openAsks(r.Context(), who.Rights)
	p.Banner = append(stopBanner(c.o.Service.StoppedNow(r.Context())), bannerOf(c.o.Service.Freshness(r.Context()))...)
	for _, n := range c.o.Service.Notices(r.Context()) {
		p.Banner = append(p.Banner, notice{Text: n.Message, Detail: n.Action, Path: "health", Link: "See what is wrong"})
	}
}

// bannerOf tells of files that are stored and refused.
func bannerOf(f decide.Freshness) (out []notice) {
	for _, part := range []struct {
		name string
		decide.Part
	}{{"mcp_config.json", f.Config}, {"policy.cedar", f.Policy}} {
		if part.Faults == nil {
			continue
		}
		text := part.name + " is refused as it is stored now, and no earlier version is in use"
		if part.Version != "" {
			text = part.name + " is refused as it is stored now; the version before it stays in use"
		}
		out = append(out, notice{text, part.Faults[0].String(), "config", "See the config"})
	}
	return out
}

// problem answers with a page that says what went wrong.
func (c *Console) problem(w http.ResponseWriter, r *http.Request, status int, detail string) {
	c.render(w, r, status, "problem", &Page{Title: headingOf(status), Here: "-", Problem: detail})
}

// headingOf says what a status means, in the words of people.
func headingOf(status int) string {
	heading, ok := map[int]string{
		http.StatusBadRequest: "That cannot be read", http.StatusRequestEntityTooLarge: "That is too long", http.StatusRequestURITooLong: "That is too long",
		http.StatusForbidden: "Not allowed", http.StatusNotFound: "There is nothing here",
		http.StatusUnprocessableEntity: "That cannot be asked", http.StatusInternalServerError: "Something failed here",
		http.StatusServiceUnavailable: "Not possible for now",
	}[status]
	if !ok {
		return http.StatusText(status)
	}
	return heading
}

// failed is [Console.problem] for an error; what a person may not read of it goes to the log.
func (c *Console) failed(w http.ResponseWriter, r *http.Request, operation string, err error) {
	e := c.o.Service.Explain(r.Context(), operation, err)
	c.problem(w, r, e.Status, sentence(e.Detail))
}

// sentence returns a detail as people read it.
func sentence(detail string) string {
	if detail == "" || strings.HasSuffix(detail, ".") {
		return detail
	}
	return strings.ToUpper(detail[:1]) + detail[1:] + "."
}

// templates has what parses each page, by its name. A page is parsed when it is first asked for: all of them
// take as much memory as a small gateway does else, and a start would wait for them.
var templates = sync.OnceValue(func() map[string]func() *template.Template {
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic(err)
	}
	out := map[string]func() *template.Template{}
	for _, file := range files {
		out[strings.TrimSuffix(path.Base(file), ".html")] = sync.OnceValue(func() *template.Template {
			return template.Must(template.Must(shared().Clone()).ParseFS(templateFiles, file))
		})
	}
	return out
})

// shared is what all pages are made of.
var shared = sync.OnceValue(func() *template.Template {
	funcs := template.FuncMap{
		"readable": review.Readable, "shorten": shorten, "noteOf": noteOf, "words": words,
		"verb": verb, "chip": chipOf, "span": spanOf, "why": lockedWhy, "spark": spark,
	}
	return template.Must(template.New("").Funcs(funcs).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
})

// words returns a status as people read it.
func words(status string) string { return strings.ReplaceAll(status, "_", " ") }
