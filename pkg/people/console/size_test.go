package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

// small opens a page and fails the test if it is longer than any may be.
func (h *fixture) small(path string) string {
	h.T.Helper()
	page := h.Page(http.StatusOK, path)
	if len(page) > maxPage {
		h.T.Errorf("%s has %d bytes", path, len(page))
	}
	return page
}

// Long names leave less room for what else stands in a row, and then for rows; none is lost.
func TestToolsLongNames(t *testing.T) {
	h := newFixture(t)
	server := strings.Repeat("s", 60)
	var tools []string
	for i := range 120 {
		tools = append(tools, `{"name":"`+strings.Repeat("n", 125)+strconv.Itoa(100+i)+`","description":"`+strings.Repeat(`+\u0001`, 500)+`"}`)
	}
	h.Serve(server, tools...)
	h.Put(config.Key, `{"mcpServers":{"`+server+`":{"url":"https://`+server+`.example.com/mcp"}}}`)
	h.Sync()
	next := regexp.MustCompile(`<a href="\.\./(admin/tools\?[^"]+)" rel="next">`)
	q := url.QueryEscape(strings.Repeat("n", 120))
	for _, first := range []string{"/admin/tools?server=" + server, "/admin/tools?q=" + q + "&tick=page", "/admin/tools?limit=200&server=" + server} {
		seen, pages := map[string]bool{}, 0
		for path := first; path != ""; pages++ {
			page := h.small(path)
			for _, m := range regexp.MustCompile(`name="item" value="([^ "]+)`).FindAllStringSubmatch(page, -1) {
				seen[m[1]] = true
			}
			path = ""
			if m := next.FindStringSubmatch(page); m != nil {
				path = "/" + html.UnescapeString(m[1])
			}
		}
		if len(seen) != 120 || pages < 3 || pages > 12 {
			t.Errorf("%s: %d tools on %d pages", first, len(seen), pages)
		}
	}
}

func TestToolsLimit(t *testing.T) {
	h := &fixture{Desk: admintest.WithMany(t, 4, 60)}
	for limit, want := range map[string]int{"10": 10, "50": 50, "51": 50, "200": 50} {
		if n := strings.Count(h.small("/admin/tools?limit="+limit), `name="item"`); n != want {
			t.Errorf("limit=%s: %d rows", limit, n)
		}
	}
}

// However long notes and names of reviewers are, and whatever they are made of, no page is too long.
func TestNotesAreShort(t *testing.T) {
	for name, char := range map[string]string{"brackets": "<", "control": "\x01", "bidi": "\u202e", "plain": "n"} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			actor := strings.Repeat(char, approval.MaxActor/len(char))
			h.Console.Actor = func(*http.Request) (decide.Actor, error) {
				return decide.Actor{Name: actor, Rights: identity.Everything()}, nil
			}
			h.Open()
			note := "n" + strings.Repeat(char, (approval.MaxNote-1)/len(char))
			for n := range 60 {
				verb := []string{"disable", "enable"}[n%2]
				h.Clock.Wait(time.Second)
				if w := h.Submit(toolPath+"/"+verb, url.Values{"rev": {strconv.Itoa(n + 1)}, "note": {note}, "tell": {"1"}}); w.Status != http.StatusSeeOther {
					t.Fatalf("%d %s", w.Status, w.Body)
				}
			}
			for _, path := range []string{toolPath + "/history", "/admin", toolPath, "/admin/me"} {
				page := h.small(path)
				if path == toolPath+"/history" || path == "/admin" {
					says(t, page, "(the note goes on)")
				}
				lacks(t, page, "\u202e", "\x01")
			}
		})
	}
}

// A form that was not carried out is carried on as far as a page has room for it.
func TestKeptIsBounded(t *testing.T) {
	h := newLaptop(t)
	many := url.Values{"next": {"tools"}, "kept.": make([]string, 6_500), "kept.note": {"kept"}}
	for i := range many["kept."] {
		many["kept."][i] = `"`
	}
	items := url.Values{"action": {"approve"}, "note": {"why"}}
	for range 400 {
		items.Add("item", strings.Repeat("<", 48))
	}
	for name, tc := range map[string]struct {
		path string
		form url.Values
		says string
	}{
		"many fields":        {"/admin/login", many, "Not all that you sent is kept"},
		"one long field":     {"/admin/login", url.Values{"kept.x": {strings.Repeat(`"`, 20_000)}}, "Not all that you sent is kept"},
		"a sheet":            {"/admin/tools", items, `name="kept.note" value="why"`},
		"longer than a form": {"/admin/tools", url.Values{"note": {strings.Repeat("n", 70_000)}}, "Not all that you sent is kept"},
		"a note":             {toolPath, url.Values{"note": {strings.Repeat("+", approval.MaxNote)}}, "What you typed is kept"},
		"a long note":        {toolPath, url.Values{"note": {strings.Repeat("+", 2*approval.MaxNote)}}, "Not all that you sent is kept"},
	} {
		w := h.Submit(tc.path, tc.form)
		if w.Status != http.StatusUnauthorized || len(w.Body) > maxPage || !strings.Contains(w.Body, tc.says) {
			t.Errorf("%s: %d, %d bytes: %.1500s", name, w.Status, len(w.Body), w.Body)
		}
	}
}

// A note that is too long is refused, and shown as far as a note goes.
func TestTypedNoteIsCut(t *testing.T) {
	h := newFixture(t)
	h.ByName["fs"].Tools[0] = `{"name":"read_file","description":"` + strings.Repeat("+", 16_000) + `"}`
	h.Sync()
	w := h.Submit(toolPath+"/disable", url.Values{"rev": {"2"}, "note": {strings.Repeat("+", 20_000)}})
	if shown := strings.Count(h.Field(w.Body, "note\" maxlength=\"1000\" autocomplete=\"off"), "+"); w.Status != http.StatusUnprocessableEntity || shown != approval.MaxNote || len(w.Body) > maxPage {
		t.Errorf("%d, %d bytes, %d of the note", w.Status, len(w.Body), shown)
	}
}

// Nobody is called what another is called with characters that are not seen.
func TestNamesAreReadable(t *testing.T) {
	h := newFixture(t)
	h.Console.Actor = func(*http.Request) (decide.Actor, error) {
		return decide.Actor{Name: "\u202enna", Rights: identity.Everything()}, nil
	}
	h.Open()
	admintest.Into[any](h.Desk, "/admin/tools/mail/send/approve", approveBody(h.Hash("mail/send")))
	for _, path := range []string{"/admin", "/admin/me", "/admin/tools/mail/send", "/admin/tools/mail/send/history"} {
		page := h.Page(http.StatusOK, path)
		says(t, html.UnescapeString(page), "⟨U+202E⟩nna")
		lacks(t, page, "\u202e")
	}
}
