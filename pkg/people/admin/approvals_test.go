package admin_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

// setBack returns a fixture whose store was replaced by an older copy.
func setBack(t *testing.T) *fixture {
	t.Helper()
	h := newFixture(t)
	h.RestoreOldStore()
	return h
}

// A decision about a tool whose record the store lost applies to the catalog's version of the
// record.
func TestDecideLostRecord(t *testing.T) {
	h := setBack(t)
	if x := admintest.Into[decide.Tool](h.Fixture, "/admin/tools/fs/read_file", ""); x.Status != "disabled_by_user" {
		t.Errorf("before a sync: %s, want the status from the catalog", x.Status)
	}
	x := admintest.Into[decide.Tool](h.Fixture, "/admin/tools/fs/read_file/disable", `{}`)
	if x.Status != "disabled_by_user" || !x.Record.Disabled {
		t.Errorf("after a decision: %s: %+v", x.Status, x.Record)
	}
	lines, err := h.Approvals.Audit(t.Context(), "fs", approval.Cursor{}, 2)
	if err != nil || len(lines) != 2 || lines[0].Action != approval.ActionDisable || lines[1].Action != approval.ActionRecover {
		t.Errorf("audit = %+v, %v", lines, err)
	}
	if x := admintest.Into[decide.Tool](h.Fixture, "/admin/tools/fs/read_file/enable", `{}`); x.Status != "callable" {
		t.Errorf("after a person enabled the tool: %s", x.Status)
	}
}

func TestSettle(t *testing.T) {
	for action, want := range map[string]string{"restore": "disabled_by_user", "accept": "callable"} {
		t.Run(action, func(t *testing.T) {
			h := setBack(t)
			out := admintest.Into[decide.Reconciliation](h.Fixture, "/admin/approvals/"+action, `{}`)
			if out.Count != 1 || len(out.Tools) != 1 || out.Tools[0].ID != "fs:read_file" || out.Tools[0].Disabled != (action == "restore") {
				t.Errorf("answer = %+v", out)
			}
			x := admintest.Into[decide.Tool](h.Fixture, "/admin/tools/fs/read_file", "")
			if x.Status != want || x.Record.Lost != nil || x.Record.By != "ann" {
				t.Errorf("the status is %s: %+v", x.Status, x.Record)
			}
			if again := admintest.Into[decide.Reconciliation](h.Fixture, "/admin/approvals/"+action, `{}`); again.Count != 0 {
				t.Errorf("a second call settled %+v", again)
			}
		})
	}
}
