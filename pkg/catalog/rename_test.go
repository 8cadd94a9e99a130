package catalog_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const here, there = "https://here.example.com/mcp", "https://there.example.com/mcp"

// place stores a config with these servers. The map has a server's URL by its name. Further keys of
// the server's config may follow the URL, after a comma.
func (w *fixture) place(servers map[string]string) {
	w.T.Helper()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		url, keys, _ := strings.Cut(servers[name], ",")
		if keys != "" {
			keys = "," + keys
		}
		parts = append(parts, fmt.Sprintf(`%q: {"url": %q%s}`, name, url, keys))
	}
	w.Put(config.Key, `{"mcpServers": {`+strings.Join(parts, ",")+`}}`)
}

// lock gives the server fs a tool in each state: "ok" is approved, "off" is disabled, "new" is
// pending, and "moved" is changed. The server files gets the same tools.
func (w *fixture) lock() {
	w.T.Helper()
	w.Server("fs").Tools = []string{"ok", "off", "moved"}
	w.sync()
	w.Server("fs").Tools = []string{"ok", "off", `{"name":"moved","title":"new"}`, "new"}
	w.sync()
	w.Decide("fs:off", "disable")
	w.Server("files").Tools = w.Server("fs").Tools
}

// lockedAt returns a fixture whose only server is fs at this URL, with the tools of [fixture.lock].
func lockedAt(t *testing.T, url string) *fixture {
	w := newFixture(t)
	w.place(map[string]string{"fs": url})
	w.lock()
	return w
}

func TestRenamedServer(t *testing.T) {
	kept := []string{
		"files:moved: changed", "files:new: pending", "files:off: approved", "files:ok: approved",
	}
	waits := []string{"files:moved: pending", "files:new: pending", "files:off: pending", "files:ok: pending"}
	for _, test := range []struct {
		name string
		edit func(w *fixture)
		want []string
	}{
		{"in one edit: nothing changes", func(w *fixture) {
			w.place(map[string]string{"files": here})
		}, kept},
		{"in another spelling of the URL", func(w *fixture) {
			w.place(map[string]string{"files": "https://HERE.example.com:443/mcp/"})
		}, kept},
		{"in one edit, loaded two syncs later by another process", func(w *fixture) {
			w.Server("files").Outcome = transient()
			w.place(map[string]string{"files": here})
			w.sync()
			w.Restart()
			w.sync()
			w.Server("files").Outcome = outcome.Outcome{}
		}, kept},
		{"with changed definitions: these wait", func(w *fixture) {
			w.Server("files").Tools = []string{`{"name":"ok","title":"new"}`, "off"}
			w.place(map[string]string{"files": here})
		}, []string{"files:off: approved", "files:ok: pending"}},
		{"in two edits: everything waits", func(w *fixture) {
			w.place(map[string]string{})
			w.sync()
			w.place(map[string]string{"files": here})
		}, waits},
		{"a second name in addition to the first: everything waits", func(w *fixture) {
			w.place(map[string]string{"fs": here, "files": here})
			w.sync()
			// everything still waits after the first name is gone
			w.place(map[string]string{"files": here})
		}, waits},
		{"into two names: everything waits", func(w *fixture) {
			w.place(map[string]string{"other": here, "files": here})
			w.Server("other").Outcome = transient()
			w.sync()
			w.place(map[string]string{"files": here})
		}, waits},
		{"two names into one: everything waits", func(w *fixture) {
			w.place(map[string]string{"fs": here, "other": here})
			w.sync()
			w.place(map[string]string{"files": here})
		}, waits},
		{"twice before it loads: nothing changes", func(w *fixture) {
			w.place(map[string]string{"other": here + `,"enabled": false`})
			w.sync()
			w.place(map[string]string{"files": here})
		}, kept},
		{"to another URL: everything is new, and its first list is approved", func(w *fixture) {
			w.place(map[string]string{"files": there})
		}, []string{"files:moved: approved", "files:new: approved", "files:off: approved", "files:ok: approved"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := lockedAt(t, here)
			test.edit(w)
			w.sync()
			wantState(t, w, test.want...)
			w.Restart()
			w.sync()
			wantState(t, w, test.want...)
			if slices.Contains(test.want, "files:off: approved") && !strings.Contains(test.name, "another URL") && !w.Record("files:off").Disabled {
				t.Error("a disabled tool is callable under its new name")
			}
		})
	}
}

func TestRenameAudit(t *testing.T) {
	w := lockedAt(t, here)
	w.place(map[string]string{"files": here})
	w.sync()
	w.sync()
	lines, err := w.Approvals.Audit(t.Context(), "files", approval.Cursor{}, 100)
	if err != nil || len(lines) != 4 {
		t.Fatalf("audit = %+v, %v, want one line for each of the 4 tools", lines, err)
	}
	for _, e := range lines {
		if e.Action != approval.ActionRename || e.Actor != approval.Sync || e.Note != "was fs:"+e.Tool {
			t.Errorf("audit line = %+v", e)
		}
	}
}

// TestRenamedWhileAToolIsAway renames a server that does not list a tool at that time, and lists
// the tool again later.
func TestRenamedWhileAToolIsAway(t *testing.T) {
	for _, mode := range []string{"on_change", "off"} {
		t.Run(mode, func(t *testing.T) {
			url := here + `,"approval": "` + mode + `"`
			w := lockedAt(t, url)
			w.Decide("fs:new", "approve")
			all := w.Server("files").Tools
			w.Server("files").Tools = []string{"ok"}
			w.place(map[string]string{"files": url})
			w.sync()
			w.Server("files").Tools = all
			w.sync()
			if r := w.Record("files:off"); !r.Disabled {
				t.Errorf("record = %+v, want it disabled as under the other name", r)
			}
			if r := w.Record("files:new"); r.State != approval.Approved {
				t.Errorf("record = %+v, want it approved as under the other name", r)
			}
			if r := w.Record("files:moved"); r.State == approval.Approved {
				t.Errorf("record = %+v, want it changed as under the other name", r)
			}
		})
	}
}

// With approval off, only a person's decision to disable or block locks a tool. The tool must stay
// locked under every other name of its server.
func TestRenameOfRefusedTools(t *testing.T) {
	const off = `,"approval": "off"`
	for _, test := range []struct {
		name  string
		edits []map[string]string
	}{
		{"a second name", []map[string]string{{"fs": here + off, "files": here + off}}},
		{"two names change places", []map[string]string{{"fs": here + off, "files": there + off}, {"fs": there + off, "files": here + off}}},
		{"the first name goes to another server", []map[string]string{{"fs": there + off, "files": here + off}}},
		{"a second name in another spelling", []map[string]string{{"fs": here + off, "files": "https://here.example.com/%6Dcp?tenant=b" + off}}},
		{"two names for one", []map[string]string{{"other": here + off, "files": here + off}}},
		{"a second name for a renamed server that has not listed yet", []map[string]string{
			{"new": here + off + `,"enabled": false`},
			{"new": here + off + `,"enabled": false`, "files": here + off},
		}},
		{"two names for a renamed server that has not listed yet", []map[string]string{
			{"new": here + off + `,"enabled": false`}, {"other": here + off, "files": here + off},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := lockedAt(t, here+off)
			w.Decide("fs:new", "block")
			for _, edit := range test.edits {
				w.place(edit)
				w.sync()
			}
			if r := w.Record("files:off"); !r.Disabled {
				t.Errorf("record = %+v, want it disabled as under another name", r)
			}
			if r := w.Record("files:new"); r.State != approval.Blocked {
				t.Errorf("record = %+v, want it blocked as under another name", r)
			}
			if r := w.Record("files:ok"); r.Disabled {
				t.Errorf("record = %+v, want it not disabled", r)
			}
		})
	}
}

// If a server is renamed, and later gets its old name again, the decisions under the second name
// apply under the old name.
func TestRenamedBack(t *testing.T) {
	bothWays(t, func(w *fixture) {
		w.place(map[string]string{"fs": here})
		w.lock()
		w.place(map[string]string{"files": here})
		w.sync()
		w.Decide("files:ok", "disable")
		w.place(map[string]string{"fs": here})
		w.sync()
		if r := w.Record("fs:ok"); !r.Disabled {
			w.T.Errorf("record = %+v, want it disabled as under the other name", r)
		}
	})
}

func TestRenameInterrupted(t *testing.T) {
	// config, four records, the catalog and its pointer
	interruptEach(t, 6, func(t *testing.T) *fixture {
		w := lockedAt(t, here)
		w.place(map[string]string{"files": here})
		return w
	}, func(t *testing.T, w *fixture) {
		wantState(t, w, "files:moved: changed", "files:new: pending", "files:off: approved", "files:ok: approved")
		if !w.Record("files:off").Disabled {
			t.Error("a disabled tool is callable")
		}
	})
}

// Data of an earlier version: a baseline by name, and a current.json that names no servers.
func TestBaselineOfAnEarlierVersion(t *testing.T) {
	w := newFixture(t)
	w.place(map[string]string{"fs": here})
	old := document.Doc{Key: document.Key{Part: "SRV#fs", ID: "BASELINE"}, Data: []byte(`{"server":"fs","url":"` + here + `"}`)}
	require.OK(t, w.Approvals.PutDocs(t.Context(), old))
	w.Server("fs").Outcome = transient()
	w.sync()
	require.OK(t, w.Approvals.PutDocs(t.Context(), document.Doc{Key: old.Key, Rev: 1})) // this version stores the baseline by identity
	w.place(map[string]string{"fs": here, "files": here + "/"})
	w.Server("files").Tools = []string{"read"}
	w.Restart()
	w.sync()
	wantState(t, w, "files:read: pending")
}

func TestBaselineOfAServerThatLeft(t *testing.T) {
	w := newFixture(t)
	w.place(map[string]string{"fs": here, "git": there})
	w.serve(map[string][]string{"fs": {"read"}, "git": {"log"}})
	w.sync()
	w.place(map[string]string{"fs": here})
	w.sync()
	cur := w.load().Current()
	if len(cur.Baselines) != 2 || len(cur.Servers) != 1 || cur.Servers[0].Name != "fs" {
		t.Errorf("servers %+v, baselines %v", cur.Servers, cur.Baselines)
	}
	if data := read(t, w, catalog.CurrentKey); !json.Valid([]byte(data)) || strings.Contains(data, "example.com") {
		t.Errorf("%s holds a URL, which may hold a credential: %s", catalog.CurrentKey, data)
	}
}

// The first list of a second name for a known address is not approved automatically. The tests of
// approval.BaselineIdentity have all spellings of an address.
func TestBaselineOfAnotherSpelling(t *testing.T) {
	for _, test := range []struct{ known, other, want string }{
		{"http://localhost:3000/mcp", "http://127.0.0.1:3000/mcp", "pending"},
		{here + "?tenant=a", here + "?tenant=b", "pending"},
		{"http://localhost:3000/mcp", "http://127.0.0.1:3001/mcp", "approved"},
		{here, there, "approved"},
	} {
		for _, stays := range []bool{true, false} {
			w := newFixture(t)
			w.place(map[string]string{"fs": test.known})
			w.serve(map[string][]string{"fs": {"read"}, "files": {"read", "write"}})
			w.sync()
			next := map[string]string{"files": test.other}
			if stays {
				next["fs"] = test.known
			}
			w.place(next)
			w.Restart()
			w.sync()
			w.sync()
			if got := string(w.Record("files:write").State); got != test.want {
				t.Errorf("%s after %s, which stays %v: %s, want %s", test.other, test.known, stays, got, test.want)
			}
			if got := string(w.Record("files:read").State); got != test.want {
				t.Errorf("%s after %s, which stays %v: the unchanged tool is %s, want %s", test.other, test.known, stays, got, test.want)
			}
			if r := w.Record("fs:read"); r.State != approval.Approved || r.URL != test.known {
				t.Errorf("the record of the first name = %+v", r)
			}
		}
	}
}

// If a new config has two servers with the same address, only the list of one of them is approved
// automatically.
func TestBaselineOfTwoSpellings(t *testing.T) {
	w := newFixture(t)
	w.place(map[string]string{"a": here + "?tenant=a", "b": here + "?tenant=b"})
	w.serve(map[string][]string{"a": {"read"}, "b": {"read"}})
	w.sync()
	wantState(t, w, "a:read: approved", "b:read: pending")
	w.Decide("b:read", "approve")
	w.sync()
	wantState(t, w, "a:read: approved", "b:read: approved")
}

// Data of the previous version: baselines by the exact URL, in the store and in a current.json
// whose servers have no Place.
func TestBaselineOfAnEarlierIdentity(t *testing.T) {
	local, queried := "http://127.0.0.1:3000/mcp", here+"?tenant=a"
	second := map[string]string{"fs": local, "q": queried, "new": "http://localhost:3000/mcp", "a": here + "?tenant=b"}
	for _, current := range []bool{true, false} { // current.json exists
		t.Run(fmt.Sprint("a catalog ", current), func(t *testing.T) {
			w := newFixture(t)
			baselines := approval.NewBaselines(w.Approvals)
			w.place(map[string]string{})
			w.sync()
			cur := w.load().Current()
			cur.Servers = []catalog.ServerState{}
			var stored []approval.Baseline
			for name, url := range map[string]string{"fs": local, "q": queried} {
				b := approval.Baseline{Identity: approval.Identity(url), Kind: approval.Tools, URL: url, Server: name}
				stored = append(stored, b)
				cur.Baselines = append(cur.Baselines, b.Key())
				cur.Servers = append(cur.Servers, catalog.ServerState{Name: name, Identity: b.Key()})
			}
			slices.Sort(cur.Baselines)
			require.OK(t, baselines.PutBaselines(t.Context(), stored))
			if current {
				data, err := json.Marshal(cur)
				require.OK(t, err)
				w.Put(catalog.CurrentKey, string(data))
			} else {
				w.remove(catalog.CurrentKey)
			}
			w.place(second)
			w.serve(map[string][]string{"new": {"read"}, "a": {"read"}})
			w.Restart()
			w.sync()
			w.sync()
			wantState(t, w, "a:read: pending", "new:read: pending")
			for _, identity := range []string{"http://localhost:3000/mcp", here} {
				if _, err := baselines.Baseline(t.Context(), identity, approval.Tools); err != nil {
					t.Errorf("the baseline in the current format: %v", err)
				}
			}
		})
	}
}
