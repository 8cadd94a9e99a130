package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
)

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
