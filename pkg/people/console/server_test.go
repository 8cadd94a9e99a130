package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A control is a decide.ServerControl whose servers sent 80 messages.
type control struct{}

func (control) Restart(string) int { return 0 }

func (control) Messages(string, int64) (out []upstream.Message) {
	for n := range int64(80) {
		out = append(out, upstream.Message{
			Number: n + 1, At: time.Unix(n, 0), Kind: "log", Level: "error", Times: 3,
			Text: fmt.Sprintf("line %02d <b>", n),
		})
	}
	return out
}

func (control) Activity(string) upstream.Activity {
	hour := time.Date(2026, 11, 27, 22, 0, 0, 0, time.UTC)
	return upstream.Activity{
		Since:       hour,
		Loads:       9,
		FailedLoads: 2,
		FailedHours: []time.Time{hour},
		Calls:       5,
		FailedCalls: 1,
		P95:         210,
		LastError:   "http status 500, body <oops>",
		LastErrorAt: hour,
	}
}

// The page of a server has the table of its tools, its loads and calls, and its last messages. Only
// operators see texts of the server, because they may contain data of agents' calls.
func TestServerPage(t *testing.T) {
	h := newFixture(t)
	h.Decide.Servers = control{}
	h.Open()
	page := h.small("/admin/servers/fs")
	says(
		t,
		page,
		`href="../../admin/tools/fs/read_file`,
		`action="../../admin/tools/bulk"`,
		`name="server" value="fs"`,
		"7 ok, <b class=\"flag\">2 failed</b>",
		">22:00</time>",
		"5, <b class=\"flag\">1 failed</b>; 95 of 100 took at most 210 ms",
		"body &lt;oops&gt;",
		"log error, 3 times",
		"line 79 &lt;b&gt;",
		"line 30",
		`action="../../admin/servers/fs/sync"`,
	)
	lacks(t, page, "line 29", "mail:")
	lacks(t, h.Page(http.StatusOK, "/admin/servers/old"), "/sync\"", "<table")
	h.Console.Actor = func(*http.Request) (decide.Actor, error) {
		return decide.Actor{Name: "vi", Rights: identity.Rights{Role: identity.Viewer}}, nil
	}
	h.Open()
	page = h.Page(http.StatusOK, "/admin/servers/fs")
	says(t, page, "7 ok", "An operator can sync now.")
	lacks(t, page, "line 79", "oops", "/sync\"")
}

// Where the functions on AWS count loads and calls, the page says so.
func TestServerPageElsewhere(t *testing.T) {
	h := newFixture(t)
	h.Decide.Dashboard = "https://charts.example.com/"
	h.Decide.CallLinks = []decide.CallLink{
		{
			Name:  "Insights",
			Group: "/mcp",
			URL:   "https://logs.example.com/",
		}, {Name: "Athena", URL: "https://athena.example.com/"},
	}
	h.Open()
	page := h.Page(http.StatusOK, "/admin/servers/fs")
	says(t, page, `href="https://charts.example.com/"`, `href="https://logs.example.com/"`,
		"<code>/mcp</code>", "server = &#34;fs&#34;")
	lacks(t, page, "Loads<dd>", "Last messages", "athena")
}

func TestSyncOfServer(t *testing.T) {
	h := newFixture(t)
	h.ByName["mail"].Tools = append(h.ByName["mail"].Tools, `{"name":"more"}`)
	h.ByName["fs"].Tools = append(h.ByName["fs"].Tools, `{"name":"not yet"}`)
	submit := func(server string) string {
		t.Helper()
		a := h.Submit("/admin/servers/"+server+"/sync", url.Values{"csrf": {""}})
		to, ok := strings.CutPrefix(a.Header.Get("Location"), "../")
		if a.Status != http.StatusSeeOther || !ok {
			t.Fatalf("%d to %q: %s", a.Status, to, a.Body)
		}
		return h.Page(http.StatusOK, "/admin/servers/"+to)
	}
	says(t, submit("mail"), "The sync of this server is done: 1 new item, 0 changed ones.")
	h.ByName["mail"].Outcome = outcome.Outcome{Status: outcome.Transient, Reason: "timeout"}
	says(t, submit("mail"), "The sync is done, and the server did not load.")
	h.OpenWith(starter{})
	says(t, submit("mail"), "A sync of every enabled server was started in another process.")
	if a := h.Submit(
		"/admin/servers/old/sync",
		url.Values{"csrf": {""}},
	); a.Status != http.StatusConflict {
		t.Errorf("a disabled server: %d", a.Status)
	} else {
		says(t, a.Body, "The server is disabled, so it was not loaded; enable it first.")
	}
}
