package notify

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// For all names, messages have no markup, one line, and no address of others.
func FuzzMessage(f *testing.F) {
	for _, kind := range kinds() {
		f.Add(kind, "declined", "<!channel>", "`<https://evil.example|x>`", "@here\n*b*", "//evil.example", 3)
	}
	f.Fuzz(func(t *testing.T, kind, verdict, a, b, c, path string, n int) {
		e := Event{Kind: Kind(kind), Verdict: verdict, Server: a, Agent: b, By: c, Request: a, File: b, Status: outcome.Status(c), Reason: a, Path: path, Faults: n, Waiting: n % 3, More: n, Also: []string{a, b}, Tier: verdict, Findings: n}
		for range min(max(n, 0), 30) {
			e.Items = append(e.Items, tool.ID{Server: a, Name: b}, tool.ID{Server: c, Name: a, Kind: tool.Resource})
		}
		m := messageOf(e.Fit(time.Unix(1, 0)), "https://gate.example.com")
		marked := m.slackMarkup()
		if strings.ContainsAny(marked, "<>\n\r") || strings.Count(marked, "`")%2 != 0 || !utf8.ValidString(marked) || utf8.RuneCountInString(marked) > 3000 {
			t.Errorf("the text for Slack has markup: %q", marked)
		}
		for _, plain := range []string{m.plain(), m.subject} {
			if strings.Contains(plain, "://") || strings.ContainsAny(plain, "\n\r") || text.Reveal(plain) != plain {
				t.Errorf("the mail has an address, a line end or hidden text: %q", plain)
			}
		}
		if !strings.HasPrefix(m.link, "https://gate.example.com/admin") || strings.ContainsAny(m.link, "<>|\" \n") {
			t.Errorf("the link is %q", m.link)
		}
		for i := range len(m.subject) {
			if m.subject[i] >= 0x7f {
				t.Errorf("subject %q", m.subject)
			}
		}
		for _, body := range []func() ([]byte, error){func() ([]byte, error) { return slackBody(m) }, func() ([]byte, error) { return hookBody(e, m) }} {
			if b, err := body(); err != nil || !json.Valid(b) {
				t.Errorf("%s, %v", b, err)
			}
		}
	})
}

func kinds() []string {
	return []string{"changed", "new", "request", "decided", "server_down", "config_refused", "connection_ended", ""}
}
