package admin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestDecideWithoutABody(t *testing.T) {
	h := newFixture(t)
	header := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	if w := h.Do(http.MethodPost, "/admin/tools/fs/read_file/disable", "", header); w.Status != http.StatusOK {
		t.Errorf("POST without a body = %d %s", w.Status, w.Body)
	}
}

func TestDecideDenied(t *testing.T) {
	h := newFixture(t)
	for path, rule := range map[string]string{
		"fs/format_disk":   ": mcpServers.fs.disabled_tools[0]. Only the operator",
		"mail/read_drafts": " no-drafts: Drafts are private. (rule no-drafts, contact #mail-owners). Only",
	} {
		hash := h.Hash(path)
		for action, body := range map[string]string{"approve": approveBody(hash), "unblock": approveBody(hash), "enable": "{}"} {
			if got := h.Problem(http.StatusConflict, "/admin/tools/"+path+"/"+action, body); !strings.Contains(got, rule) {
				t.Errorf("%s %s: %q", action, path, got)
			}
		}
		// The API never refuses to lock a locked tool.
		if got := admintest.Into[decide.Tool](h.Fixture, "/admin/tools/"+path+"/disable", "{}"); got.Status != "disabled_by_config" || !got.Record.Disabled {
			t.Errorf("disable %s = %+v", path, got)
		}
	}
}

func TestToolUnknownVerdict(t *testing.T) {
	h := newFixture(t)
	h.Put(policy.Key, "forbid (")
	h.Put(catalog.PolicyFile.LastGood, "") // no version was ever in use
	h.Restart()
	h.Open()
	got := admintest.Into[decide.Tool](h.Fixture, "/admin/tools/mail/send", "")
	if got.Status != "disabled_unknown" || got.Denial == nil || !got.Denial.Unknown {
		t.Errorf("tool = %+v", got)
	}
}

func TestSync(t *testing.T) {
	h := newFixture(t)
	h.ByName["fs"].Tools = append(h.ByName["fs"].Tools, `{"name":"write_file"}`)
	h.ByName["mail"].Outcome = outcome.Outcome{Status: outcome.Transient, Reason: "timeout"}
	got := admintest.Into[decide.SyncReport](h.Fixture, "/admin/sync", "{}")
	if got.New != 1 || got.Tools != 5 || !got.Stored || len(got.Servers) != 3 || got.Config != object.Version([]byte(admintest.Config)) {
		t.Errorf("report = %+v", got)
	}
	if mail := got.Servers[1]; !mail.Kept || mail.Outcome.Status != "transient" || mail.Outcome.Message == "" {
		t.Errorf("mail = %+v", mail)
	}
	if s := h.Status("fs:write_file"); s != lock.PendingApproval {
		t.Errorf("status = %q", s)
	}
}

func TestSyncWithoutAConfig(t *testing.T) {
	h := newFixture(t)
	h.Put(config.Key, `{"oops":1}`)
	h.Put(catalog.ConfigFile.LastGood, `{"oops":1}`)
	h.Restart()
	h.Open()
	w := h.Send("/admin/sync", "{}")
	if w.Status != http.StatusServiceUnavailable || !strings.Contains(w.Body, "oops") {
		t.Errorf("sync = %d %s", w.Status, w.Body)
	}
}

func TestDecideWithoutARecord(t *testing.T) {
	h := newFixture(t)
	d, err := tool.ParseItem(tool.Tool, []byte(`{"name":"made"}`))
	require.OK(t, err)
	snap, err := catalog.Build(catalog.Input{Servers: []catalog.ServerInput{{Name: "mail", Enabled: true, Tools: []catalog.ToolInput{{Definition: d}}}}})
	if err == nil {
		_, err = catalog.Save(t.Context(), h.Objects, snap, catalog.Current{StartedAt: h.Clock.Now()}, "")
	}
	require.OK(t, err)
	h.States.Refresh(t.Context())
	if got := h.Problem(http.StatusConflict, "/admin/tools/mail/made/disable", "{}"); !strings.Contains(got, "sync") {
		t.Errorf("detail = %q", got)
	}
	if got := admintest.Into[decide.Tool](h.Fixture, "/admin/tools/mail/made", ""); got.Record != nil || got.Status != "pending_approval" {
		t.Errorf("tool = %+v", got)
	}
}

// After each action of a person, the answer of the API has the tool's new state.
func TestVerbs(t *testing.T) {
	h := newFixture(t)
	hash := h.Hash("mail/send")
	verb := func(action, body string) decide.Tool {
		t.Helper()
		return admintest.Into[decide.Tool](h.Fixture, "/admin/tools/mail/send/"+action, body)
	}
	seen := fmt.Sprintf(`{"hash":%q,"note":"mails strangers","tell":true}`, hash)
	got := verb("block", seen)
	want := []decide.Verdict{{Hash: hash, Verdict: "blocked", By: "ann", At: got.Record.At, Note: "mails strangers"}}
	if diff := cmp.Diff(want, got.Record.Verdicts); diff != "" || got.Status != "disabled_by_user" || got.Record.State != "blocked" || !got.Record.Tell {
		t.Errorf("blocked = %+v (-want +got):\n%s", got, diff)
	}
	if until := got.Record.At.Add(approval.UndoTime); !got.Record.UndoUntil.Equal(until) {
		t.Errorf("undo until %v, want %v", got.Record.UndoUntil, until)
	}
	if diff := cmp.Diff([]string{"approve", "unblock", "disable", "undo"}, got.Actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if got := verb("unblock", seen); got.Status != "pending_approval" || len(got.Record.Verdicts) != 0 {
		t.Errorf("unblocked = %+v", got)
	}
	h.Problem(http.StatusConflict, "/admin/tools/mail/send/unblock", seen)
	approved := verb("approve", seen)
	if approved.Status != "callable" || approved.Record.Endorsed == nil || approved.Record.Endorsed.Hash != hash {
		t.Errorf("approved = %+v", approved.Record)
	}
	undone := verb("undo", fmt.Sprintf(`{"rev":%d}`, approved.Record.Rev))
	if undone.Status != "pending_approval" || undone.Record.Endorsed != nil || !undone.Record.UndoUntil.IsZero() {
		t.Errorf("undone = %+v", undone.Record)
	}
	h.Problem(http.StatusConflict, "/admin/tools/mail/send/undo", fmt.Sprintf(`{"rev":%d}`, undone.Record.Rev))
	h.Problem(http.StatusConflict, "/admin/tools/mail/send/disable", fmt.Sprintf(`{"hash":%q}`, strings.Repeat("0", 64)))
	if diff := cmp.Diff([]string{"approve", "block", "disable"}, undone.Actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}
