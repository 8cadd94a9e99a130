package console_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

func TestPageSecurityPolicy(t *testing.T) {
	h := newFixture(t)
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	for path, root := range map[string]string{"/admin": "./", "/admin/tools/fs/read_file": "../../../"} {
		w := h.Send(path, "", browser)
		if got := w.Header.Get("Content-Security-Policy"); got != policy {
			t.Errorf("%s: policy %q", path, got)
		}
		for _, bad := range []string{"<script>", "style=", "<style", "http://", "//cdn", " onclick"} {
			if strings.Contains(w.Body, bad) {
				t.Errorf("%s has %q", path, bad)
			}
		}
		assets := regexp.MustCompile(`(?:href|src)="`+regexp.QuoteMeta(root)+`(admin/assets/[^"]+)"`).FindAllStringSubmatch(w.Body, -1)
		if len(assets) != 3 {
			t.Fatalf("%s loads %q, want 3 files", path, assets)
		}
		for _, m := range assets {
			kind := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}[m[1][strings.LastIndex(m[1], "."):]]
			a := h.Send("/"+m[1], "")
			if a.Status != http.StatusOK || a.Header.Get("Content-Type") != kind || !strings.Contains(a.Header.Get("Cache-Control"), "immutable") || a.Body == "" {
				t.Errorf("%s = %d %s, Cache-Control %q", m[1], a.Status, a.Header.Get("Content-Type"), a.Header.Get("Cache-Control"))
			}
		}
	}
}

func TestAccept(t *testing.T) {
	h := newFixture(t)
	for accept, want := range map[string]string{
		"":                                      "application/json",
		"*/*":                                   "application/json",
		"application/json":                      "application/json",
		"application/json, text/html;q=0.1":     "application/json",
		"text/html":                             "text/html; charset=utf-8",
		strings.TrimPrefix(browser, "Accept: "): "text/html; charset=utf-8",
	} {
		w := h.Send("/admin/tools/fs/read_file", "", "Accept: "+accept)
		if got := w.Header.Get("Content-Type"); got != want || w.Header.Get("Vary") != "Accept" {
			t.Errorf("Accept %q: %q, Vary %q, want %q", accept, got, w.Header.Get("Vary"), want)
		}
	}
}

// A browser gets a refusal of the API as a page.
func TestProblemPages(t *testing.T) {
	h := newFixture(t)
	for path, status := range map[string]int{"/admin/nope": http.StatusNotFound, "/admin/tools/a/b/c/d": http.StatusNotFound, "/admin/servers/nope": http.StatusNotFound} {
		says(t, h.Page(status, path), `aria-label="Main"`, `role="alert"`)
		lacks(t, h.Page(status, path), `aria-current="page"`)
		h.Problem(status, path, "")
	}
	if w := h.Submit("/admin/tools/fs/read_file/nope", url.Values{"rev": {"1"}}); w.Status < 400 || !strings.HasPrefix(w.Header.Get("Content-Type"), "text/html") {
		t.Errorf("%d %s", w.Status, w.Body)
	}
	if w := h.Send("/admin/openapi.json", "", browser); w.Status != http.StatusOK || !strings.Contains(w.Body, `"openapi"`) {
		t.Errorf("%d", w.Status)
	}
}
