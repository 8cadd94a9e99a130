package console

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
)

// linesPerPage limits the lines of a file on one page, and maxFileLine the characters of a line.
const (
	linesPerPage = 250
	maxFileLine  = 300
)

// fileLink returns the address of a line of an operator's file; "" for the line 0.
func fileLink(root, name string, line int) string {
	if line == 0 {
		return ""
	}
	at := root + "admin/config/" + name
	if line > linesPerPage {
		at += "?line=" + strconv.Itoa(line)
	}
	return at + "#L" + strconv.Itoa(line)
}

// A filePage shows a version of an operator's file, or what changed between two versions.
type filePage struct {
	Page
	Name     string
	Versions []decide.FileVersion
	Shown    decide.FileVersion
	From     string // the version to compare with; "": none
	Changes  *block // nil: no comparison
	HasMore  bool   // Changes has only the first changes
	Lines    []fileLine
	Total    int
	Earlier  string // address of the lines before
	Later    string
}

// A fileLine is a line of a file.
type fileLine struct {
	Number int
	Text   string
}

// filePages registers the pages of the operator's files.
func (c *Console) filePages(mux *http.ServeMux, next http.Handler) {
	for _, name := range []string{"mcp_config.json", "policy.cedar"} {
		page := func(w http.ResponseWriter, r *http.Request) { c.file(w, r, name) }
		mux.Handle("GET /admin/config/"+name, c.pageOr(next, page))
	}
	mux.Handle("POST /admin/config/test", formOr(next, c.testNotice))
}

// file shows an operator's file.
func (c *Console) file(w http.ResponseWriter, r *http.Request, name string) {
	all, err := c.o.Service.FileVersions(r.Context(), name)
	p := &filePage{Page: Page{Title: name, Here: "config"}, Name: name, Versions: all}
	if err != nil { // a backup could not be read
		p.Problem = "Some backups are missing here. " +
			sentence(c.o.Service.Explain(r.Context(), "config file", err).Detail)
	}
	q, before := r.URL.Query(), decide.FileVersion{}
	p.From = q.Get("from")
	for _, v := range all {
		if v.Name == cmp.Or(q.Get("version"), decide.VersionInUse) {
			p.Shown = v
		}
		if v.Name == p.From {
			before = v
		}
	}
	if p.Shown.Name == "" && q.Get("version") != "" || before.Name != p.From {
		c.problem(w, r, http.StatusNotFound, "This version of "+name+" is not known here.")
		return
	}
	if p.From != "" && !before.IsHidden && !p.Shown.IsHidden {
		b := blockOf(newTextLimit(), textPair{
			"file", "From “" + before.Name + "” to “" + p.Shown.Name + "”",
			before.Text, p.Shown.Text, review.Lines, true,
		}, nil, false, true)
		p.Changes, p.HasMore, b.Cut = &b, b.Cut, false
	}
	p.fillLines(r)
	c.render(w, r, http.StatusOK, "configfile", p)
}

// fillLines sets the lines of one page: those around the line that the address names.
func (p *filePage) fillLines(r *http.Request) {
	lines := strings.SplitAfter(p.Shown.Text, "\n")
	p.Total = len(lines)
	line, _ := strconv.Atoi(r.URL.Query().Get("line")) // 0 is the beginning
	first := (min(max(line, 1), p.Total) - 1) / linesPerPage * linesPerPage
	last := min(first+linesPerPage, p.Total)
	for i, text := range lines[first:last] {
		shown := excerptOf(strings.TrimRight(text, "\r\n"), maxFileLine, "").Text
		p.Lines = append(p.Lines, fileLine{first + i + 1, shown})
	}
	at := func(line int) string {
		q := url.Values{"version": {p.Shown.Name}, "line": {strconv.Itoa(line)}}
		return withQuery(rootOf(r)+"admin/config/"+p.Name, q)
	}
	if first > 0 {
		p.Earlier = at(first)
	}
	if last < p.Total {
		p.Later = at(last + 1)
	}
}
