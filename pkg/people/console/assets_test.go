package console_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"regexp"
	"testing"
)

// The style sheet and the script that browsers cache stay small. htmx.js is an unchanged release.
func TestAssets(t *testing.T) {
	h := newFixture(t)
	page := h.Page(http.StatusOK, "/admin")
	for name, most := range map[string]int{"style": 11 << 10, "console": 10 << 10} {
		m := regexp.MustCompile(`admin/assets/` + name + `-[0-9a-f]{12}\.[a-z]+`).FindString(page)
		if n := len(h.Send("/"+m, "").Body); n == 0 || n > most {
			t.Errorf("%s has %d bytes, want at most %d", m, n, most)
		}
	}
	htmx, err := os.ReadFile("assets/htmx.js")
	sum := sha256.Sum256(htmx)
	if got := hex.EncodeToString(sum[:]); err != nil || got != "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717" {
		t.Errorf("htmx.js is not the file of htmx 2.0.11: %s, %v", got, err)
	}
	for _, path := range []string{"/admin/assets/style.css", "/admin/assets/style-000000000000.css", "/admin/assets/htmx.LICENSE", "/admin/assets/..%2fstyle.css"} {
		if w := h.Send(path, ""); w.Status != http.StatusNotFound {
			t.Errorf("%s = %d, want 404", path, w.Status)
		}
	}
}
