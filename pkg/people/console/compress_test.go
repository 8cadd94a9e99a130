package console_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
)

// unpacked returns the body of an answer, and whether it was compressed.
func unpacked(t *testing.T, a agenttest.Answer) (body string, compressed bool) {
	t.Helper()
	switch coding := a.Header.Get("Content-Encoding"); coding {
	case "":
		return a.Body, false
	case "gzip":
		z, err := gzip.NewReader(strings.NewReader(a.Body))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return string(data), true
	default:
		t.Fatalf("the content encoding is %s", coding)
		return "", false
	}
}

// A page is compressed only if one of our pages or a person asked for it. So a page of another site
// learns nothing from its length.
func TestCompressedPages(t *testing.T) {
	h := newFixture(t)
	for name, tt := range map[string]struct {
		headers []string
		want    bool
	}{
		"address line":      {[]string{"Accept-Encoding: gzip, deflate, br", "Sec-Fetch-Site: none"}, true},
		"our page":          {[]string{"Accept-Encoding: br;q=1.0, gzip;q=0.8", "Sec-Fetch-Site: same-origin"}, true},
		"another site":      {[]string{"Accept-Encoding: gzip", "Sec-Fetch-Site: cross-site"}, false},
		"a sibling site":    {[]string{"Accept-Encoding: gzip", "Sec-Fetch-Site: same-site"}, false},
		"an old browser":    {[]string{"Accept-Encoding: gzip"}, false},
		"gzip refused":      {[]string{"Accept-Encoding: gzip;q=0.0, br", "Sec-Fetch-Site: none"}, false},
		"nothing but names": {[]string{"Accept-Encoding: xgzip", "Sec-Fetch-Site: none"}, false},
	} {
		for _, path := range []string{"/admin", "/admin/tools/no/such"} {
			a := h.Send(path, "", append(tt.headers, browser)...)
			body, compressed := unpacked(t, a)
			if compressed != tt.want || !strings.HasSuffix(body, "</html>\n") {
				t.Errorf("%s, %s: compressed %v: %.100q", name, path, compressed, body)
			}
			vary := strings.Join(a.Header.Values("Vary"), ", ")
			if !strings.Contains(vary, "Accept-Encoding, Sec-Fetch-Site") {
				t.Errorf("%s, %s: Vary is %q", name, path, vary)
			}
		}
	}
	a := h.Send("/admin/tools", "", "Accept: application/json", "Accept-Encoding: gzip",
		"Sec-Fetch-Site: none")
	if a.Header.Get("Content-Encoding") != "" {
		t.Error("an answer for a program is compressed")
	}
}

// An asset has the same content with and without compression, and a tag for each of the two.
func TestCompressedAssets(t *testing.T) {
	h := newFixture(t)
	page := h.Page(http.StatusOK, "/admin")
	for _, at := range regexp.MustCompile(`admin/assets/[^"]+`).FindAllString(page, -1) {
		plain := h.Send("/"+at, "", "Accept-Encoding: identity")
		small := h.Send("/"+at, "", "Accept-Encoding: gzip", "Sec-Fetch-Site: cross-site")
		want, isPacked := unpacked(t, plain)
		got, packed := unpacked(t, small)
		if isPacked || !packed || got != want || len(small.Body) > len(want)/2 {
			t.Errorf("%s: %d bytes, and compressed %d", at, len(want), len(small.Body))
		}
		tags := map[string]string{
			"identity": plain.Header.Get("Etag"),
			"gzip":     small.Header.Get("Etag"),
		}
		for coding, tag := range tags {
			for other := range tags {
				a := h.Send("/"+at, "", "Accept-Encoding: "+other, "If-None-Match: "+tag)
				if is := a.Status == http.StatusNotModified; is != (coding == other) || tag == "" ||
					a.Header.Get("Vary") != "Accept-Encoding" {
					t.Errorf("the tag %s of %s gets %d with %s", tag, coding, a.Status, other)
				}
			}
		}
	}
}
