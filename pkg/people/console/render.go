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
	"regexp"
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

// [Console.render] writes a page by the name of its file in templates, which defines "main".
// templates/layout.html is the layout of every page: the head, the header with the navigation, the
// banner, the live region and <main>. templates/parts.html has the parts that several pages share.
// To add a page:
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
// Add its route to [Console.pages] and, if people look for the page, its line to nav. To show only
// a problem, call [Console.problem], or [Console.failed] for an error of the service.
//
// In a template every address begins with {{.Root}}, the relative path to the parent of /admin;
// every form that changes something has {{template "csrf" $}}; a time is {{template "time" ($.Time
// .At)}}, a status {{template "status" .Status}}. Write a server's text as {{readable .}}, never
// raw; write a name, which may be a URI, as {{shorten .}}.

//go:embed templates
var templateFiles embed.FS

// pageCSP lets a page load only our style and script, and send requests and forms only to us.
const pageCSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// A Page has what the layout shows around a page; each page embeds it. The page sets the fields of
// the first block, and fill sets the other fields.
type Page struct {
	Title   string // without the program's name
	Here    string // its entry in the navigation: a Path of nav
	Message string // result of the last action, which screen readers read out
	Problem string // what went wrong, and whether anything was done
	Undo    *flash // undoes the action of Message; nil: it cannot be undone

	Root     string // relative address of the parent of /admin: "./", "../", …
	Actor    string // the caller; "": none, and the page shows no state of the gateway
	OSUser   bool   // the caller owns a gateway on one machine
	SignOut  bool   // the browser is signed in
	CSRF     string // token that proves that a form is ours
	Keys     bool   // single keys are commands
	Theme    string // light or dark; "": as the browser prefers
	Waiting  int    // tools, prompts and resources that wait for a decision of the caller
	OpenAsks int    // requests that wait for a decision of the caller
	Banner   []notice
	Role     string // of the caller
	rights   identity.Rights
	now      time.Time
	tokens   bool // the gateway has agent tokens
	asks     bool // agents can request access
	reads    bool // the caller may read
}

// A notice is a line above every page: a fault of the config or policy, or a stop. Link is the text
// of a link to Path, below /admin.
type notice struct{ Text, Detail, Path, Link string }

// A navItem is an entry of the navigation.
type navItem struct{ Path, Name string } // Path is below /admin

// nav is the navigation of the header.
var nav = []navItem{{"", "Inbox"}, {"tools", "Tools"}, {"servers", "Servers"}, {"audit", "Audit"}, {"agents", "Agents"}, {"usage", "Usage"}, {"try", "Try"}, {"connect", "Connect"}, {"config", "Config"}}

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

// Reads reports whether the caller may read.
func (p *Page) Reads() bool { return p.reads }

// At returns the address of a path below /admin.
func (p *Page) At(below string) string { return p.Root + strings.TrimSuffix("admin/"+below, "/") }

// Snippet returns a text to copy, with its title.
func (p *Page) Snippet(title, text string) struct{ Title, Text string } {
	return struct{ Title, Text string }{title, text}
}

// A piece is a part of a text. Link is the address of the page that the part names, or "".
type piece struct{ Text, Link string }

// pageNames matches the addresses of pages in the reasons of health.
var pageNames = regexp.MustCompile(`/admin/(servers|usage|config)\b`)

// Linked returns the pieces of a text that names pages.
func (p *Page) Linked(text string) (all []piece) {
	from := 0
	for _, at := range pageNames.FindAllStringIndex(text, -1) {
		name := text[at[0]:at[1]]
		all = append(all, piece{Text: text[from:at[0]]}, piece{name, p.Root + name[1:]})
		from = at[1]
	}
	return append(all, piece{Text: text[from:]})
}

// Asset returns the address of one of our assets.
func (p *Page) Asset(name string) string { return p.Root + "admin/assets/" + assets[name].address }

// render writes a page with the named template as its main part.
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
	writePage(w, r, status, &b)
}

// fill sets what the layout shows on every page. Without a caller it sets no state of the gateway.
// Without a role it sets only the caller.
func (c *Console) fill(p *Page, r *http.Request) {
	who := callerOf(r.Context())
	p.setCaller(r, c.o.Now())
	p.Root, p.Title, p.Keys = rootOf(r), cmp.Or(p.Title, "Portcullis"), c.singleKeys(r)
	p.Theme = c.theme(r)
	p.Actor, p.OSUser, p.SignOut, p.CSRF = who.Name, isOSUser(who.session), who.session != nil, who.csrf
	p.Role = who.Rights.Role.String()
	p.tokens = c.o.Tokens != nil && p.MayOperate()
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
		p.Banner = append(p.Banner, notice{Text: n.Message, Detail: n.Action, Path: "health", Link: "See the problem"})
	}
}

// setCaller sets what the methods of the page need: the caller's rights and the time.
func (p *Page) setCaller(r *http.Request, now time.Time) {
	p.rights, p.now = callerOf(r.Context()).Rights, now
}

// bannerOf returns the notices about stored files that were refused.
func bannerOf(f decide.Freshness) (out []notice) {
	for _, part := range []struct {
		name string
		decide.Part
	}{{"mcp_config.json", f.Config}, {"policy.cedar", f.Policy}} {
		if part.Faults == nil {
			continue
		}
		text := "The stored " + part.name + " is refused, and no earlier version is in use"
		if part.Version != "" {
			text = "The stored " + part.name + " is refused; the previous version stays in use"
		}
		out = append(out, notice{text, part.Faults[0].String(), "config", "See the config"})
	}
	return out
}

// problem answers with a page that says what went wrong.
func (c *Console) problem(w http.ResponseWriter, r *http.Request, status int, detail string) {
	c.render(w, r, status, "problem", &Page{Title: headingOf(status), Here: "-", Problem: detail})
}

// headingOf returns the heading for a status.
func headingOf(status int) string {
	heading, ok := map[int]string{
		http.StatusBadRequest: "This request cannot be read", http.StatusRequestEntityTooLarge: "This request is too long", http.StatusRequestURITooLong: "This request is too long",
		http.StatusForbidden: "Not allowed", http.StatusNotFound: "There is nothing here",
		http.StatusUnprocessableEntity: "This request is not valid", http.StatusInternalServerError: "Something failed here",
		http.StatusServiceUnavailable: "Not possible now",
	}[status]
	if !ok {
		return http.StatusText(status)
	}
	return heading
}

// failed is [Console.problem] for an error. It logs errors that a person may not read.
func (c *Console) failed(w http.ResponseWriter, r *http.Request, operation string, err error) {
	e := c.o.Service.Explain(r.Context(), operation, err)
	c.problem(w, r, e.Status, sentence(e.Detail))
}

// sentence returns a detail as a sentence.
func sentence(detail string) string {
	if detail == "" || strings.HasSuffix(detail, ".") {
		return detail
	}
	return strings.ToUpper(detail[:1]) + detail[1:] + "."
}

// templates has a function for each page that returns its template, by name. The function parses
// the page at its first use. To parse all pages would delay the start, and double the memory of a
// small gateway.
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

// shared has the layout and the parts of all pages.
var shared = sync.OnceValue(func() *template.Template {
	funcs := template.FuncMap{
		"readable": review.Readable, "shorten": shorten, "noteOf": noteOf, "words": words,
		"verb": verb, "chip": chipOf, "span": spanOf, "why": lockedWhy, "spark": spark,
		"pointers": pointersOf,
	}
	return template.Must(template.New("").Funcs(funcs).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
})

// words returns a status with spaces instead of underscores.
func words(status string) string { return strings.ReplaceAll(status, "_", " ") }
