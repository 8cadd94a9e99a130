package gateway_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// docs/access-requests.md quotes texts for agents word by word, with other line breaks.
func TestPageQuotesRequests(t *testing.T) {
	page, err := os.ReadFile("../../../docs/access-requests.md")
	require.OK(t, err)
	block := regexp.MustCompile("(?ms)^```(.*?)\n(.*?)\n```")
	var quotes []string
	for _, m := range block.FindAllStringSubmatch(string(page), -1) {
		if m[1] == "" {
			quotes = append(quotes, m[2])
		}
	}
	if len(quotes) < 4 {
		t.Fatalf("docs/access-requests.md quotes %q, want four answers first", quotes)
	}
	u := unlock(t)
	id := regexp.MustCompile("R-[0-9A-Z]{8}")
	plain := func(text string) string {
		text = strings.NewReplacer(u.Options.BaseURL, "https://gate.example.com",
			"s:push", "git:git_push", "s/push", "git/git_push").Replace(text)
		return strings.Join(strings.Fields(id.ReplaceAllString(text, "R-")), " ")
	}
	check := func(n int, text string) {
		t.Helper()
		if want, got := plain(quotes[n]), plain(text); !strings.Contains(got, want) {
			t.Errorf("the page quotes %q, but the text is %q", want, got)
		}
	}
	text, _ := u.push()
	check(0, text)
	_, made, _ := u.want("s:push")
	u.Clock.Wait(3 * time.Minute)
	text, _ = u.push()
	check(1, text)
	u.decides(made, request.Declined, 0, "use staging")
	text, _ = u.push()
	check(2, text)
	text, _ = u.pay(`{}`)
	check(3, text)
}
