package functions_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
)

// A person approves in one function, and an agent calls in another.
func (g suite) peopleDecide(t *testing.T) {
	w := g.fixture(t)
	w.Sync(t)
	mcp, admin := w.Start(t, "mcp"), w.Start(t, "admin")
	const send = `{"name":"mail:send_mail","args":{"to":"ann"}}`
	if r := mcp.Call("call_tool_write", send); !r.IsError || !strings.Contains(r.Text, "pending_approval") || !strings.Contains(r.Text, "https://gate.example.com/admin/tools/mail/send_mail") {
		t.Fatalf("an unapproved tool answers %+v", r)
	}
	found := func() bool {
		return strings.Contains(mcp.Call("retrieve_tools", `{"query":"send a mail"}`).Text, `"mail:send_mail"`)
	}
	if found() {
		t.Error("a search shows an unapproved tool")
	}
	stranger := admin.Client
	stranger.Admin = token.New().Reveal()
	if r := stranger.Send("/admin/tools/mail/send_mail", ""); r.Status != http.StatusUnauthorized {
		t.Errorf("with another credential: %d %s", r.Status, r.Body)
	}
	shut := w.Start(t, "admin", "PORTCULLIS_BOOTSTRAP_SHA256", "")
	if r := shut.Send("/admin/tools/mail/send_mail", ""); r.Status != http.StatusForbidden {
		t.Errorf("without a bootstrap key: %d %s", r.Status, r.Body)
	}
	var shown struct{ Hash string }
	admin.Ask(http.StatusOK, "/admin/tools/mail/send_mail", nil, &shown)
	admin.Ask(http.StatusOK, "/admin/tools/mail/send_mail/approve", `{"hash":"`+shown.Hash+`"}`, nil)
	if r := mcp.Call("call_tool_write", send); r.IsError || r.Text != "send_mail" {
		t.Errorf("the approved tool answers %+v", r)
	}
	local.Until(t, "a search shows the approved tool", found) // reads every 2 s
	if r := admin.Send("/admin/audit", ""); !strings.Contains(r.Body, `"actor":"bootstrap"`) {
		t.Errorf("the audit does not name the actor: %s", r.Body)
	}
	g.wantEvent(t, admin.Output(), `"action":"approve"`, `"tool":"mail:send_mail"`, `"hash":"`+shown.Hash+`"`)
	// The emulator of this test has no sync function, as if somebody had deleted it.
	started := admin.Send("/admin/sync", "{}")
	w.wantQuiet(t, started.Body)
	if started.Status != http.StatusInternalServerError || !strings.Contains(admin.Output(), "start the sync function") {
		t.Errorf("the answer without a sync function: %d %s", started.Status, started.Body)
	}
}

// A function does not start if it would accept everybody by mistake, or if it has no store. Its log
// names every fault.
func (g suite) startNeedsSettings(t *testing.T) {
	for _, c := range []struct {
		function string
		env      map[string]string
		want     []string
	}{
		{"mcp", map[string]string{"PORTCULLIS_AUTH": "none"}, []string{"PORTCULLIS_BUCKET", "PORTCULLIS_TABLE"}},
		{"sync", map[string]string{"PORTCULLIS_AUTH": "all"}, []string{"PORTCULLIS_AUTH", "all"}},
		{"admin", map[string]string{
			"PORTCULLIS_AUTH": "none", "PORTCULLIS_BUCKET": "b", "PORTCULLIS_TABLE": "t",
			"AWS_ENDPOINT_URL": "http://127.0.0.1:1",
		}, []string{"PORTCULLIS_SYNC_FUNCTION"}},
	} {
		f := lambdatest.Start(t, g.programs+"/"+c.function, c.env)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.Wait(ctx); err == nil || f.Ready() {
			t.Errorf("%s with %v starts", c.function, c.env)
		}
		if lines := lambdatest.Lines(t, f.Output()); len(lines) == 0 || lines[len(lines)-1]["level"] != "ERROR" {
			t.Errorf("%s with %v ends without an ERROR line: %v", c.function, c.env, lines)
		}
		for _, want := range c.want {
			if !strings.Contains(f.Output(), want) {
				t.Errorf("%s with %v does not log %q: %s", c.function, c.env, want, f.Output())
			}
		}
	}
}

// adminSyncs requests a sync from an admin function that has no sync function, as under `sam
// local`. It gives the function the emulator's address, which bypasses the proxy: the role of a
// deployed function has no rights for this.
func (g suite) adminSyncs(t *testing.T) {
	w := g.fixture(t)
	admin := w.Start(t, "admin", "PORTCULLIS_SYNC_FUNCTION", "in-process", "AWS_ENDPOINT_URL", w.Endpoint)
	var report struct{ Tools int }
	if admin.Ask(http.StatusOK, "/admin/sync", "{}", &report); report.Tools != 5 {
		t.Errorf("POST /admin/sync: %d tools, want 5", report.Tools)
	}
}

// callsOfAWS counts the AWS calls of a warm request.
func (g suite) callsOfAWS(t *testing.T) {
	w := g.fixture(t)
	w.Sync(t)
	h := w.open(t)
	h.Call("call_tool_read", searchTool)
	for _, c := range []struct {
		name, args string
		old, fresh map[string]int // 3 s after the last read of the state, and directly after it
	}{
		{"retrieve_tools", search, map[string]int{"dynamodb GetItem": 2, "dynamodb Query": 1}, map[string]int{}},
		{"call_tool_read", searchTool, map[string]int{
			"dynamodb BatchGetItem": 1, "dynamodb GetItem": 1, "dynamodb Query": 1,
		}, map[string]int{"dynamodb BatchGetItem": 1}},
	} {
		h.clock.Wait(3 * time.Second) // a function reads decisions and grants again after 2 s
		for _, want := range []map[string]int{c.old, c.fresh} {
			w.proxy.Calls()
			if r := h.Call(c.name, c.args); r.IsError {
				t.Fatalf("%s: %+v", c.name, r)
			}
			if got := w.proxy.Calls(); !maps.Equal(got, want) {
				t.Errorf("%s makes the calls %v, want %v", c.name, got, want)
			}
		}
	}
}

// wantEvent checks that the log of a function contains an audit event with these members.
func (g suite) wantEvent(t *testing.T, log string, members ...string) {
	t.Helper()
	for line := range strings.Lines(log) {
		missing := slices.ContainsFunc(append(members, `"audit":1`, `"kind":"deed"`), func(m string) bool { return !strings.Contains(line, m) })
		if !missing {
			return
		}
	}
	t.Errorf("no line of the log is an audit event with %q:\n%s", members, log)
}
