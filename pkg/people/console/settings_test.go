package console_test

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

// A sender is the sender of notices of a test. Its first target is sent, and the second one fails.
type sender struct{ last [2]*notify.Delivery }

func (s *sender) Targets() []notify.TargetState {
	out := notify.TargetsOf([]config.Notify{
		{
			Type: "slack", URL: secret.New("https://hooks.example.com/s3cret"),
			Events: config.NotifyEvents(),
		},
		{
			Type: "webhook", URL: secret.New("${env:HOOK}"),
			Events: []string{"request"}, Servers: []string{"fs"},
		},
	})
	for i := range out {
		out[i].Last = s.last[i]
	}
	return out
}

func (s *sender) Test(_ context.Context, key, _ string) (notify.TargetState, error) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for i, t := range s.Targets() {
		if t.Key == key {
			why := []string{"", "it answers 500"}[i]
			s.last[i] = &notify.Delivery{At: at, Kind: notify.Test, Failure: why}
			return s.Targets()[i], nil
		}
	}
	return notify.TargetState{}, notify.ErrNoTarget
}

// The config page says in words what the settings require of people. It proves that four eyes is
// on, and says if nobody can meet the requirement.
func TestSettingsInWords(t *testing.T) {
	const none = "so nobody can approve these definitions"
	for _, tt := range []struct {
		name, more string
		issuer     bool
		says, lack []string
	}{
		{"defaults", "", false, []string{
			"Off: one person approves a definition.", "cannot request access",
			"No call needs a confirmation.", "No target: nobody gets a notice",
		}, []string{"in the file", none}},
		{"four eyes for all", `"review": {"four_eyes": "all"},`, true, []string{
			"On for everything: two people must approve each definition",
			`href="../admin/config/mcp_config.json#L2">in the file<span class="hide">: Four eyes`,
		}, []string{none, "Off: one"}},
		{"four eyes in part", `"review": {"four_eyes": "destructive"},`, true, []string{
			"On for destructive tools: two people must approve each of their definitions",
		}, []string{none}},
		{"four eyes without an issuer", `"review": {"four_eyes": "all"},`, false, []string{
			"On for everything", none,
		}, nil},
		{"requests and confirmations", `"gateway": {"requests": true},
			"tools": {"confirm": ["fs:rm_*", "mail:send"]},`, false, []string{
			"Agents may request access", "A person must confirm each call of: fs:rm_*, mail:send.",
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture(t)
			h.Put(config.Key, "{\n"+tt.more+strings.TrimPrefix(admintest.Config, "{"))
			h.Decide.Issuer = tt.issuer
			h.Open()
			h.Sync()
			page := html.UnescapeString(h.small("/admin/config"))
			says(t, page, tt.says...)
			lacks(t, page, tt.lack...)
		})
	}
}

// An operator sends a test message to one target, and sees whether it arrived. The audit has the
// result.
func TestSendATest(t *testing.T) {
	h, s := newFixture(t), new(sender)
	h.Decide.Notices = s
	h.Open()
	page := html.UnescapeString(h.small("/admin/config"))
	says(t, page, "notify[0] (slack)</b> hooks.example.com: all events",
		"${env:HOOK}: request of fs", "Nothing was sent since this process started.", "Send a test")
	lacks(t, page, "s3cret")
	for i, want := range []string{
		"was delivered to notify[0] (slack)",
		"notify[1] (webhook) did not get the test message: it answers 500.",
	} {
		a := h.Submit("/admin/config/test", url.Values{"target": {s.Targets()[i].Key}})
		to := a.Header.Get("Location")
		if a.Status != http.StatusSeeOther || !strings.HasPrefix(to, "../config?tested=") {
			t.Fatalf("%d to %q: %s", a.Status, to, a.Body)
		}
		page := h.Page(http.StatusOK, "/admin/config"+strings.TrimPrefix(to, "../config"))
		says(t, page, want, "Last: test")
	}
	const about = "ann notice_tested file:config/mcp_config.json notify"
	const events = about + "[0] (slack): delivered " +
		about + "[1] (webhook): not delivered, it answers 500"
	if got := strings.Join(h.events(), " "); got != events {
		t.Errorf("the audit has %s", got)
	}
	a := h.Submit("/admin/config/test", url.Values{"target": {"gone"}})
	says(t, a.Body, "The config in use has no such target, and nothing was sent")
	if a.Status != http.StatusNotFound {
		t.Errorf("an unknown target: %d", a.Status)
	}
	h.be(identity.Rights{Role: identity.Viewer})
	lacks(t, h.Page(http.StatusOK, "/admin/config"), "Send a test")
	a = h.Submit("/admin/config/test", url.Values{"target": {s.Targets()[0].Key}})
	if a.Status != http.StatusForbidden || len(h.events()) != 2 {
		t.Errorf("a viewer: %d, %v", a.Status, h.events())
	}
	none := newFixture(t)
	a = none.Submit("/admin/config/test", url.Values{"target": {"x"}})
	says(t, a.Body, "This process sends no notices, and nothing was sent")
}

// The pages of the operator's files have the lines to which rules and settings link, the versions
// and what changed between them. They hide values that may be secrets.
func TestConfigFiles(t *testing.T) {
	h := newFixture(t)
	const at = "/admin/config/mcp_config.json"
	says(t, h.Page(http.StatusOK, "/admin/config"),
		`href="../admin/config/mcp_config.json#L2"><code>mcpServers.fs.disabled_tools[0]`,
		`href="../admin/config/policy.cedar#L1"><code>policy.cedar:1 no-drafts`)
	says(t, h.Page(http.StatusOK, "/admin/tools/fs/format_disk"),
		`"../../../admin/config/mcp_config.json#L2">mcpServers.fs.disabled_tools[0]</a>`)
	says(t, h.Page(http.StatusOK, "/admin/tools/mail/read_drafts"),
		`admin/config/policy.cedar#L1">policy.cedar:1 no-drafts</a>`)
	says(t, html.UnescapeString(h.small("/admin/config/policy.cedar")),
		`<span id="L2"><span class="dim">   2</span> @reason("Drafts are private.")`)
	page := html.UnescapeString(h.small(at))
	says(t, page, `<span id="L2">`, `"url": "https://fs.example.com/[secret]"`, "in use (")
	lacks(t, page, "before (")

	h.Put(config.Key, strings.Replace(admintest.Config, `"format_*"`, `"format_*", "rm_*"`, 1))
	h.Clock.Wait(time.Minute)
	says(t, h.Page(http.StatusOK, at), "before (", `admin/config/mcp_config.json"`)
	says(t, html.UnescapeString(h.small(at+"?from=before")),
		"From “before” to “in use”", `<ins>`, `"format_*", "rm_*"]`, "2 parts differ")

	h.Put(
		config.Key,
		`{"mcpServers": {"fs": {"url": "https://fs.example.com", "tokne": "s3cret"}}}`,
	)
	h.Put(config.Key+".bak-20261121T210000Z", `{"mcpServers": {}, "tools": {"read_only": true}}`)
	h.Decide.ConfigFolder = h.Objects
	h.Open()
	h.Clock.Wait(time.Minute)
	page = html.UnescapeString(h.small(at + "?version=refused"))
	says(t, page, `"tokne": "[secret]"`)
	page = h.small(at + "?version=mcp_config.json.bak-20261121T210000Z&from=refused")
	says(t, html.UnescapeString(page), `"read_only": true`, "parts differ")
	h.Put(config.Key, `{"mcpServers": {"fs": "s3cret"`)
	h.Clock.Wait(time.Minute)
	page = h.Page(http.StatusOK, at+"?version=refused&from=before")
	says(t, page, "This version is not JSON", "so they cannot be compared here")
	lacks(t, page, "s3cret")
	h.Forbid("")
	h.Clock.Wait(time.Minute)
	lacks(t, h.Page(http.StatusOK, "/admin/config/policy.cedar"), "is not JSON")
	h.Page(http.StatusNotFound, at+"?version=none")
	h.Page(http.StatusNotFound, at+"?from=none")
}

// A long file has pages of lines, and each line is on the page to which a rule links.
func TestLongConfigFile(t *testing.T) {
	h := newFixture(t)
	h.Put(config.Key, "{"+strings.Repeat("\n", 600)+`"tools": {"disabled": ["fs:last"]},`+
		strings.TrimPrefix(admintest.Config, "{"))
	h.Clock.Wait(time.Minute)
	h.Sync()
	const line = "/admin/config/mcp_config.json?line=601"
	page := h.small(line)
	says(t, page, `<span id="L601">`, `<span id="L501">`, "Earlier lines")
	lacks(t, page, `<span id="L500">`, "Later lines")
	says(t, h.small("/admin/config/mcp_config.json"), `<span id="L250">`, "line=251")
}
