package lock_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestCounts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		add    []lock.Status
		json   string
		locked int
	}{
		{"zero Counts still encode callable", nil, `{"callable":0}`, 0},
		{"callable alone", []lock.Status{lock.None, lock.None}, `{"callable":2}`, 0},
		{
			"every status, in the order that agents see",
			append(lock.Statuses(), lock.None, lock.PendingApproval),
			`{"callable":1,"disabled_by_config":1,"disabled_by_user":1,"pending_approval":2,"server_disabled":1,"disabled_unknown":1}`,
			6,
		},
		{"an undefined status counts as disabled_unknown", []lock.Status{"other"}, `{"callable":0,"disabled_unknown":1}`, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c lock.Counts
			for _, s := range tc.add {
				c.Add(s)
			}
			b, err := json.Marshal(c)
			require.OK(t, err)
			if string(b) != tc.json {
				t.Errorf("counts = %s, want %s", b, tc.json)
			}
			if got := c.Locked(); got != tc.locked {
				t.Errorf("Locked() = %d, want %d", got, tc.locked)
			}
		})
	}
}

// BenchmarkClassify1000 classifies 1,000 tools with mixed facts; the aim is
// 50 µs an op.
func BenchmarkClassify1000(b *testing.B) {
	var facts []lock.Facts
	for len(facts) < 1000 {
		for _, f := range every() {
			facts = append(facts, f)
		}
	}
	facts = facts[:1000]
	b.ReportAllocs()
	for b.Loop() {
		var c lock.Counts
		for _, f := range facts {
			c.Add(lock.Classify(f))
		}
		if c.Callable+c.Locked() != len(facts) {
			b.Fatal("a tool was not counted")
		}
	}
}

func ExampleClassify() {
	facts := lock.Facts{
		ServerEnabled: lock.Yes,
		Denied:        lock.No,
		UserDisabled:  lock.No,
		Approved:      lock.No,
	}
	status := lock.Classify(facts)
	fmt.Println(status)
	fmt.Println(lock.RemediationOf("tool", status, "https://gate.example.com/admin/tools/github/create_issue"))

	facts.Approved = lock.Yes
	fmt.Println(lock.Classify(facts) == lock.None)
	// Output:
	// pending_approval
	// Tool is disabled and not callable. A person must approve its definition first. Ask the user to approve it, or to have it reviewed: https://gate.example.com/admin/tools/github/create_issue
	// true
}
