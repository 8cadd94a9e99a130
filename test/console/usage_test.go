package console_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
)

// The page shows the use by agents. If the program is killed, at most the last seconds are lost.
func TestUsage(t *testing.T) {
	d := open(t, small())
	wanted := d.fleet.New[0]
	for range 3 {
		d.Call("call_tool_destructive", map[string]any{"name": wanted})
	}
	d.Call("retrieve_tools", map[string]any{"query": wanted, "include_disabled": true, "limit": 10})
	d.Call("retrieve_tools", map[string]any{"query": "xyzzy plugh"})
	callable := d.callable()
	d.Call("call_tool_read", map[string]any{"name": callable})
	time.Sleep(usage.FlushEvery + time.Second)
	d.Kill()
	d.Start()

	var u decide.Usage
	d.Ask(http.StatusOK, "/admin/usage?range=1h", nil, &u)
	sums := map[string]float64{}
	for _, c := range u.Charts {
		for _, s := range c.Series {
			if c.Stacked {
				sums[c.Name] += *s.Total
			}
		}
	}
	if sums["locked"] != 3 || sums["searches"] != 2 || sums["calls"]+sums["refused"] != 1 {
		t.Errorf("after a kill: %v", sums)
	}
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

// callable returns a tool that agents may call.
func (d *fixture) callable() string {
	d.T.Helper()
	var list decide.Page
	d.Ask(http.StatusOK, "/admin/tools?status=callable&limit=1", nil, &list)
	if len(list.Tools) == 0 {
		d.T.Fatal("nothing is callable")
	}
	return list.Tools[0].ID
}
