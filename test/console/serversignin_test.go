package console_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/secrettest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// An operator signs the gateway in to a server in the browser, and disconnects it. The issuer is
// another site, so the browser does not send the session cookie with the callback. If another
// person opens the link to the issuer, nobody is signed in.
func TestSignInAtAServer(t *testing.T) {
	t.Parallel()
	issuer, dir := newNotes(t)
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
	forwarded := browsertest.Read[string](tab, `document.querySelector('main a.button.main').href`)
	other := browsertest.Open(t, p.URL, issuer.URL)
	other.Forgive(`status 400 of .*/admin/sign-in/callback`)
	other.Goto(forwarded)
	other.SeeText("main", "this browser has no sign-in in progress")
	other.Everywhere("server-forwarded")
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
	tab.Loads("the button", func() { tab.ClickText("main button", "Disconnect") })
	tab.SeeText(
		".message",
		"The sign-in has ended: the tokens are deleted here and revoked at the issuer.",
	)
	tab.Shot("server-disconnected")
	if issuer.Count(&issuer.Revoked) != 1 {
		t.Error("nothing was revoked")
	}
	if got := p.Call("call_tool_read", `{"name":"notes:get_page","args":{}}`); !got.IsError ||
		!strings.Contains(got.Text, "not carried out") {
		t.Errorf("after the disconnection a call answers %s", got.Text)
	}
}

// newNotes starts a server that requires tokens of an issuer of another site, and returns a folder
// with a config for it.
func newNotes(t *testing.T) (issuer *issuertest.Issuer, dir string) {
	t.Helper()
	issuer, dir = issuertest.New(t, issuertest.Habits{OtherSite: true}), t.TempDir()
	server := upstreamtest.New(t, upstreamtest.Options{
		Tools: []json.RawMessage{
			upstreamtest.Tool("get_page", "Read a page.", `{"readOnlyHint":true}`),
		},
		Front: issuer.Front("read"),
	})
	config := fmt.Sprintf(`{"mcpServers": {"notes": {"url": %q}}}`, server.URL)
	programtest.WriteConfig(t, dir, config)
	return issuer, dir
}

// An operator signs the gateway in with the command, which opens the browser and serves the page to
// which the issuer sends the browser back.
func TestSignInWithTheCommand(t *testing.T) {
	t.Parallel()
	issuer, dir := newNotes(t)
	p := programtest.Start(t, dir, "--actor", "kim")
	bin := t.TempDir()
	opened := filepath.Join(bin, "address")
	script := "#!/bin/sh\nprintf %s \"$1\" > '" + opened + ".new' && mv '" + opened + ".new' '" + opened + "'\n"
	for _, name := range []string{"xdg-open", "open"} {
		require.OK(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700))
	}
	cmd := exec.CommandContext(t.Context(), programtest.Build(t), "servers", "login", "notes", "--dir", dir)
	cmd.Env = append(os.Environ(), "DISPLAY=:0", "PATH="+bin+":"+os.Getenv("PATH"))
	var out local.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.OK(t, cmd.Start())
	var address []byte
	local.Until(t, "the command opens the browser", func() bool {
		address, _ = os.ReadFile(opened)
		return len(address) > 0
	})
	u, err := url.Parse(string(address))
	require.OK(t, err)
	back := u.Query().Get("redirect_uri")
	tab := browsertest.Open(t, strings.TrimSuffix(back, "/callback"), issuer.URL)
	tab.Goto(string(address))
	tab.SeeText("p", "You can close this page.")
	tab.Everywhere("command-signed-in")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("servers login: %v\n%s", err, out.String())
	}
	secrettest.Absent(t, "the terminal", out.String())
	if !strings.Contains(out.String(), "signed in to notes") {
		t.Errorf("servers login prints %s", out.String())
	}
	if got := p.Call("call_tool_read", `{"name":"notes:get_page","args":{}}`); got.IsError {
		t.Errorf("a call answers %s", got.Text)
	}
}
