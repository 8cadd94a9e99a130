package approval_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// approved approves r's current definition as a person would.
func approved(t *testing.T, r approval.Record, by string, at time.Time) approval.Record {
	t.Helper()
	next, _, err := approval.Approve(r, r.CurrentHash, approval.Author{Actor: by}, at)
	require.OK(t, err)
	return next
}

func observed(r *approval.Record, h tool.Hash) approval.Record {
	next, _, _ := approval.Observe(r, seen(h, approval.OnChange, true, noon))
	return next
}

func TestApproveRemembers(t *testing.T) {
	r := observed(nil, "h1")
	r = approved(t, observed(&r, "h2"), "alice", noon.Add(time.Hour))
	r = approved(t, observed(&r, "h3"), "bob", noon.Add(2*time.Hour))
	want := []approval.Remembered{
		{Hash: "h3", By: "bob", At: noon.Add(2 * time.Hour)},
		{Hash: "h2", By: "alice", At: noon.Add(time.Hour)},
		{Hash: "h1", By: "sync", At: noon},
	}
	if d := cmp.Diff(want, r.ApprovedBefore); d != "" {
		t.Errorf("remembered (-want +got):\n%s", d)
	}
	if _, ok := r.Earlier(); ok {
		t.Error("Earlier reports that an approved definition waits")
	}

	back := observed(&r, "h2")
	if m, ok := back.Earlier(); back.State != approval.Changed || !ok || m != want[1] {
		t.Errorf("the earlier definition is %s, Earlier = %v %+v; want it to wait, with its approver", back.State, ok, m)
	}
	if m, ok := observed(&r, "h9").Earlier(); ok {
		t.Errorf("Earlier reports an approval of a new definition: %+v", m)
	}
	if again := observed(&back, "h3"); again.State != approval.Approved {
		t.Errorf("the definition approved last is %s when it comes back", again.State)
	}

	moved := seen("h2", approval.OnChange, false, noon)
	moved.URL = "https://other.example.com"
	if next, _, _ := approval.Observe(&r, moved); len(next.ApprovedBefore) > 0 {
		t.Errorf("another server's approvals are remembered: %+v", next.ApprovedBefore)
	}
}

func TestApproveRemembersAtMost(t *testing.T) {
	r := observed(nil, "h0")
	long := strings.Repeat("é", approval.MaxActor/2)
	for i := range 60 {
		r = approved(t, observed(&r, tool.Hash(fmt.Sprint("n", i))), long, noon)
	}
	if n := len(r.ApprovedBefore); n != 50 || r.ApprovedBefore[0].Hash != "n59" || r.ApprovedBefore[49].Hash != "n10" {
		t.Errorf("%d are remembered, the newest %s", n, r.ApprovedBefore[0].Hash)
	}
	for _, m := range r.ApprovedBefore {
		if len(m.By) > 100 || !strings.HasPrefix(long, m.By) {
			t.Fatalf("remembered by %q", m.By)
		}
	}
	r = approved(t, observed(&r, "n10"), "bob", noon)
	if r.ApprovedBefore[0].By != "bob" || len(r.ApprovedBefore) != 50 {
		t.Errorf("approved again: %+v", r.ApprovedBefore[0])
	}
}

// After a server gets a new name, a callable tool stays callable if its definition is the same, and
// a locked tool stays locked.
func TestObserveUnderANewName(t *testing.T) {
	disabled := func(r approval.Record) approval.Record { r.Disabled = true; return r }
	elsewhere := func(r approval.Record) approval.Record { r.URL = "https://other.example.com"; return r }
	ok, wait, changed := decidedRecord(approval.Approved, "h1", "h1"), decidedRecord(approval.Pending, "", "h1"), decidedRecord(approval.Changed, "h1", "h2")
	for _, test := range []struct {
		name     string
		from     approval.Record
		own      *approval.Record // record under the new name, from an earlier use of that name
		hash     tool.Hash
		state    approval.State
		disabled bool
	}{
		{"approved stays approved", ok, nil, "h1", approval.Approved, false},
		{"disabled stays disabled", disabled(ok), nil, "h1", approval.Approved, true},
		{"waiting stays waiting", wait, nil, "h1", approval.Pending, false},
		{"changed stays changed", changed, nil, "h2", approval.Changed, false},
		{"another definition waits", ok, nil, "h2", approval.Pending, false},
		{"another definition of a disabled tool waits and is disabled", disabled(ok), nil, "h2", approval.Pending, true},
		{"an approved definition that comes back with the name waits", changed, nil, "h1", approval.Pending, false},
		{"a record of another URL approves nothing", elsewhere(ok), nil, "h1", approval.Pending, false},
		{"an old record of the new name that waits wins", ok, &wait, "h1", approval.Pending, false},
		{"a waiting record wins over an old approval", wait, &ok, "h1", approval.Pending, false},
		{"both approve", ok, &ok, "h1", approval.Approved, false},
		{"a disabled record wins over an old record", disabled(ok), &ok, "h1", approval.Approved, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := seen(test.hash, approval.OnChange, true, noon)
			d.ID.Server = "renamed"
			test.from.Server = "github"
			d.From = &test.from
			if test.own != nil {
				test.own.Server = "renamed"
			}
			got, e, _ := approval.Observe(test.own, d)
			if got.State != test.state || got.Disabled != test.disabled || got.ID() != d.ID || got.CurrentHash != test.hash {
				t.Errorf("record = %+v, want %s, disabled %v", got, test.state, test.disabled)
			}
			if test.own == nil && (action(e) != "rename" || e.Note != "was github:create_issue" || got.Rev != 0) {
				t.Errorf("audit line %+v, rev %d", e, got.Rev)
			}
		})
	}
}
