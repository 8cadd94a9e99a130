package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
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

// docs/decisions.md names every code.
func TestDocsHaveTheCodes(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/decisions.md")
	require.OK(t, err)
	for _, c := range decide.Codes() {
		if !strings.Contains(string(docs), "`"+string(c)+"`") {
			t.Errorf("docs/decisions.md does not describe the code %s", c)
		}
	}
}
