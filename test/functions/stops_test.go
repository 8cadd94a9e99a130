package functions_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A person stops a server, everything or an agent at one function, and agents call two other
// functions. Both functions refuse the next call. Searches show the stop about two seconds later,
// and the audit has each event.
func (g suite) peopleStop(t *testing.T) {
	w := g.fixture(t)
	w.Sync(t)
	admin, both := w.Start(t, "admin"), []*lambdatest.Function{w.Start(t, "mcp"), w.Start(t, "mcp")}
	const call, query = `{"name":"github:search_issues","args":{"query":"x"}}`, `{"query":"search issues","include_disabled":true}`
	search := func(f *lambdatest.Function) string { return f.Call("retrieve_tools", query).Text }
	works := func() {
		t.Helper()
		for _, f := range both {
			if r := f.Call("call_tool_read", call); r.IsError {
				t.Errorf("a call: %+v", r)
			}
		}
	}
	works()
	for name, body := range map[string]string{"a server": `{"server":"github","reason":"key leaked"}`, "everything": `{"all":true,"reason":"key leaked"}`} {
		w.proxy.Calls()
		admin.Ask(http.StatusOK, "/admin/stop", body, nil)
		at, missed := time.Now(), time.Time{} // time of the stop, and of the last search without it
		w.github.ForgetRequests()
		for _, f := range both {
			r := f.Call("call_tool_read", call)
			if !r.IsError || !strings.Contains(r.Text, "server_disabled") || !strings.Contains(r.Text, "stopped by bootstrap: key leaked. An operator undoes it at https://gate.example.com/admin/stop") {
				t.Errorf("%s: the next call answers %+v", name, r)
			}
		}
		if n := w.github.Total(); n > 0 {
			t.Errorf("%s: %d requests reached the server", name, n)
		}
		for _, f := range both {
			local.Until(t, "a search shows the stop", func() bool {
				if began := time.Now(); !strings.Contains(search(f), `"status":"server_disabled","note":"stopped by bootstrap: key leaked`) {
					missed = began
					return false
				}
				return true
			})
		}
		if after := missed.Sub(at); after > 4*time.Second {
			t.Errorf("%s: a search %v after the stop does not show it", name, after)
		}
		admin.Ask(http.StatusOK, "/admin/stop/undo", `{"every":true}`, nil)
		works()
		for _, f := range both {
			local.Until(t, "a search shows that the stop is undone", func() bool { return !strings.Contains(search(f), "server_disabled") })
		}
	}
	admin.Ask(http.StatusOK, "/admin/stop", `{"agent":"anonymous","reason":"runs wild"}`, nil)
	for _, f := range both {
		a := f.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool_read","arguments":`+call+`}}`)
		if a.Status != http.StatusForbidden || !strings.Contains(a.Body, "stopped by bootstrap: runs wild") {
			t.Errorf("a stopped agent's next call: %d %s", a.Status, a.Body)
		}
		local.Until(t, "the gateway refuses the agent's list", func() bool {
			a := f.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			return a.Status == http.StatusForbidden && strings.Contains(a.Body, "stopped by bootstrap: runs wild")
		})
		if a := f.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`); a.Status != http.StatusOK {
			t.Errorf("ping: %d %s", a.Status, a.Body)
		}
	}
	admin.Ask(http.StatusOK, "/admin/stop/undo", `{"agent":"anonymous"}`, nil)
	for _, f := range both {
		local.Until(t, "the gateway accepts the agent again", func() bool {
			return f.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).Status == http.StatusOK
		})
	}
	works()
	events := w.stopEvents(t)
	want := []string{
		"bootstrap stop agent:anonymous runs wild", "bootstrap stop all key leaked", "bootstrap stop server:github key leaked",
		"bootstrap stop_undone agent:anonymous ", "bootstrap stop_undone all ", "bootstrap stop_undone server:github ",
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("the audit (-want +got):\n%s", diff)
	}
	if w.proxy.Checked() == 0 {
		t.Error("no call was checked against a role")
	}
}

// stopEvents returns the audit events of stops and of their undoing, sorted.
func (w *fixture) stopEvents(t *testing.T) (events []string) {
	t.Helper()
	for _, l := range w.events(t) {
		if strings.HasPrefix(l.Action, "stop") {
			events = append(events, l.Actor+" "+l.Action+" "+l.Subject+" "+l.Note)
		}
	}
	slices.Sort(events)
	return events
}

// events returns the audit events in the table that do not belong to a tool.
func (w *fixture) events(t *testing.T) []audit.Line {
	t.Helper()
	db := dynamodb.NewFromConfig(emulator.Config(w.Endpoint))
	lines, _, err := dynamo.NewEvents(db, w.Env["PORTCULLIS_TABLE"], nil).Events(t.Context(), audit.Filter{}, "", 100)
	require.OK(t, err)
	return lines
}
