package catalog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
)

// If a store from before a decision is restored, the decision stays in the catalog. This is true
// whether or not a worker, which knows only that store, has loaded the server since.
func TestSharedStoreSetBack(t *testing.T) {
	large := fmt.Sprintf(`{"name":"large","description":%q}`, strings.Repeat("word ", 2000))
	share := func(w *fixture) (catalog.Report, error) { return w.share(true) }
	for name, c := range map[string]struct {
		id    string
		syncs func(*fixture) (catalog.Report, error)
	}{
		"no server is loaded":      {"a:x", func(w *fixture) (catalog.Report, error) { return w.worker().Assemble(t.Context()) }},
		"the server is loaded":     {"a:x", share},
		"the record is no witness": {"a:large", share}, // which is a small record: see [catalog.Snapshot.Witness]
	} {
		t.Run(name, func(t *testing.T) {
			w := shared(t)
			w.Server("a").Tools = []string{"x", large}
			w.mustShare(true)
			before := w.Approvals.Copy()
			w.Clock.Wait(time.Minute)
			w.Decide(c.id, "block")
			w.mustAssemble()
			w.lose(before)
			w.Clock.Wait(time.Minute)
			if _, err := c.syncs(w); err != nil {
				t.Fatal(err)
			}
			s := w.load()
			i, _ := s.Find(w.Record(c.id).ID())
			if r := w.Record(c.id); r.Loss == nil || s.Tool(i).Approval.State != approval.Blocked {
				t.Errorf("the catalog has the record as %s, at revision %d; the store at %d", s.Tool(i).Approval.State, s.Tool(i).Approval.Rev, r.Rev)
			}
			if n := s.Current().Restored; n != 1 {
				t.Errorf("%d records count as restored", n)
			}
		})
	}
}
