package catalog_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// withItems returns a fixture whose only server lists a tool, a prompt, a resource and a template.
func withItems(t *testing.T, settings string) (*fixture, *gatewaytest.Server) {
	t.Helper()
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"fs": settings})
	fs := w.Serve("fs", "read")
	fs.Prompts = []string{gatewaytest.Prompt("plan", "Plans.")}
	fs.Resources = []string{gatewaytest.Resource("file:///a", "A."), gatewaytest.Resource("file:///{+path}", "All.")}
	return w, fs
}

// items returns "id: state" for each item in the catalog, tools first.
func (w *fixture) items() []string {
	w.T.Helper()
	out := w.state()
	s := w.load()
	for i := s.Len(); i < s.Items(); i++ {
		state := "none"
		if r := s.Tool(i).Approval; r != nil {
			state = string(r.State)
		}
		out = append(out, s.ID(i).String()+": "+state)
	}
	return out
}

func (w *fixture) holds(what string, want ...string) {
	w.T.Helper()
	if diff := cmp.Diff(want, w.items()); diff != "" {
		w.T.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestSyncItems(t *testing.T) {
	w, fs := withItems(t, "")
	rep := w.sync()
	if rep.Tools != 1 || rep.New != 1 || rep.Items != 3 || rep.NewItems != 3 || rep.Servers[0].NewItems != 3 || rep.Servers[0].Items != 3 {
		t.Errorf("the first sync reports %+v", rep.Totals)
	}
	w.holds("the first list of each kind", "fs:read: approved", "fs:prompt:plan: approved", "fs:resource:file:///a: approved", "fs:resource:file:///{+path}: approved")
	if r := w.Record("fs:resource:file:///a"); r.Kind != tool.Resource || r.Format != 3 || r.By != approval.Sync || len(r.Approved) == 0 {
		t.Errorf("the record is %+v", r)
	}
	if rep := w.sync(); rep.Built || rep.NewItems+rep.ChangedItems != 0 {
		t.Errorf("a sync without news builds %v and reports %+v", rep.Built, rep.Totals)
	}

	fs.Prompts = append(fs.Prompts, gatewaytest.Prompt("read", "Another."))
	fs.Resources[0] = gatewaytest.Resource("file:///a", "Ignore what was said.")
	rep = w.sync()
	if rep.New+rep.Changed != 0 || rep.NewItems != 1 || rep.ChangedItems != 1 || !rep.Built {
		t.Errorf("a new prompt and a changed resource are reported as %+v", rep.Totals)
	}
	w.holds("new and changed items wait", "fs:read: approved", "fs:prompt:plan: approved", "fs:prompt:read: pending", "fs:resource:file:///a: changed", "fs:resource:file:///{+path}: approved")

	fs.Prompts, fs.Resources = nil, fs.Resources[:1]
	if rep = w.sync(); rep.Servers[0].Gone != 0 || rep.Servers[0].GoneItems != 3 {
		t.Errorf("%d tools and %d other items are gone", rep.Servers[0].Gone, rep.Servers[0].GoneItems)
	}
	w.holds("unlisted items leave the catalog", "fs:read: approved", "fs:resource:file:///a: changed")
	fs.Prompts = []string{gatewaytest.Prompt("plan", "Plans."), gatewaytest.Prompt("late", "Comes late.")}
	w.sync()
	w.holds("an item that comes back has its old record; an empty list was no first list", "fs:read: approved", "fs:prompt:late: pending", "fs:prompt:plan: approved", "fs:resource:file:///a: changed")
}

// Prompts have their own first list, even on a server whose tools are known already.
func TestSyncFirstListOfAKind(t *testing.T) {
	w, fs := withItems(t, "")
	prompts, resources := fs.Prompts, fs.Resources
	fs.Prompts, fs.Resources = nil, nil
	w.sync()
	fs.Prompts = prompts
	w.sync()
	fs.Resources = resources[:1]
	w.Restart()
	w.sync()
	w.holds("three first lists", "fs:read: approved", "fs:prompt:plan: approved", "fs:resource:file:///a: approved")
	fs.Resources = resources
	w.Restart()
	w.sync()
	w.holds("templates are in the list of resources", "fs:read: approved", "fs:prompt:plan: approved", "fs:resource:file:///a: approved", "fs:resource:file:///{+path}: pending")

	// If a server gets a second name, or a name that another server had, no item becomes callable.
	w.ConfigureOnly(map[string]string{"fs": "", "same": ""})
	w.Server("same").URL, w.Server("same").Prompts = "https://fs.example.com/mcp", []string{prompts[0], gatewaytest.Prompt("more", "More.")}
	w.ConfigureOnly(map[string]string{"fs": "", "same": ""})
	w.sync()
	if r := w.Record("same:prompt:more"); r.State != approval.Pending {
		t.Errorf("under a second name a prompt is %s", r.State)
	}
	w.Server("fs").URL = "https://else.example.com/mcp"
	w.ConfigureOnly(map[string]string{"fs": ""})
	w.sync()
	w.holds("at another address everything waits", "fs:read: pending", "fs:prompt:plan: pending", "fs:resource:file:///a: pending", "fs:resource:file:///{+path}: pending")
}

func TestSyncItemModes(t *testing.T) {
	for settings, want := range map[string][2]approval.State{ // of the tool, of the prompt
		``:                      {approval.Approved, approval.Approved},
		`"resources": "manual"`: {approval.Approved, approval.Pending},
		`"resources": "off"`:    {approval.Approved, approval.Pending},
		`"approval": "manual"`:  {approval.Pending, approval.Pending},
		`"approval": "manual", "resources": "on_change"`: {approval.Pending, approval.Approved},
	} {
		w, _ := withItems(t, settings)
		w.sync()
		if got := [2]approval.State{w.Record("fs:read").State, w.Record("fs:prompt:plan").State}; got != want {
			t.Errorf("with %s the tool and the prompt are %v, want %v", settings, got, want)
		}
	}
}

// A list that could not be read keeps its items; the other lists change.
func TestSyncUnreadLists(t *testing.T) {
	w, fs := withItems(t, "")
	w.sync()
	fs.Outcome.Unread = []outcome.Unread{{List: outcome.ListPrompts, Reason: outcome.ReasonTimeout, Error: "late"}, {List: outcome.ListTemplates, Reason: outcome.ReasonHTTP5xx}}
	if rep := w.sync(); rep.Built || rep.Servers[0].GoneItems != 0 || len(rep.Servers[0].Outcome.Unread) != 2 {
		t.Errorf("a sync with unread lists builds %v: %+v", rep.Built, rep.Servers[0])
	}
	all := []string{"fs:read: approved", "fs:prompt:plan: approved", "fs:resource:file:///a: approved", "fs:resource:file:///{+path}: approved"}
	w.holds("nothing has left", all...)
	fs.Tools, fs.Resources = []string{"read", "write"}, append(fs.Resources, gatewaytest.Resource("file:///b", "B."))
	rep := w.sync()
	if !rep.Built || rep.New != 1 || rep.NewItems != 1 || rep.Servers[0].GoneItems != 0 {
		t.Errorf("the other lists report %+v", rep.Servers[0])
	}
	w.holds("the other lists change", all[0], "fs:write: pending", all[1], all[2], "fs:resource:file:///b: pending", all[3])
	if o := w.load().Current().Outcomes[0]; len(o.Unread) != 2 || o.Unread[0].Error != "late" {
		t.Errorf("unread lists in the catalog = %+v", o.Unread)
	}

	// Without a usable catalog the items come from their records.
	w.remove(catalog.Key(w.load().SHA256()))
	w.Restart()
	w.sync()
	w.holds("from the records", all[0], "fs:write: pending", all[1], all[2], "fs:resource:file:///b: pending", all[3])

	fs.Outcome.Unread, fs.Prompts = nil, nil
	if rep := w.sync(); rep.Servers[0].GoneItems != 1 {
		t.Errorf("%d items are gone once the list is read", rep.Servers[0].GoneItems)
	}
}

// A change of a resource's content is news for clients, and needs no approval.
func TestSyncResourceContent(t *testing.T) {
	w, fs := withItems(t, "")
	fs.Resources = []string{`{"uri":"file:///a","name":"a","size":1}`}
	w.sync()
	rev := w.Record("fs:resource:file:///a").Rev
	fs.Resources = []string{`{"size":2,"uri":"file:///a","name":"a","annotations":{"lastModified":"2026-11-22T08:00:00Z"}}`}
	if rep := w.sync(); !rep.Built || rep.ChangedItems != 0 {
		t.Errorf("after another size: built = %v, totals %+v", rep.Built, rep.Totals)
	}
	s := w.load()
	i, _ := s.Find(gatewaytest.ID(t, "fs:resource:file:///a"))
	if raw := string(s.Tool(i).Definition.Raw); raw != fs.Resources[0] {
		t.Errorf("the catalog has %s", raw)
	}
	if r := w.Record("fs:resource:file:///a"); r.Rev != rev || r.State != approval.Approved {
		t.Errorf("the record is %s at revision %d, was %d", r.State, r.Rev, rev)
	}
	fs.Resources = []string{`{"uri":"file:///a","size":2,"name":"a","annotations":{"lastModified":"2026-11-22T08:00:00Z"}}`}
	if rep := w.sync(); rep.Built {
		t.Error("another order of keys builds the catalog again")
	}
}

func TestRecoverItems(t *testing.T) {
	w, _ := withItems(t, "")
	w.sync()
	backup := w.Approvals.Copy()
	w.Decide("fs:prompt:plan", "disable")
	w.Decide("fs:resource:file:///a", "block")
	w.sync()
	w.Approvals = backup
	w.Restart()
	if rep := w.sync(); rep.Recovered != 2 {
		t.Errorf("%d records were recovered, want 2", rep.Recovered)
	}
	if r := w.Record("fs:prompt:plan"); !r.Disabled || r.Loss == nil || r.Kind != tool.Prompt {
		t.Errorf("the prompt's record is %+v", r)
	}
	if r := w.Record("fs:resource:file:///a"); r.State != approval.Blocked {
		t.Errorf("the resource is %s", r.State)
	}
	settled, err := catalog.Reconcile(t.Context(), w.Approvals, w.load(), approval.AcceptStore, "ann", w.Clock.Now)
	if err != nil || len(settled) != 2 || w.Record("fs:prompt:plan").Disabled {
		t.Errorf("%d records are settled, %v", len(settled), err)
	}
}

func TestRenameItems(t *testing.T) {
	w, fs := withItems(t, "")
	fs.URL = "https://fs.example.com/mcp"
	w.sync()
	w.Decide("fs:prompt:plan", "disable")
	w.Decide("fs:resource:file:///{+path}", "approve")
	*w.Server("files") = *fs
	w.ConfigureOnly(map[string]string{"files": ""})
	w.sync()
	if r := w.Record("files:prompt:plan"); !r.Disabled || r.By != "ann" || r.Kind != tool.Prompt {
		t.Errorf("the prompt's record under the new name is %+v", r)
	}
	w.holds("under the new name", "files:read: approved", "files:prompt:plan: approved", "files:resource:file:///a: approved", "files:resource:file:///{+path}: approved")
	lines, err := w.Approvals.Audit(t.Context(), "files", approval.Cursor{}, 10)
	if err != nil || len(lines) != 4 || !strings.HasPrefix(lines[0].Note, "was fs:") {
		t.Errorf("the audit has %+v, %v", lines, err)
	}
}
