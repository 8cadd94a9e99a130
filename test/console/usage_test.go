package console_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// The page shows the use by agents.
func TestUsage(t *testing.T) {
	d := open(t, small())
	wanted := d.fleet.New[0]
	for range 3 {
		d.Call("call_tool_destructive", map[string]any{"name": wanted})
	}
	d.Call("retrieve_tools", map[string]any{"query": wanted, "include_disabled": true, "limit": 10})
	d.Call("retrieve_tools", map[string]any{"query": "xyzzy plugh"})

	var u decide.Usage
	d.Ask(http.StatusOK, "/admin/usage?range=1h", nil, &u)
	if i := slices.IndexFunc(u.Uses.Wanted, func(w decide.UsedTool) bool { return w.ID == wanted }); i != 0 || u.Uses.Wanted[0].Locked != 3 || u.Uses.Wanted[0].Found != 1 {
		t.Errorf("wanted: %+v", u.Uses.Wanted)
	}
	d.look([]place{{"usage-hour", "/admin/usage?range=1h"}, {"usage-month", "/admin/usage?range=30d"}, {"usage-review", page(wanted)}})
	d.tab.Goto("/admin/usage?range=1h")
	d.tab.Click("details summary")
	d.tab.See("details[open] table.nums")
	d.tab.Everywhere("usage-table")
	d.tab.Loads("the tool that is wanted", func() { d.tab.Click(`#by-tool li a`) })
	if got := d.tab.Path(); got != page(wanted) {
		t.Errorf("the first row leads to %s, want %s", got, page(wanted))
	}
	d.tab.SeeText("main", "0 calls/7 d, 3 locked by 1 agent")
}
