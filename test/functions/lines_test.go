package functions_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A subscription filter and the processors of Firehose turn the functions' log lines into rows of
// the audit table: one row for each call and no others.
func (g suite) logsCalls(t *testing.T) {
	w := g.fixture(t)
	w.Sync(t)
	settings := []string{"PORTCULLIS_AUTH", "token", "PORTCULLIS_TOKEN_KEY", "a key that is for tests alone, of 32 bytes and more"}
	mcp, admin := w.Start(t, "mcp", settings...), w.Start(t, "admin", settings...)
	var made struct{ Token string }
	admin.Ask(http.StatusCreated, "/admin/tokens", `{"name":"ci","servers":["*"],"tiers":["read","write"],"days":1}`, &made)
	bearer := "Authorization: Bearer " + made.Token
	var shown struct{ Hash string }
	admin.Ask(http.StatusOK, "/admin/tools/mail/send_mail", nil, &shown)
	admin.Ask(http.StatusOK, "/admin/tools/mail/send_mail/block", `{"hash":"`+shown.Hash+`","note":"not this one"}`, nil)
	for _, c := range []struct{ tool, args string }{
		{"retrieve_tools", `{"query":"search issues"}`},
		{"call_tool_read", `{"name":"github:search_issues","args":{"query":"the words of a person"}}`},
		{"call_tool_destructive", `{"name":"github:delete_repo","args":{"owner":"o","repo":"r"}}`},
		{"call_tool_write", `{"name":"mail:send_mail","args":{"to":"ann"}}`},
	} {
		mcp.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+c.tool+`","arguments":`+c.args+`}}`, bearer)
	}
	record, err := lambdatest.Subscribed(mcp.Output()).Record()
	require.OK(t, err)
	out, err := lambdatest.Unpack(record)
	require.OK(t, err)
	var got []string
	for line := range strings.Lines(string(out)) {
		l, err := lambdatest.Row([]byte(line))
		require.OK(t, err)
		if l.V != audit.Version || l.Time.IsZero() || l.ArgsAsked == "" || strings.Contains(line, "the words of a person") || strings.Contains(line, made.Token) {
			t.Errorf("not an audit line: %s", line)
		}
		got = append(got, strings.Join([]string{l.Kind, l.Agent, l.Tool, l.Decision, l.Status, l.Outcome}, " "))
	}
	want := []string{
		"call token:ci retrieve_tools allowed  ",
		"call token:ci github:search_issues allowed  available",
		"call token:ci github:delete_repo locked disabled_by_config ",
		"call token:ci mail:send_mail locked disabled_by_user ",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
}
