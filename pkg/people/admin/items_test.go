package admin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Prompts and resources have the operations of tools, at the addresses in the list.
func TestItems(t *testing.T) {
	d := admintest.New(t)
	mail := d.Server("mail")
	mail.Prompts = []string{`{"name":"reply","description":"Answers a mail."}`}
	mail.Resources = []string{`{"uri":"mail://inbox?all=1#x","name":"Inbox"}`}
	d.Sync()
	page := admintest.Into[decide.Page](d, "/admin/tools?status=pending_approval&server=mail", "")
	if page.Total != 3 {
		t.Fatalf("%d items wait, want 3: %+v", page.Total, page.Tools)
	}
	for _, kind := range []string{"prompt", "resource"} {
		t.Run(kind, func(t *testing.T) {
			rows := admintest.Into[decide.Page](d, "/admin/tools?kind="+kind, "").Tools
			if len(rows) != 1 || rows[0].Kind != kind || !strings.HasPrefix(rows[0].Address, "/admin/"+kind+"s/mail/") {
				t.Fatalf("rows %+v", rows)
			}
			row := rows[0]
			got := admintest.Into[decide.Tool](d, row.Address, "")
			if got.ItemName != row.ItemName || got.Hash != row.Hash || !strings.Contains(got.Remediation, row.Address) {
				t.Errorf("item %+v, row %+v", got, row)
			}
			approved := admintest.Into[decide.Tool](d, row.Address+"/approve", fmt.Sprintf(`{"hash":%q,"rev":%d}`, row.Hash, row.Rev))
			undone := admintest.Into[decide.Tool](d, row.Address+"/undo", fmt.Sprintf(`{"rev":%d}`, approved.Record.Rev))
			disabled := admintest.Into[decide.Tool](d, row.Address+"/disable", `{}`)
			enabled := admintest.Into[decide.Tool](d, row.Address+"/enable", `{}`)
			blocked := admintest.Into[decide.Tool](d, row.Address+"/block", fmt.Sprintf(`{"hash":%q}`, row.Hash))
			unblocked := admintest.Into[decide.Tool](d, row.Address+"/unblock", fmt.Sprintf(`{"hash":%q}`, row.Hash))
			var statuses []string
			for _, x := range []decide.Tool{approved, undone, disabled, enabled, blocked, unblocked} {
				statuses = append(statuses, x.Status)
			}
			if got := strings.Join(statuses, " "); got != "callable pending_approval disabled_by_user pending_approval disabled_by_user pending_approval" {
				t.Errorf("statuses: %s", got)
			}
			h := admintest.Into[decide.History](d, row.Address+"/history", "")
			if h.ID != row.ID || len(h.Events) != 7 {
				t.Errorf("history: %+v", h)
			}
			if detail := d.Problem(http.StatusNotFound, "/admin/"+kind+"s/mail/none", ""); !strings.Contains(detail, "no "+kind) {
				t.Errorf("an unknown item: %s", detail)
			}
		})
	}
	t.Run("together", func(t *testing.T) {
		items := []string{fmt.Sprintf(`{"id":"nope:nope","hash":%q}`, d.Hash("mail/send"))}
		for _, row := range admintest.Into[decide.Page](d, "/admin/tools?status=pending_approval&server=mail", "").Tools {
			items = append(items, fmt.Sprintf(`{"id":%q,"hash":%q,"rev":%d}`, row.ID, row.Hash, row.Rev))
		}
		out := admintest.Into[struct {
			Done  int
			Tools []struct{ ID, Result, Status string }
		}](d, "/admin/tools", `{"action":"approve","items":[`+strings.Join(items, ",")+`]}`)
		if out.Done != 3 || len(out.Tools) != 4 || out.Tools[0].Result != "refused" || out.Tools[1].Result != "done" || out.Tools[1].Status != "callable" {
			t.Errorf("%+v", out)
		}
	})
	t.Run("a record that no server lists", func(t *testing.T) {
		mail.Resources = nil
		d.Sync()
		id, err := tool.ParseID("mail:resource:mail://inbox?all=1#x")
		require.OK(t, err)
		if got := admintest.Into[decide.Tool](d, "/admin/resources/mail/"+id.Sum(), ""); got.Status != "not_listed" || got.ID != id.String() {
			t.Errorf("%+v", got)
		}
	})
}
