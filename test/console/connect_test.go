package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
)

// A person creates a token on the page of a client, copies the commands, and starts the client. The
// same page then shows that the client has connected.
func TestConnectAClient(t *testing.T) {
	t.Parallel()
	p := programtest.StartWith(t, programtest.Tokens(), t.TempDir(), "--demo")
	tab := browsertest.Open(t, p.URL)
	tab.Goto("/admin/connect")
	tab.Fill(`input[name=key]`, p.Token("kim", true))
	tab.Loads("the token", func() { tab.Click("main button") })
	tab.SeeText("h1", "Connect a client")
	tab.ClickText("main a", "Claude Code")
	tab.SeeText("#seen", "Not yet seen")
	tab.SeeText("pre", "claude mcp add --transport http --scope user portcullis "+p.URL+"/mcp")
	tab.Everywhere("connect-token")
	tab.Fill(`input[name=name]`, "laptop")
	tab.Loads("the new token", func() { tab.ClickText("main button", "Make the token") })
	tab.SeeText("h2", "token:laptop is made")
	made := tab.Value(`input[readonly]`)
	tab.SeeText("pre", "export PCT="+made)
	tab.SeeText("#seen", "Not yet seen as token:laptop")
	tab.Everywhere("connect-made")
	pages := tab.Loaded()

	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"claude-code","version":"2.1"}}}`
	if a := p.Send("/mcp", hello, "Authorization: Bearer "+made); a.Status != http.StatusOK {
		t.Fatalf("answer to the token on the page: %d %s", a.Status, a.Body)
	}
	tab.Until("the page shows the client without a reload", `document.querySelector('#seen').innerText.includes('claude-code/2.1, agent token:laptop')`)
	if tab.Loaded() != pages {
		t.Error("the page was reloaded")
	}
	tab.Everywhere("connect-seen")
	tab.Goto("/admin/connect/claude-code")
	if page := tab.Text("main"); strings.Contains(page, made) {
		t.Error("the page shows the token a second time")
	}
}
