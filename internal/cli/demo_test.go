package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The test does the steps of the README's first minute.
func TestDemo(t *testing.T) {
	p := start(t, t.TempDir(), "--demo", "--actor", "kim")

	found := p.Call("retrieve_tools", map[string]any{"query": "assign a ticket to somebody", "include_disabled": true})
	answer := require.JSON[struct {
		Disabled    []struct{ Name, Description, Status string }
		Remediation map[string]string
	}](t, found.Text)
	status := map[string]string{}
	for _, d := range answer.Disabled {
		status[d.Name] = d.Status
		if d.Name == "tickets:assign_ticket" && strings.Contains(d.Description, "e-mail") {
			t.Errorf("a search shows the unapproved description: %q", d.Description)
		}
	}
	if status["tickets:assign_ticket"] != "pending_approval" || status["tickets:comment_on_ticket"] != "disabled_by_user" {
		t.Errorf("statuses = %v", status)
	}
	if !strings.Contains(answer.Remediation["pending_approval"], p.URL+"/admin/tools/tickets/assign_ticket") &&
		!strings.Contains(answer.Remediation["pending_approval"], p.URL+"/admin") {
		t.Errorf("the remediation has no link to the console: %q",
			answer.Remediation["pending_approval"])
	}

	assign := map[string]any{"name": "tickets:assign_ticket", "args": map[string]any{"id": 1, "assignee": "sam"}}
	if blocked := p.Call("call_tool_write", assign); !blocked.IsError || !strings.Contains(blocked.Text, "pending_approval") {
		t.Errorf("the locked tool answered %s", blocked.Raw)
	}
	denied := p.Call("call_tool_destructive", map[string]any{"name": "notes:delete_note", "args": map[string]any{"id": 1}})
	for _, want := range []string{"disabled_by_config", "Notes are records", "records@example.com"} {
		if !denied.IsError || !strings.Contains(denied.Text, want) {
			t.Errorf("the denied tool does not say %q: %s", want, denied.Text)
		}
	}

	var page map[string]any
	p.Ask(http.StatusOK, "/admin/tools/tickets/assign_ticket", nil, &page)
	record := page["record"].(map[string]any)
	p.Ask(http.StatusConflict, "/admin/tools/tickets/assign_ticket/approve", map[string]any{"hash": strings.Repeat("0", 64)}, nil)
	p.Ask(http.StatusOK, "/admin/tools/tickets/assign_ticket/approve", map[string]any{"hash": record["current_hash"]}, nil)
	if done := p.Call("call_tool_write", assign); done.IsError || !strings.Contains(done.Text, `"assignee":"sam"`) {
		t.Errorf("the approved tool answered %s", done.Raw)
	}
	var audit map[string]any
	p.Ask(http.StatusOK, "/admin/audit?server=tickets", nil, &audit)
	if text, _ := json.Marshal(audit); !strings.Contains(string(text), `"actor":"kim"`) {
		t.Errorf("the audit does not name kim, who approved: %s", text)
	}
}

// The demo's simulated decisions need no credentials, even if callers need credentials.
func TestDemoWithTokens(t *testing.T) {
	p := startWith(t, map[string]string{"PORTCULLIS_AUTH": "token", "PORTCULLIS_TOKEN_KEY": "a key that is for tests alone, of 32 bytes and more"}, t.TempDir(), "--demo")
	if log := p.log.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "level=WARN") {
		t.Errorf("log:\n%s", log)
	}
	require.OK(t, p.stop())
	if said := p.out.String(); !strings.Contains(said, "callable") || !strings.Contains(said, "; for an agent that no rule names") {
		t.Errorf("the banner does not say for which agent it counts tools:\n%s", said)
	}
	again := start(t, p.dir, "--demo")
	got := again.Call("call_tool_write", map[string]any{"name": "tickets:comment_on_ticket", "args": map[string]any{"id": 1, "text": "x"}})
	if !strings.Contains(got.Text, "disabled_by_user") {
		t.Errorf("the demo's events are missing: %s", got.Raw)
	}
}

func TestDemoStartsAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my gate")
	first := start(t, dir, "--demo")
	if err := first.stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if said := first.out.String(); !strings.Contains(said, " open --dir '"+dir+"',") {
		t.Errorf("the commands are not for a shell:\n%s", said)
	}
	second := start(t, dir, "--demo")
	got := second.Call("call_tool_write", map[string]any{"name": "tickets:comment_on_ticket", "args": map[string]any{"id": 1, "text": "x"}})
	if !got.IsError || !strings.Contains(got.Text, "disabled_by_user") {
		t.Errorf("a decision was lost at a restart: %s", got.Raw)
	}
	got = second.Call("call_tool_read", map[string]any{"name": "notes:get_note", "args": map[string]any{"id": 1}})
	if got.IsError {
		t.Errorf("a callable tool fails after a restart: %s", got.Raw)
	}
}

func TestFlagsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no folder", []string{"serve"}, "there is no gateway in"},
		{"no command", nil, `expected one of "serve"`},
		{"stray argument", []string{"serve", "--dir", "x", "now"}, "unexpected argument now"},
		{"no actor", []string{"serve", "--dir", "x", "--actor", ""}, "--actor is empty"},
		{"address", []string{"serve", "--dir", "x", "--addr", "nonsense"}, `--addr "nonsense"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := run(t.Context(), c.args, &environment{getenv: noEnv, stdout: &local.Buffer{}, stderr: &local.Buffer{}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("run = %v, want %q", err, c.want)
			}
		})
	}
}

func TestServeOnATakenPort(t *testing.T) {
	other := httptest.NewServer(nil)
	defer other.Close()
	err := run(t.Context(), []string{"serve", "--dir", t.TempDir(), "--addr", other.Listener.Addr().String()}, &environment{getenv: noEnv, stdout: &local.Buffer{}, stderr: &local.Buffer{}})
	if err == nil || !strings.Contains(err.Error(), "nothing was started") {
		t.Errorf("run = %v, want an error that says that nothing was started", err)
	}
}

func TestServeBeyondLoopbackNeedsAuth(t *testing.T) {
	err := run(t.Context(), []string{"serve", "--dir", t.TempDir(), "--addr", "[::]:0"}, &environment{getenv: noEnv, stdout: &local.Buffer{}, stderr: &local.Buffer{}})
	if err == nil || !strings.Contains(err.Error(), "PORTCULLIS_AUTH") {
		t.Errorf("run = %v, want an error about PORTCULLIS_AUTH", err)
	}
}
