package request_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
)

func TestParseID(t *testing.T) {
	for typed, want := range map[string]string{
		"R-7KQ2M4XD": "R-7KQ2M4XD", "r-7kq2m4xd": "R-7KQ2M4XD", " R-7KQ2M4XD\n": "R-7KQ2M4XD", "R-OoIiLl00": "R-00111100",
		"": "", "R-": "", "7KQ2M4XD": "", "R-7KQ2M4X": "", "R-7KQ2M4XDE": "", "R-7KQ2M4XU": "", "R 7KQ2M4XD": "", "R-7KQ2-M4XD": "",
		"R-7KQ2M4X日": "", "S-7KQ2M4XD": "", "R-7KQ2M4XD R-7KQ2M4XD": "", strings.Repeat("R", 1<<20): "",
	} {
		got, err := request.ParseID(typed)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseID(%.40q) = %q, %v; want %q", typed, got, err, want)
		}
		if err != nil && len(err.Error()) > 200 {
			t.Errorf("the error of ParseID(%.40q) has %d bytes", typed, len(err.Error()))
		}
	}
}

func TestNewID(t *testing.T) {
	seen := map[string]bool{}
	letters := map[rune]bool{}
	for range 2000 {
		id := request.NewID()
		if parsed, err := request.ParseID(id); err != nil || parsed != id || seen[id] {
			t.Errorf("NewID = %q, which is read as %q, %v; seen before: %v", id, parsed, err, seen[id])
		}
		seen[id] = true
		for _, r := range id[2:] {
			letters[r] = true
		}
	}
	if len(letters) != 32 {
		t.Errorf("ids are made of %d letters, want 32", len(letters))
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"R-7KQ2M4XD", "r-oil", "R-\u212aı", "", "R-7KQ2M4X\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, typed string) {
		id, err := request.ParseID(typed)
		if err != nil {
			return
		}
		if again, err := request.ParseID(id); err != nil || again != id || len(id) != 10 || strings.Trim(id[2:], "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" {
			t.Errorf("ParseID(%q) = %q, and of that %q, %v", typed, id, again, err)
		}
	})
}
