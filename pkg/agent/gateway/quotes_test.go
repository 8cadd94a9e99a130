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

// The README quotes texts for agents word by word.
func TestReadmeQuotesRequests(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	require.OK(t, err)
	quotes := regexp.MustCompile("(?s)```text\n(.*?)\n```").FindStringSubmatch(string(readme))
	if quotes == nil || len(strings.Split(quotes[1], "\n")) != 4 {
		t.Fatalf("the README quotes %q, want four messages", quotes)
	}
	quotes = strings.Split(quotes[1], "\n")
	u := unlock(t)
	plain := strings.NewReplacer(u.Options.BaseURL, "http://127.0.0.1:8080", "s:push", "tickets:assign_ticket", "\n", " ").Replace
	check := func(n int, text string) {
		t.Helper()
		ids := regexp.MustCompile("R-[0-9A-Z]{8}")
		want, got := ids.ReplaceAllString(quotes[n], "R-"), ids.ReplaceAllString(plain(text), "R-")
		if !strings.Contains(got, want) {
			t.Errorf("the README quotes %q, but the text is %q", want, got)
		}
	}
	text, _ := u.push()
	check(0, text)
	_, id, _ := u.want("s:push")
	u.Clock.Wait(3 * time.Minute)
	text, _ = u.push()
	check(1, text)
	u.decides(id, request.Declined, 0, "use staging")
	text, _ = u.push()
	check(2, text)
	text, _ = u.pay(`{}`)
	check(3, text)
}
