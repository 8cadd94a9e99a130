package console_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
)

// An operator calls a tool that only reads, and a tool that destroys after a confirmation. If the
// browser sends the form again, nothing is called.
func TestCall(t *testing.T) {
	t.Parallel()
	d := &fixture{Program: programtest.Start(t, t.TempDir(), "--demo", "--actor", "kim")}
	d.begin(t)
	d.tab.Goto("/admin/call")
	d.tab.Fill(`input[name="tool"]`, "tickets:list_tickets")
	d.tab.Loads("the arguments", func() { d.tab.ClickText("button", "Show the arguments") })
	d.tab.Loads("the result", func() { d.tab.ClickText("button", "Call it") })
	d.tab.SeeText("h2", "Result")
	d.tab.SeeText("pre", "hinge")
	d.tab.Everywhere("call-result")

	d.tab.Goto("/admin/tools/tickets/close_ticket")
	d.tab.Loads("the page that calls the tool", func() { d.tab.ClickText("a", "Test call") })
	d.tab.Fill("textarea", `{"id": 1}`)
	d.tab.Loads("the confirmation", func() { d.tab.ClickText("button", "Call it…") })
	d.tab.SeeText("h2", "Call it with these arguments?")
	d.tab.Everywhere("call-confirm")
	d.tab.Loads("the result", func() { d.tab.ClickText("button", "Call it now") })
	d.tab.SeeText(".card", "1")
	d.tab.Forgive("status 409 of ")
	d.tab.Loads("the form again", d.tab.Reload)
	d.tab.SeeText(".problem", "Nothing was called now: this form was sent already")
	local.Until(t, "the audit has the calls", func() bool {
		audit := d.get("/admin/audit?kind=call").Body
		return strings.Contains(audit, ":list_tickets") && strings.Contains(audit, ":close_ticket")
	})
	calls := strings.Count(d.get("/admin/audit?kind=call").Body, `<tr id=`)
	if calls != 2 {
		t.Errorf("the audit has %d calls, want 2", calls)
	}
}
