package admin_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

// A tool whose definition is nested too deeply waits for an approval that nobody can give, and the
// answers say why. All other actions work.
func TestNestedDefinition(t *testing.T) {
	h := newFixture(t)
	const address = "/admin/tools/fs/read_file"
	h.Serve("fs", `{"name":"read_file","x":`+strings.Repeat("[", 9_400)+strings.Repeat("]", 9_400)+`}`)
	h.Sync()
	item := admintest.Into[decide.Tool](h.Fixture, address, "")
	if item.Status != string(lock.PendingApproval) || item.Record.State != approval.Changed || item.Approved == nil {
		t.Errorf("the tool is %s, its record %s", item.Status, item.Record.State)
	}
	if slices.Contains(item.Actions, approval.ActionApprove) || !slices.Contains(item.Actions, approval.ActionBlock) {
		t.Errorf("the possible actions are %v", item.Actions)
	}
	if len(item.Findings) == 0 || item.Findings[0].Code != "nested" || !item.Findings[0].Severe {
		t.Errorf("the findings are %+v", item.Findings)
	}
	for _, body := range []string{approveBody(item.Hash), `{"hash":"` + string(item.Hash) + `"}`} {
		if got := h.Problem(http.StatusConflict, address+"/approve", body); !strings.Contains(got, "nothing was decided: this definition is nested too deeply, and nobody can approve it") {
			t.Errorf("the answer to approve is %s", got)
		}
	}
	if a := h.Send(address+"/block", approveBody(item.Hash)); a.Status != http.StatusOK {
		t.Errorf("the answer to block is %d %s", a.Status, a.Body)
	}
	logged := func() int {
		return strings.Count(h.Log.String(), "nested too deeply: it has 9401 levels, at most 200 are allowed")
	}
	if got := h.Log.String(); logged() != 1 || !strings.Contains(got, `msg="definitions refused" server=fs refused=1`) || !strings.Contains(got, "read_file") {
		t.Errorf("the log is %.2000s", got)
	}
	if h.Sync(); logged() != 1 {
		t.Error("the log repeats the refusal")
	}
	servers := h.Send("/admin/servers", "").Body
	if !strings.Contains(servers, `nested too deeply: it has 9401 levels, at most 200 are allowed`) {
		t.Errorf("the list of servers is %s", servers)
	}
}
