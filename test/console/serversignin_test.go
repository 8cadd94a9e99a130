package console_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// An operator signs the gateway in to a server in the browser, and disconnects it. The issuer is
// another site, so the browser does not send the session cookie with the callback.
func TestSignInAtAServer(t *testing.T) {
	t.Parallel()
	issuer := issuertest.New(t, issuertest.Habits{OtherSite: true})
	server := upstreamtest.New(t, upstreamtest.Options{
		Tools: []json.RawMessage{
			upstreamtest.Tool("get_page", "Read a page.", `{"readOnlyHint":true}`),
		},
		Front: issuer.Front("read"),
	})
	dir := t.TempDir()
	programtest.WriteConfig(
		t,
		dir,
		fmt.Sprintf(`{"mcpServers": {"notes": {"url": %q}}}`, server.URL),
	)
	p := programtest.Start(t, dir, "--actor", "kim")
	tab := browsertest.Open(t, p.URL, issuer.URL)
	tab.Forgive(`status (400|409) of .*/admin/sign-in/callback`)
	tab.Goto(p.Link)
	tab.Loads("the button of the link", func() { tab.Click("main button") })
	tab.Goto("/admin/servers")
	tab.SeeText("main", "Sign-in required")
	tab.Everywhere("servers-sign-in")
	tab.Goto("/admin/servers/notes")
	tab.SeeText("main", "Sign-in required.")
	tab.Everywhere("server-sign-in")
	tab.Loads("the button", func() { tab.ClickText("main button", "Sign in") })
	tab.SeeText("main", strings.TrimPrefix(issuer.URL, "http://"))
	tab.SeeText("main", "offline_access")
	tab.Everywhere("server-issuer")
	tab.ClickText("main a", "Continue at")
	tab.SeeText("h1", "Signed in to notes")
	tab.SeeText("main", "The server has 1 tool.")
	if at := tab.Location(); !strings.HasPrefix(at, p.URL+"/admin/sign-in/callback?") {
		t.Errorf("the issuer sent the browser to %s", at)
	}
	tab.Everywhere("server-signed-in")
	callback := strings.TrimPrefix(tab.Location(), p.URL)
	tab.Goto(callback) // again
	tab.SeeText("main", "this browser has no sign-in in progress")
	tab.Loads("the server", func() { tab.Goto("/admin/servers/notes") })
	tab.SeeText("main", "signed in")
	tab.SeeText("main", "kim")
	tab.Everywhere("server-connected")
	if got := p.Call("call_tool_read", `{"name":"notes:get_page","args":{}}`); got.IsError {
		t.Errorf("a call answers %s", got.Text)
	}
	if page := browsertest.Eval[string](tab, `document.documentElement.outerHTML`); strings.Contains(
		page,
		"secret-",
	) {
		t.Error("the page contains a token")
	}
	tab.Loads("the button", func() { tab.ClickText("main button", "Disconnect") })
	tab.SeeText(
		".message",
		"The sign-in has ended: the tokens are deleted here and revoked at the issuer.",
	)
	if issuer.Count(&issuer.Revoked) != 1 {
		t.Error("nothing was revoked")
	}
	if got := p.Call("call_tool_read", `{"name":"notes:get_page","args":{}}`); !got.IsError ||
		!strings.Contains(got.Text, "not carried out") {
		t.Errorf("after the disconnection a call answers %s", got.Text)
	}
}
