package boot

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// Load accepts the environments of the pages, one for each issuer, without their comments and
// quotes.
func TestIssuersOfTheDocs(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").
		FindAllStringSubmatch(pages(t, "issuer", "people"), -1)
	taken := 0
	for _, b := range blocks {
		if !strings.Contains(b[1], "PORTCULLIS_ISSUER=") {
			continue
		}
		env := []string{"PORTCULLIS_AUTH=jwt", "PORTCULLIS_BASE_URL=https://gate.example.com"}
		for line := range strings.Lines(b[1]) {
			setting, _, _ := strings.Cut(line, " #")
			env = append(env, strings.ReplaceAll(strings.TrimSpace(setting), "'", ""))
		}
		s, err := Load(environ(env))
		if err != nil || s.Access.JWT.Issuer == "" || len(s.Access.JWT.Claims.DefaultServers) != 1 {
			t.Errorf("%v: %+v\n%s", err, s.Access.JWT, b[1])
		}
		taken++
	}
	if taken != 5 {
		t.Errorf("found %d issuers in the pages, want 5", taken)
	}
}

// pages returns the text of pages below docs.
func pages(t *testing.T, names ...string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range names {
		page, err := os.ReadFile("../../docs/" + name + ".md")
		require.OK(t, err)
		all.Write(page)
	}
	return all.String()
}
