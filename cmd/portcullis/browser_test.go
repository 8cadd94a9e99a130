package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// browser opens a headless Chromium that talks to nobody but the page's own server.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := os.Getenv("PORTCULLIS_CHROMIUM")
	if path == "" {
		path, _ = exec.LookPath("chromium")
	}
	if path == "" {
		local.Missing(t, "no browser: neither PORTCULLIS_CHROMIUM nor chromium on the PATH (`make browser` installs it)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, cancelAlloc := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancelAlloc)
	ctx, cancelTab := chromedp.NewContext(ctx)
	t.Cleanup(cancelTab)
	return ctx
}

// A person follows the link of a remediation, signs in once, sees what changed, approves it
// with a click, and the agent's call works. Then the same with a disabled tool.
func TestBrowserApproves(t *testing.T) {
	tab := browser(t)
	p := start(t, t.TempDir(), "--demo", "--actor", "kim")
	assign := map[string]any{"name": "tickets:assign_ticket", "args": map[string]any{"id": 1, "assignee": "sam"}}
	link := p.URL + "/admin/tools/tickets/assign_ticket"
	if blocked := p.Call("call_tool_write", assign); !strings.Contains(blocked.Text, link) {
		t.Fatalf("the blocked call does not name %s: %s", link, blocked.Text)
	}

	see(tab, t, chromedp.Navigate(link))
	see(tab, t, chromedp.WaitVisible(`input[name=key]`))
	shot(tab, t, "login.png")
	see(tab, t, chromedp.SendKeys(`input[name=key]`, p.Admin))
	see(tab, t, chromedp.Click(`main button`))
	see(tab, t, chromedp.WaitVisible(`.pair`))
	before := see(tab, t, chromedp.Text(`.pair section:nth-child(1)`))
	now := see(tab, t, chromedp.Text(`.pair section:nth-child(2)`))
	if strings.Contains(before, "e-mail") || !strings.Contains(now, "e-mail") {
		t.Errorf("the page shows before:\n%s\nnow:\n%s", before, now)
	}
	shot(tab, t, "changed.png")
	see(tab, t, chromedp.SendKeys(`input[name=note]`, "seen and agreed"))
	see(tab, t, chromedp.Click(`button[value=approve]`))
	see(tab, t, chromedp.WaitVisible(`.status.callable`))
	if after := see(tab, t, chromedp.Text(`main`)); !strings.Contains(after, "kim") || !strings.Contains(after, "seen and agreed") {
		t.Errorf("the page does not say who approved and why:\n%s", after)
	}
	shot(tab, t, "approved.png")
	if done := p.Call("call_tool_write", assign); done.IsError {
		t.Errorf("after the click the call answers %s", done.Raw)
	}

	see(tab, t, chromedp.Navigate(p.URL+"/admin"))
	shot(tab, t, "index.png")
	see(tab, t, chromedp.Click(`a[href$="/tickets/comment_on_ticket"]`))
	see(tab, t, chromedp.WaitVisible(`.status.disabled_by_user`))
	see(tab, t, chromedp.Click(`button[value=enable]`))
	see(tab, t, chromedp.WaitVisible(`.status.callable`))
	comment := map[string]any{"name": "tickets:comment_on_ticket", "args": map[string]any{"id": 1, "text": "hello"}}
	if done := p.Call("call_tool_write", comment); done.IsError {
		t.Errorf("the enabled tool answers %s", done.Raw)
	}

	see(tab, t, chromedp.Navigate(p.URL+"/admin/tools/notes/delete_note"))
	see(tab, t, chromedp.WaitVisible(`.status.disabled_by_config`))
	if see(tab, t, chromedp.Evaluate[bool](`document.querySelector('button[value=approve], button[value=enable]') !== null`)) {
		t.Error("what the operator denies has a button that would open it")
	}
}

// The link that the program prints needs one click. Then a link of another site's page, such
// as a chat with the agent, leads to the page and not to a second sign-in.
func TestBrowserSignInLink(t *testing.T) {
	tab := browser(t)
	p := start(t, t.TempDir(), "--demo")
	page := p.URL + "/admin/tools/tickets/assign_ticket"
	chat := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a id="link" href="%[1]s">see it</a><form method="post" action="%[1]s"><input name="action" value="disable"><button>press</button></form>`, page)
	}))
	defer chat.Close()
	elsewhere := strings.Replace(chat.URL, "127.0.0.1", "localhost", 1) // another site than the gateway's

	see(tab, t, chromedp.Navigate(p.link))
	see(tab, t, chromedp.WaitVisible(`main button`))
	shot(tab, t, "link.png")
	see(tab, t, chromedp.Click(`main button`))
	see(tab, t, chromedp.WaitVisible(`header button`))
	if at := see(tab, t, chromedp.Location()); at != p.URL+"/admin" {
		t.Errorf("the click leads to %s", at)
	}
	if script := see(tab, t, chromedp.Evaluate[string](`document.cookie`)); script != "" {
		t.Errorf("scripts read the session: %s", script)
	}
	see(tab, t, chromedp.Navigate(elsewhere))
	see(tab, t, chromedp.Click(`#link`))
	see(tab, t, chromedp.WaitVisible(`.pair`))
	if at := see(tab, t, chromedp.Location()); at != page {
		t.Errorf("the link of another site leads to %s", at)
	}
	see(tab, t, chromedp.Navigate(elsewhere))
	see(tab, t, chromedp.Click(`button`))
	see(tab, t, chromedp.WaitVisible(`pre`)) // the answer is no page
	if said := see(tab, t, chromedp.Text(`body`)); !strings.Contains(said, "another site") {
		t.Errorf("a form of another site is answered %s", said)
	}
	see(tab, t, chromedp.Navigate(page))
	see(tab, t, chromedp.WaitVisible(`.status.pending_approval`))
	see(tab, t, chromedp.Click(`header button`))
	see(tab, t, chromedp.WaitVisible(`input[name=key]`))
	see(tab, t, chromedp.Navigate(page))
	see(tab, t, chromedp.WaitVisible(`input[name=key]`))
}

// see takes one action and returns what it gave.
func see[T any](tab context.Context, t *testing.T, a chromedp.Action[T]) T {
	t.Helper()
	v, err := chromedp.Run(tab, a)
	require.OK(t, err)
	return v
}

// shot keeps a picture of the page if PORTCULLIS_SHOTS names a folder for them.
func shot(tab context.Context, t *testing.T, name string) {
	t.Helper()
	folder := os.Getenv("PORTCULLIS_SHOTS")
	if folder == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(folder, name), see(tab, t, chromedp.FullScreenshot(100)), 0o600); err != nil {
		t.Error(err)
	}
}
