package console_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"testing"
)

// What a browser loads once stays small, and what others wrote stays as they wrote it.
func TestAssets(t *testing.T) {
	for name, most := range map[string]int{"style.css": 8 << 10, "console.js": 4 << 10} {
		data, err := os.ReadFile("assets/" + name)
		if err != nil || len(data) > most {
			t.Errorf("%s has %d bytes, at most %d; %v", name, len(data), most, err)
		}
	}
	htmx, err := os.ReadFile("assets/htmx.js")
	sum := sha256.Sum256(htmx)
	if got := hex.EncodeToString(sum[:]); err != nil || got != "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717" {
		t.Errorf("htmx.js is not that of 2.0.11: %s, %v", got, err)
	}
	h := newFixture(t)
	for _, path := range []string{"/admin/assets/style.css", "/admin/assets/style-000000000000.css", "/admin/assets/htmx.LICENSE", "/admin/assets/..%2fstyle.css"} {
		if w := h.Send(path, ""); w.Status != http.StatusNotFound {
			t.Errorf("%s = %d", path, w.Status)
		}
	}
}
