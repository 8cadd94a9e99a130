package cli

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The demo has a tool in each state, and agents get the reason of each lock.
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

	var one struct{ Hash string }
	p.Ask(http.StatusOK, "/admin/tools/tickets/assign_ticket", nil, &one)
	p.Ask(http.StatusOK, "/admin/tools/tickets/assign_ticket/approve", map[string]any{"hash": one.Hash}, nil)
	p.Ask(http.StatusOK, "/admin/tools/tickets/comment_on_ticket/enable", `{}`, nil)
	for _, c := range []struct {
		variant, name string
		args          map[string]any
		want          string
	}{
		{"call_tool_write", "tickets:assign_ticket", map[string]any{"id": 1, "assignee": "kim"}, "kim"},
		{"call_tool_write", "tickets:comment_on_ticket", map[string]any{"id": 1, "text": "oil"}, "oil"},
		{"call_tool_read", "tickets:list_tickets", map[string]any{}, "oil"},
		{"call_tool_write", "notes:create_note", map[string]any{"title": "Bell", "text": "dong"}, "dong"},
		{"call_tool_read", "notes:search_notes", map[string]any{"word": "bell"}, "dong"},
		{"call_tool_read", "notes:get_note", map[string]any{"id": 1}, "sunrise"},
	} {
		got := p.Call(c.variant, map[string]any{"name": c.name, "args": c.args})
		if got.IsError || !strings.Contains(got.Text, c.want) {
			t.Errorf("%s answers %s, want %q", c.name, got.Raw, c.want)
		}
	}
}

// The demo's simulated decisions need no credentials, even if callers need credentials.
func TestDemoWithTokens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my gate")
	env := map[string]string{
		"PORTCULLIS_AUTH": "token", "PORTCULLIS_TOKEN_KEY": "a key of 32 bytes and more, for tests",
	}
	p := startWith(t, env, dir, "--demo")
	if log := p.log.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "level=WARN") {
		t.Errorf("log:\n%s", log)
	}
	require.OK(t, p.stop())
	if said := p.out.String(); !strings.Contains(said, "callable") || !strings.Contains(said, "; for an agent that no rule names") {
		t.Errorf("the banner does not say for which agent it counts tools:\n%s", said)
	} else if !strings.Contains(said, " open --dir '"+dir+"',") {
		t.Errorf("the commands are not for a shell:\n%s", said)
	}
	again := start(t, p.dir, "--demo")
	got := again.Call("call_tool_write", map[string]any{"name": "tickets:comment_on_ticket", "args": map[string]any{"id": 1, "text": "x"}})
	if !strings.Contains(got.Text, "disabled_by_user") {
		t.Errorf("the demo's events are missing: %s", got.Raw)
	}
}

func TestFlagsRefused(t *testing.T) {
	other := httptest.NewServer(nil)
	defer other.Close()
	dir, taken := t.TempDir(), other.Listener.Addr().String()
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no folder", []string{"serve"}, "there is no gateway in"},
		{"no command", []string{"--dir", "x"}, `expected one of "serve"`},
		{"stray argument", []string{"serve", "--dir", "x", "now"}, "unexpected argument now"},
		{"no actor", []string{"serve", "--dir", "x", "--actor", ""}, "--actor is empty"},
		{"address", []string{"serve", "--dir", "x", "--addr", "nonsense"}, `--addr "nonsense"`},
		{"taken port", []string{"serve", "--dir", dir, "--addr", taken}, "nothing was started"},
		{"all addresses", []string{"serve", "--dir", dir, "--addr", "[::]:0"}, "PORTCULLIS_AUTH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := run(t.Context(), c.args, &environment{getenv: noEnv, stdout: &local.Buffer{}, stderr: &local.Buffer{}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("run = %v, want %q", err, c.want)
			}
		})
	}
}
