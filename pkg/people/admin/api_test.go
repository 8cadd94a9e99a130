package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// errStore has a text that no caller may see.
var errStore = errors.New("arn:aws:dynamodb:eu-west-1:123456789012:table/secret")

func TestOpenAPI(t *testing.T) {
	h := newFixture(t)
	got := h.Send("/admin/openapi.json", "").Body
	golden.JSON(t, "testdata/openapi.json", got)
	if !strings.Contains(got, `"openapi":"3.1.0"`) {
		t.Error("the document is not OpenAPI 3.1")
	}
}

func TestServers(t *testing.T) {
	h := newFixture(t)
	checked := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	h.ByName["fs"].Outcome.CheckedAt = checked
	h.ByName["mail"].Outcome = outcome.Outcome{
		CheckedAt: checked, Status: outcome.Denied, Reason: "forbidden", HTTPStatus: 403, Error: "403 from the mail host", RetryAfter: time.Second,
	}
	h.ByName["fs"].Tools = append(h.ByName["fs"].Tools, `{"name":"no good"}`, `{"name":"new_one"}`)
	h.Sync()
	got := admintest.Into[struct{ Servers []decide.Server }](h.Fixture, "/admin/servers", "").Servers
	want := []decide.Server{
		{
			Name: "fs", Enabled: true, Approval: "on_change",
			Outcome: decide.Outcome{
				Status: "available", HTTPStatus: 200, Attempts: 1, DurationMS: 15, CheckedAt: checked,
				LoadedAt: checked, Refused: got[0].Outcome.Refused,
			},
			Tools: lock.Counts{Callable: 1, DisabledByConfig: 1, PendingApproval: 1},
		},
		{
			Name: "mail", Enabled: true, Approval: "manual",
			Outcome: decide.Outcome{
				Status: "denied", Reason: "forbidden", HTTPStatus: 403, Error: "403 from the mail host", RetryAfterMS: 1000,
				Message:  "Access to MCP server 'mail' was denied. Retrying will not help; contact its owner.",
				Attempts: 1, DurationMS: 15, CheckedAt: checked, LoadedAt: got[1].Outcome.LoadedAt,
			},
			Tools: lock.Counts{DisabledByConfig: 1, PendingApproval: 1},
		},
		{Name: "old", Approval: "on_change", Outcome: decide.Outcome{Status: "unknown"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if loaded := got[1].Outcome.LoadedAt; loaded.IsZero() || loaded.Equal(checked) {
		t.Errorf("LoadedAt of a server that no longer loads is %v", loaded)
	}
	if len(got[0].Outcome.Refused) != 1 || !strings.Contains(got[0].Outcome.Refused[0].Name, "no good") {
		t.Errorf("refused = %+v", got[0].Outcome.Refused)
	}
}

func TestTool(t *testing.T) {
	h := newFixture(t)
	got := admintest.Into[decide.Tool](h.Fixture, "/admin/tools/mail/send", "")
	link := "https://gate.example.com/admin/tools/mail/send"
	if got.Status != "pending_approval" || !strings.Contains(got.Remediation, link) || got.Record.State != "pending" || got.Denial != nil {
		t.Errorf("tool that waits = %+v", got)
	}
	if string(got.Definition) != `{"name":"send","x":9007199254740993}` || got.Hash != got.Record.CurrentHash || got.Approved != nil {
		t.Errorf("definition %s, hash %s", got.Definition, got.Hash)
	}

	denied := admintest.Into[decide.Tool](h.Fixture, "/admin/tools/mail/read_drafts", "")
	want := &decide.Denial{Denial: policy.Denial{ID: "no-drafts", Reason: "Drafts are private.", Contact: "#mail-owners"}, Rules: denied.Denial.Rules}
	if diff := cmp.Diff(want, denied.Denial); diff != "" || denied.Status != "disabled_by_config" || strings.Contains(denied.Remediation, link) {
		t.Errorf("denied tool = %+v", denied)
	}
	open := admintest.Into[decide.Tool](h.Fixture, "/admin/tools/fs/read_file", "")
	if open.Status != "callable" || open.Remediation != "" || open.Record.By != "sync" || open.Tier != tool.Read || open.Signature != "(path?:string)" {
		t.Errorf("open tool = %+v", open)
	}
	for _, path := range []string{"fs/nope", "nope/read_file", "fs:read_file/x"} {
		h.Problem(http.StatusNotFound, "/admin/tools/"+path, "")
	}
}

func TestFailures(t *testing.T) {
	h := newFixture(t)
	h.Approvals.OnGet = func(context.Context, tool.ID) error { return errStore }
	h.Approvals.OnAudit = func(context.Context, string) error { return errStore }
	h.Deeds.OnRead = func() error { return errStore } // if any part is readable, the answer has it
	hash := strings.Repeat("0", 64)
	for path, body := range map[string]string{
		"/admin/tools/mail/send":         "",
		"/admin/tools/mail/send/approve": approveBody(tool.Hash(hash)),
		"/admin/tools/mail/send/disable": "{}",
		"/admin/audit":                   "",
	} {
		if got := h.Problem(http.StatusInternalServerError, path, body); strings.Contains(got, "arn:") {
			t.Errorf("%s reveals the cause: %q", path, got)
		}
		if !strings.Contains(h.Log.String(), "arn:") {
			t.Errorf("%s does not log the cause", path)
		}
		h.Log.Reset()
	}
	got := admintest.Into[struct{ Tools []admin.BulkResult }](h.Fixture, "/admin/tools", fmt.Sprintf(`{"action":"approve","items":[{"id":"mail:send","hash":%q}]}`, hash)).Tools
	if len(got) != 1 || got[0].Result != "failed" || strings.Contains(got[0].Detail, "arn:") {
		t.Errorf("bulk approval = %+v", got)
	}
}

func TestBodies(t *testing.T) {
	h := newFixture(t)
	hash := strings.Repeat("a", 64)
	for name, tc := range map[string]struct {
		path, body string
		status     int
	}{
		"no hash":        {"/admin/tools/mail/send/approve", `{}`, http.StatusUnprocessableEntity},
		"unknown field":  {"/admin/tools/mail/send/approve", `{"hash":"` + hash + `","force":true}`, http.StatusUnprocessableEntity},
		"long note":      {"/admin/tools/mail/send/disable", `{"note":"` + strings.Repeat("x", 5000) + `"}`, http.StatusUnprocessableEntity},
		"not an object":  {"/admin/tools/mail/send/disable", `[]`, http.StatusUnprocessableEntity},
		"no JSON":        {"/admin/tools/mail/send/disable", `{`, http.StatusBadRequest},
		"empty bulk":     {"/admin/tools", `{"action":"approve","items":[]}`, http.StatusUnprocessableEntity},
		"no id":          {"/admin/tools", `{"action":"approve","items":[{"id":"send","hash":"` + hash + `"}]}`, http.StatusUnprocessableEntity},
		"unknown tool":   {"/admin/tools/mail/nope/disable", `{}`, http.StatusNotFound},
		"no such action": {"/admin/tools/mail/send/open", `{}`, http.StatusNotFound},
		"limit 0":        {"/admin/audit?limit=0", "", http.StatusUnprocessableEntity},
		"nothing there":  {"/admin/nope", "", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) { h.Problem(tc.status, tc.path, tc.body) })
	}
	if r, err := h.Approvals.Get(t.Context(), tool.ID{Server: "mail", Name: "send"}); err != nil || r.Rev != 1 || r.State != approval.Pending {
		t.Errorf("record = %+v, %v; want it untouched", r, err)
	}
}

// docs/deciding.md names every code.
func TestDocsHaveTheCodes(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/deciding.md")
	require.OK(t, err)
	for _, c := range decide.Codes() {
		if !strings.Contains(string(docs), "`"+string(c)+"`") {
			t.Errorf("docs/deciding.md does not describe the code %s", c)
		}
	}
}
