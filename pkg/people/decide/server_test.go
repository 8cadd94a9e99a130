package decide_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The settings of a server show no text that may be secret. People write credentials into headers,
// and also into paths and queries of URLs.
func TestServer(t *testing.T) {
	f := newFixture(t)
	f.Serve("fs", `{"name":"read_file"}`)
	f.Put(config.Key, `{"mcpServers": {"fs": {
		"url": "https://fs.example.com:8443/s3cret-path/mcp?key=s3cret-query", "headers": {"Authorization": "Bearer s3cret-header", "X-Team": "${env:TEAM}"},
		"disabled_tools": ["format_*"], "timeout": "5s", "session": "shared", "annotations": {"read_*": {"readOnlyHint": true}}
	}}}`)
	f.Sync()
	got, err := f.service.Server(f.ctx, "fs")
	require.OK(t, err)
	want := decide.Settings{
		Host: "https://fs.example.com:8443", Headers: []string{"Authorization", "X-Team"}, DisabledTools: []string{"format_*"},
		Timeout: "5s", Session: "shared", Annotations: []string{"read_*"},
	}
	if diff := cmp.Diff(want, got.Settings); diff != "" || got.Tools.PendingApproval != 1 || got.Outcome.LoadedAt.IsZero() {
		t.Errorf("%+v (-want +got):\n%s", got, diff)
	}
	if body := f.Send("/admin/servers/fs", "").Body; strings.Contains(body, "s3cret") || !strings.Contains(body, `"host":"https://fs.example.com:8443"`) {
		t.Errorf("a secret is in the answer, or the host is not: %s", body)
	}
	f.ByName["fs"].Outcome = outcome.Outcome{Status: outcome.Transient, Reason: "timeout", Duration: time.Second}
	loaded := got.Outcome.LoadedAt
	f.Sync()
	f.Sync()
	if got, err = f.service.Server(f.ctx, "fs"); err != nil || !got.Outcome.LoadedAt.Equal(loaded) || got.Outcome.Status != "transient" {
		t.Errorf("after two failures: outcome %+v, error %v; want status transient and LoadedAt %v",
			got.Outcome, err, loaded)
	}
	_, err = f.service.Server(f.ctx, "nope")
	if e, ok := errors.AsType[*decide.Error](err); !ok || e.Status != http.StatusNotFound {
		t.Errorf("unknown server: error %v, want status 404", err)
	}
}

func TestConfig(t *testing.T) {
	f := newFixture(t)
	got := f.service.Config(f.ctx)
	want := []decide.Rule{
		{Rule: "mcpServers.fs.disabled_tools[0]", Always: 1, Kind: "tool", Server: "fs", Tools: []string{"fs:format_disk"}},
		{Rule: "policy.cedar:1 no-drafts", Always: 1, Kind: "tool", Server: "mail", Tools: []string{"mail:read_drafts"}},
	}
	if diff := cmp.Diff(want, got.Rules); diff != "" || got.Status != "ok" || len(got.Exposed) != 0 || got.State.Config.Stored != "" {
		t.Errorf("%+v (-want +got):\n%s", got, diff)
	}
	refused := `{"mcpServers": {"fs": {"url": "https://fs.example.com/mcp", "oops": 1}}}`
	f.Put(config.Key, refused)
	f.States.Refresh(t.Context())
	got = admintest.Into[decide.Config](f.Fixture, "/admin/config", "")
	c := got.State.Config
	if c.Version != object.Version([]byte(admintest.Config)) || c.Stored != object.Version([]byte(refused)) || len(c.Faults) != 1 || c.Faults[0].Line != 1 || c.Faults[0].Col == 0 {
		t.Errorf("config = %+v", c)
	}
	if len(got.Rules) != 2 || got.Status != "degraded" || got.Reasons[0].Code != "config_refused" {
		t.Errorf("%+v", got)
	}
	f.Put(config.Key, `{"mcpServers": {"fs": {"url": "https://fs.example.com/mcp"}, "mail": {"url": "https://mail.example.com/mcp"}}}`)
	f.Forbid("")
	f.Sync()
	if got := f.service.Config(f.ctx); len(got.Rules) != 0 || strings.Join(got.Exposed, " ") != "fs mail" || got.State.Config.Stored != "" {
		t.Errorf("without rules: %+v", got)
	}
}
