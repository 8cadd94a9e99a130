package fleettest_test

import (
	"cmp"
	"os"
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/fleettest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
)

func TestMain(m *testing.M) { os.Exit(programtest.Main(m.Run)) }

// The gateway's view of the servers matches the update.
func TestRun(t *testing.T) {
	catalog := fleettest.MadeUp(12, 140)
	fleet, p := fleettest.Run(t, catalog)
	waiting := slices.Sorted(slices.Values(fleet.Waiting()))
	if got := ids(p, "status=pending_approval"); !slices.Equal(got, waiting) {
		t.Errorf("waiting tools\n%q, want\n%q", got, waiting)
	}
	if n, want := len(ids(p, "status=callable")), catalog.Len()-len(waiting); n != want {
		t.Errorf("%d tools are callable, want %d", n, want)
	}
	type server struct {
		Name    string
		Outcome struct{ Status string }
	}
	want := map[string]string{fleet.Denied: "denied", fleet.Failing: "transient"}
	for _, s := range agenttest.Pages[server](&p.Client, "servers", "servers", "") {
		if s.Outcome.Status != cmp.Or(want[s.Name], "available") {
			t.Errorf("%s: %+v, want %q", s.Name, s.Outcome, want[s.Name])
		}
	}
}

// ids returns the ids of the tools of a filter, sorted.
func ids(p *programtest.Program, filter string) (all []string) {
	for _, x := range agenttest.Pages[struct{ ID string }](&p.Client, "tools", "tools", filter) {
		all = append(all, x.ID)
	}
	return slices.Sorted(slices.Values(all))
}

// Prompts and resources that change or are added later wait for approval, like the tools.
func TestRunItems(t *testing.T) {
	fleet, items, p := fleettest.RunItems(t, programtest.Access{}, fleettest.MadeUp(12, 140))
	want := slices.Sorted(slices.Values(slices.Concat(fleet.Waiting(), items.Waiting())))
	if got := ids(p, "status=pending_approval"); !slices.Equal(got, want) {
		t.Errorf("waiting items\n%q, want\n%q", got, want)
	}
	approved := slices.Sorted(slices.Values(append(slices.Concat(items.Prompts, items.Resources), items.Off, items.Server+":resource:handbook://people/{name}")))
	if got := slices.Sorted(slices.Values(append(ids(p, "status=callable&kind=prompt"), ids(p, "status=callable&kind=resource")...))); !slices.Equal(got, approved) {
		t.Errorf("approved items\n%q, want\n%q", got, approved)
	}
}
