package functions_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A person stops a server and an agent at one function, and agents call two other functions. Both
// functions refuse the next call. Searches show the stop later, and the audit has each event.
func (g suite) peopleStop(t *testing.T) {
	w := g.fixture(t)
	w.Sync(t)
	admin, both := w.Start(t, "admin"), []*lambdatest.Function{w.Start(t, "mcp"), w.Start(t, "mcp")}
	works := func() {
		t.Helper()
		for _, f := range both {
			if r := f.Call("call_tool_read", searchTool); r.IsError {
				t.Errorf("a call: %+v", r)
			}
		}
	}
	works()
	w.proxy.Calls()
	admin.Ask(http.StatusOK, "/admin/stop", `{"server":"github","reason":"key leaked"}`, nil)
	w.github.ForgetRequests()
	for _, f := range both {
		r := f.Call("call_tool_read", searchTool)
		if !r.IsError || !strings.Contains(r.Text, "stopped by bootstrap: key leaked. An operator undoes it at https://gate.example.com/admin/stop") {
			t.Errorf("the next call answers %+v", r)
		}
	}
	if n := w.github.Total(); n > 0 {
		t.Errorf("%d requests reached the server", n)
	}
	local.Until(t, "a search shows the stop", func() bool {
		return strings.Contains(both[0].Call("retrieve_tools", search).Text, `"status":"server_disabled","note":"stopped by bootstrap: key leaked`)
	})
	admin.Ask(http.StatusOK, "/admin/stop/undo", `{"every":true}`, nil)
	works()

	admin.Ask(http.StatusOK, "/admin/stop", `{"agent":"anonymous","reason":"runs wild"}`, nil)
	for _, f := range both {
		a := f.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool_read","arguments":`+searchTool+`}}`)
		if a.Status != http.StatusForbidden || !strings.Contains(a.Body, "stopped by bootstrap: runs wild") {
			t.Errorf("a stopped agent's next call: %d %s", a.Status, a.Body)
		}
	}
	admin.Ask(http.StatusOK, "/admin/stop/undo", `{"agent":"anonymous"}`, nil)
	for _, f := range both {
		local.Until(t, "the function accepts the agent again", func() bool {
			a := f.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			return a.Status == http.StatusOK
		})
	}
	works()
	want := []string{
		"bootstrap stop agent:anonymous runs wild", "bootstrap stop server:github key leaked",
		"bootstrap stop_undone agent:anonymous ", "bootstrap stop_undone server:github ",
	}
	if diff := cmp.Diff(want, w.stopEvents(t)); diff != "" {
		t.Errorf("the audit (-want +got):\n%s", diff)
	}
	if w.proxy.Checked() == 0 {
		t.Error("no call was checked against a role")
	}
}

// stopEvents returns the audit events of stops and of their undoing, sorted.
func (w *fixture) stopEvents(t *testing.T) (events []string) {
	t.Helper()
	db := dynamodb.NewFromConfig(emulator.Config(w.Endpoint))
	lines, _, err := dynamo.NewEvents(db, w.Env["PORTCULLIS_TABLE"], nil).Events(t.Context(), audit.Filter{}, "", 100)
	require.OK(t, err)
	for _, l := range lines {
		if strings.HasPrefix(l.Action, "stop") {
			events = append(events, l.Actor+" "+l.Action+" "+l.Subject+" "+l.Note)
		}
	}
	slices.Sort(events)
	return events
}
