package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
)

// A person follows the link of a remediation, signs in once, sees what changed, and approves it
// with a click. Then the agent's call works. The person does the same with a disabled tool.
func TestBrowserApproves(t *testing.T) {
	p := start(t, t.TempDir(), "--demo", "--actor", "kim")
	tab := browsertest.Open(t, p.URL)
	assign := map[string]any{"name": "tickets:assign_ticket", "args": map[string]any{"id": 1, "assignee": "sam"}}
	link := p.URL + "/admin/tools/tickets/assign_ticket"
	if blocked := p.Call("call_tool_write", assign); !strings.Contains(blocked.Text, link) {
		t.Fatalf("the blocked call does not name %s: %s", link, blocked.Text)
	}

	tab.Goto(link)
	tab.See(`input[name=key]`)
	tab.Shot("login")
	tab.Click(`input[name=key]`)
	tab.Type(p.Admin)
	tab.Click(`main button`)
	tab.See(`#decide`)
	if added := tab.Text(`ins`); !strings.Contains(added, "e-mail") {
		t.Errorf("the page marks %q as added, want the new text", added)
	}
	tab.Shot("changed")
	tab.Click(`input[name=note]`)
	tab.Type("seen and agreed")
	tab.Click(`button[value=approve]`)
	tab.See(`.message`) // no other item waits
	tab.Goto(link)
	if after := tab.Text(`main`); !strings.Contains(after, "kim") || !strings.Contains(after, "seen and agreed") || !tab.Has(`.chip.callable`) {
		t.Errorf("the page does not say who approved and why:\n%s", after)
	}
	tab.Shot("approved")
	if done := p.Call("call_tool_write", assign); done.IsError {
		t.Errorf("after the approval the call answers %s", done.Raw)
	}

	tab.Goto(p.URL + "/admin/tools")
	tab.Shot("tools")
	tab.Click(`a[href*="/tickets/comment_on_ticket"]`)
	tab.See(`.chip.disabled_by_user`)
	tab.Click(`button[value=enable]`)
	tab.See(`.chip.callable`)
	comment := map[string]any{"name": "tickets:comment_on_ticket", "args": map[string]any{"id": 1, "text": "hello"}}
	if done := p.Call("call_tool_write", comment); done.IsError {
		t.Errorf("the enabled tool answers %s", done.Raw)
	}

	tab.Goto(p.URL + "/admin/tools/notes/delete_note")
	tab.See(`.chip.disabled_by_config`)
	if tab.Has(`button[value=approve], button[value=enable]`) {
		t.Error("the page of a tool that the operator denies has a button that would unlock it")
	}
}

// The link that the program prints needs one click to sign in. After that, a link on another site,
// such as a chat with the agent, opens the console page without a second sign-in.
func TestBrowserSignInLink(t *testing.T) {
	p := start(t, t.TempDir(), "--demo")
	page := p.URL + "/admin/tools/tickets/assign_ticket"
	chat := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a id="link" href="%[1]s">see it</a><form method="post" action="%[1]s"><input name="action" value="disable"><button>press</button></form>`, page)
	}))
	defer chat.Close()
	// a site that is not the gateway's
	elsewhere := strings.Replace(chat.URL, "127.0.0.1", "localhost", 1)
	tab := browsertest.Open(t, p.URL, elsewhere)

	tab.Goto(p.link)
	tab.See(`main button`)
	tab.Shot("link")
	tab.Click(`main button`)
	tab.See(`header button`)
	if at := tab.Location(); at != p.URL+"/admin" {
		t.Errorf("the click leads to %s", at)
	}
	if script := browsertest.Eval[string](tab, `document.cookie`); script != "" {
		t.Errorf("scripts read the session: %s", script)
	}
	tab.Goto(elsewhere)
	tab.Click(`#link`)
	tab.See(`#decide`)
	if at := tab.Location(); at != page {
		t.Errorf("the link of another site leads to %s", at)
	}
	tab.Forgive(`status 403 of .*/assign_ticket`)
	tab.Goto(elsewhere)
	tab.Click(`button`)
	tab.See(`.problem`)
	if said := tab.Text(`body`); !strings.Contains(said, "another site") {
		t.Errorf("the answer to a form of another site is %s", said)
	}
	tab.Goto(page)
	tab.See(`.chip.pending_approval`)
	tab.Click(`header button`)
	tab.See(`input[name=key]`)
	tab.Goto(page)
	tab.See(`input[name=key]`)
}
