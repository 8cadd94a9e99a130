package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
)

// A crawler opens pages, and all links on them, with the session of a browser.
type crawler struct {
	*fixture
	alike map[string]int // number of opened addresses that differ only in their values
	seen  map[string]bool
	posts map[string]string // addresses of forms that change something, one for each kind
}

var (
	linkIn  = regexp.MustCompile(`\s(?:href|src|hx-get)="([^"]*)"`)
	formIn  = regexp.MustCompile(`<form[^>]*>`)
	methods = regexp.MustCompile(`\smethod="post"`)
	action  = regexp.MustCompile(`\saction="([^"]*)"`)
	buttons = regexp.MustCompile(`\sformaction="([^"]*)"`)
)

// resolve returns the absolute address of a link on a page.
func resolve(t *testing.T, page, link string) string {
	t.Helper()
	base, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	to, err := base.Parse(html.UnescapeString(link))
	if err != nil {
		t.Fatalf("%s has the link %q: %v", page, link, err)
	}
	to.Fragment = ""
	return to.String()
}

// maxAlike limits the number of opened addresses that differ only in their values.
const maxAlike = 8

// kindOf returns an address without the names of items and servers, and without most values.
func kindOf(address string) string {
	path, query, _ := strings.Cut(address, "?")
	parts := strings.Split(path, "/")
	lists := []string{"tools", "prompts", "resources"}
	for i := range parts {
		if i > 0 && (slices.Contains([]string{"servers", "requests", "ask"}, parts[i-1]) || i > 1 && slices.Contains(lists, parts[i-2]) || slices.Contains(lists, parts[i-1])) {
			parts[i] = "*"
		}
	}
	var names []string
	for _, pair := range strings.Split(query, "&") {
		if name, _, _ := strings.Cut(pair, "="); !slices.Contains([]string{"view", "diff", "only", "status", "sort"}, name) {
			pair = name
		}
		names = append(names, pair)
	}
	slices.Sort(names)
	return strings.Join(parts, "/") + "?" + strings.Join(names, "&")
}

// crawl opens a page, and then all its links.
func (c *crawler) crawl(t *testing.T, from, at string) {
	t.Helper()
	if c.seen[at] {
		return
	}
	c.seen[at] = true
	if c.alike[kindOf(at)]++; c.alike[kindOf(at)] > maxAlike {
		return
	}
	if !strings.HasPrefix(at, c.URL+"/") {
		if strings.HasPrefix(from, c.URL+"/admin/connect") && leadsToAClient(at) {
			return
		}
		t.Errorf("%s leads out of the gateway, to %s", from, at)
		return
	}
	a := c.get(strings.TrimPrefix(at, c.URL))
	if a.Status >= 400 {
		t.Errorf("%s leads to %s: %d", from, at, a.Status)
	}
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
		return
	}
	for _, m := range linkIn.FindAllStringSubmatch(a.Body, -1) {
		if link := m[1]; !strings.HasPrefix(link, "#") && !strings.HasPrefix(link, "data:") {
			c.crawl(t, at, resolve(t, at, link))
		}
	}
	forms := formIn.FindAllStringIndex(a.Body, -1)
	for i, span := range forms {
		open := a.Body[span[0]:span[1]]
		end := len(a.Body)
		if i+1 < len(forms) {
			end = forms[i+1][0]
		}
		targets := buttons.FindAllStringSubmatch(a.Body[span[1]:end], -1)
		if m := action.FindStringSubmatch(open); m != nil {
			targets = append(targets, m)
		} else {
			targets = append(targets, []string{"", at})
		}
		for _, m := range targets {
			to := resolve(t, at, m[1])
			if methods.MatchString(open) {
				c.posts[kindOf(to)] = to
			} else {
				c.crawl(t, at, to)
			}
		}
	}
}

// leadsToAClient reports whether an address is the documentation of a client, or opens a client on
// the person's machine.
func leadsToAClient(at string) bool {
	return strings.HasPrefix(at, "cursor://") || strings.HasPrefix(at, "vscode:") ||
		slices.ContainsFunc(connect.Clients(), func(c connect.Client) bool { return c.Docs == at })
}

// Every link and every form of every page has an existing target.
func TestLinks(t *testing.T) {
	d := openItems(t)
	c := &crawler{d, map[string]int{}, map[string]bool{}, map[string]string{}}
	c.crawl(t, "the start", d.URL+"/admin")
	if len(c.seen) < 150 || len(c.posts) < 8 {
		t.Errorf("%d pages, %d forms: the crawler is broken", len(c.seen), len(c.posts))
	}
	t.Logf("%d addresses of %d kinds, %d kinds of forms", len(c.seen), len(c.alike), len(c.posts))
	for _, to := range c.posts {
		if strings.HasSuffix(to, "/logout") || strings.Contains(to, "/admin/sessions/") {
			continue // it would end the session of the test
		}
		// An empty form gets an answer, and decides nothing. A sign-in at a server that does not
		// answer returns 502.
		a := d.post(strings.TrimPrefix(to, d.URL), url.Values{})
		bad := []int{http.StatusNotFound, http.StatusMethodNotAllowed}
		if a.Status == http.StatusBadGateway && strings.HasSuffix(to, "/sign-in") {
			continue
		}
		if slices.Contains(bad, a.Status) || a.Status >= 500 {
			t.Errorf("a form leads to %s: %d", to, a.Status)
		}
	}
	if decided := d.decided(); len(decided) > 0 {
		t.Errorf("empty forms changed decisions: %v", decided)
	}
}
