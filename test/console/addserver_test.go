package console_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// An operator adds a hosted server that requires a sign-in, with the console alone, until an agent
// can call its first tool. The operator presses a button or a link 9 times after the sign-in at the
// console.
func TestAddServer(t *testing.T) {
	t.Parallel()
	issuer := issuertest.New(t, issuertest.Habits{OtherSite: true})
	server := upstreamtest.New(t, upstreamtest.Options{
		Tools: []json.RawMessage{
			upstreamtest.Tool("get_page", "Read a page.", `{"readOnlyHint":true}`),
		},
		Front: issuer.Front("read"),
	})
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, `{"mcpServers": {}}`)
	p := programtest.Start(t, dir, "--actor", "kim")
	tab := browsertest.Open(t, p.URL, issuer.URL)
	tab.Goto(p.Link)
	tab.Loads("the button of the link", func() { tab.Click("main button") })
	clicks := 0
	click := func(selector, text string) {
		t.Helper()
		clicks++
		tab.Loads(text, func() { tab.ClickText(selector, text) })
	}
	tab.Goto("/admin/servers")
	click("main a", "Add a server")
	tab.Fill("[name=name]", "notes")
	tab.Fill("[name=url]", server.URL)
	tab.Click("[name=approval]")
	clicks++
	click("main button", "Probe")
	tab.SeeText("main", "sign in required")
	tab.SeeText("main", strings.TrimPrefix(issuer.URL, "http://"))
	tab.Everywhere("add-server-probe")
	click("main button", "Write to mcp_config.json")
	tab.SeeText(".message", "The server is in mcp_config.json now.")
	tab.SeeText("main", "Sign-in required.")
	click("main button", "Sign in")
	click("main a", "Continue at")
	tab.SeeText("h1", "Signed in to notes")
	tab.Everywhere("add-server-signed-in")
	click("main a", "Continue")
	tab.Everywhere("add-server-tools")
	click("main table a", "get_page")
	if got := p.Call("call_tool_read", `{"name":"notes:get_page","args":{}}`); !got.IsError {
		t.Errorf("before the approval a call answers %s", got.Text)
	}
	click("main button", "Approve")
	t.Logf("%d clicks", clicks)
	if clicks != 9 {
		t.Errorf("the way has %d clicks, want 9", clicks)
	}
	local.Until(t, "an agent calls the tool", func() bool {
		return !p.Call("call_tool_read", `{"name":"notes:get_page","args":{}}`).IsError
	})

	tab.Goto("/admin/servers/notes")
	tab.Loads("the button", func() { tab.ClickText("main button", "Disable") })
	tab.SeeText(".message", "The server is disabled in mcp_config.json.")
	tab.Everywhere("server-disabled")
	path := filepath.Join(dir, filepath.FromSlash(config.Key))
	copies, err := filepath.Glob(path + ".bak-*")
	require.OK(t, err)
	if len(copies) != 2 {
		t.Errorf("the copies of the config are %q, want 2", copies)
	}
	for _, name := range copies {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}
