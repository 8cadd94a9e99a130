package approval_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func TestIsLost(t *testing.T) {
	at := func(rev int64, updated time.Time) *approval.Record {
		r := decidedRecord(approval.Approved, "h1", "h1")
		r.Rev, r.UpdatedAt = rev, updated
		return &r
	}
	for _, test := range []struct {
		name          string
		stored, known *approval.Record
		want          bool
	}{
		{"the same record", at(4, noon), at(4, noon), false},
		{"a newer record", at(5, noon.Add(1)), at(4, noon), false},
		{"an older record", at(3, noon.Add(-1)), at(4, noon), true},
		{"an older record that was written later", at(3, noon.Add(time.Hour)), at(4, noon), true},
		{"another record of the same revision", at(4, noon.Add(time.Hour)), at(4, noon), true},
		{"the same revision at an unknown time", at(4, noon), at(4, time.Time{}), false},
		{"no record", nil, at(1, noon), true},
		{"a record that the catalog lacks", at(1, noon), nil, false},
		{"no record in store and catalog", nil, nil, false},
	} {
		if got := approval.IsLost(test.stored, test.known); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// For every pair of a store record and a catalog record, the recovered record is at least as strict
// as both. A person can restore each of the two.
func TestRecoverAndSettle(t *testing.T) {
	version := func(approved tool.Hash, disabled bool, rev int64) *approval.Record {
		r := decidedRecord(map[tool.Hash]approval.State{"": approval.Pending, "h1": approval.Changed, "h2": approval.Approved}[approved], approved, "h2")
		r.Disabled, r.Rev, r.UpdatedAt = disabled, rev, noon.Add(time.Duration(rev))
		r.Approved, r.Note, r.By = definition(approved), strings.Repeat("n", 4000), strings.Repeat("b", 256)
		return &r
	}
	open := func(r *approval.Record) (enabled, approves bool) { return !r.Disabled, r.ApprovedHash == r.CurrentHash }
	for _, stored := range []*approval.Record{nil, version("", false, 2), version("h1", false, 2), version("h2", false, 2), version("h2", true, 2)} {
		for _, known := range []*approval.Record{version("", false, 7), version("h1", false, 7), version("h2", false, 7), version("h2", true, 7), version("", true, 7)} {
			r, e := approval.Recover(stored, known, noon)
			what := fmt.Sprintf("store %s, catalog %s", brief(stored), brief(known))
			enabled, approves := open(&r)
			knownEnabled, knownApproves := open(known)
			storeEnabled, storeApproves := knownEnabled, knownApproves
			if stored != nil {
				storeEnabled, storeApproves = open(stored)
			}
			if enabled != (knownEnabled && storeEnabled) || approves != (knownApproves && storeApproves) || approves != (r.State == approval.Approved) {
				t.Errorf("%s: %s", what, brief(&r))
			}
			if err := approval.CheckPut(r, &e); err != nil || r.Next(noon).Rev != 8 || e.Actor != approval.Sync || e.Action != "recover" {
				t.Errorf("%s: %v: rev %d, audit line %+v", what, err, r.Next(noon).Rev, e)
			}

			kept, e, err := approval.KeepRestored(r, "ann", noon)
			if e1, a1 := open(&kept); err != nil || kept.Loss != nil || e1 != knownEnabled || a1 != knownApproves || kept.By != "ann" || e.Action != "approvals-restore" || kept.DecidedAt.IsZero() {
				t.Errorf("%s: KeepRestored = %s, %v", what, brief(&kept), err)
			}
			if kept.ApprovedHash == kept.CurrentHash && string(kept.Approved) != string(kept.Current) {
				t.Errorf("the approved definition is %s", kept.Approved)
			}
			taken, e, err := approval.AcceptStore(r, "ann", noon)
			if stored == nil {
				storeApproves = false
			}
			if e1, a1 := open(&taken); err != nil || taken.Loss != nil || e1 != storeEnabled || a1 != storeApproves || e.Action != "approvals-accept" {
				t.Errorf("%s: AcceptStore = %s, %v", what, brief(&taken), err)
			}
		}
	}
}

func brief(r *approval.Record) string {
	if r == nil {
		return "none"
	}
	return fmt.Sprintf("%s at %q, disabled %v", r.State, r.ApprovedHash, r.Disabled)
}

func TestAcceptStoreOfAnotherServer(t *testing.T) {
	stored, known := decidedRecord(approval.Approved, "h1", "h1"), decidedRecord(approval.Pending, "", "h1")
	stored.URL, known.Rev = "https://other.example.com", 9
	r, _ := approval.Recover(&stored, &known, noon)
	got, _, err := approval.AcceptStore(r, "ann", noon)
	if err != nil || got.State != approval.Pending {
		t.Errorf("AcceptStore kept an approval of another URL: %+v, %v", got, err)
	}
}

// The server's listing adds the text of a definition that the catalog lacked.
func TestObserveLostDefinition(t *testing.T) {
	r := decidedRecord(approval.Changed, "h1", "h2")
	r.Current = nil
	got, e, changed := approval.Observe(&r, seen("h2", approval.OnChange, false, noon))
	if !changed || e != nil || string(got.Current) != string(definition("h2")) || got.State != approval.Changed {
		t.Errorf("record = %+v, %+v, %v", got, e, changed)
	}
}
