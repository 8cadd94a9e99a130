package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
)

// An operator reads the settings, follows a rule to its line, compares two versions of the file, and
// sends a test to two targets. One of them fails.
func TestConfigPages(t *testing.T) {
	t.Parallel()
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/s3cret" {
			w.WriteHeader(http.StatusGone)
		}
	}))
	defer hook.Close()
	dir := t.TempDir()
	file := `{
  "mcpServers": {"web": {"url": "https://web.example.com/mcp", "disabled_tools": ["rm_*"]}},
  "notify": [
    {"type": "slack", "url": "` + hook.URL + `/s3cret"},
    {"type": "slack", "url": "` + hook.URL + `/gone"}
  ],
  "review": {"four_eyes": "all"}
}`
	programtest.WriteConfig(t, dir, file)
	d := &fixture{Program: programtest.Start(t, dir, "--actor", "kim")}
	d.begin(t)
	d.tab.Goto("/admin/config")
	d.tab.SeeText("dd", "two people must approve each definition")
	d.tab.Loads(
		"the first test",
		func() { d.tab.ClickText("li:nth-child(1) button", "Send a test") },
	)
	d.tab.SeeText(".message", "was delivered to notify[0] (slack)")
	d.tab.Loads(
		"the second test",
		func() { d.tab.ClickText("li:nth-child(2) button", "Send a test") },
	)
	d.tab.SeeText(".problem", "notify[1] (slack) did not get the test message: it answers 410.")
	d.tab.Everywhere("config-settings")
	d.tab.Loads(
		"the line of the rule",
		func() { d.tab.ClickText("a", "mcpServers.web.disabled_tools[0]") },
	)
	d.tab.SeeText(":target", `"disabled_tools": ["rm_*"]`)
	programtest.WriteConfig(t, dir, strings.Replace(file, `"rm_*"`, `"rm_*", "drop_*"`, 1))
	const changes = "/admin/config/mcp_config.json?version=in+use&from=before"
	local.Until(t, "the changed file is in use", func() bool {
		return strings.Contains(d.get(changes).Body, "<ins>")
	})
	d.tab.Goto(changes)
	d.tab.SeeText("ins", `"drop_*"`)
	d.tab.Everywhere("config-changes")
	if strings.Contains(d.get("/admin/config").Body+d.get(changes).Body, "s3cret") {
		t.Error("a page has the secret address of a target")
	}
}
