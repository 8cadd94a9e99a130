package decide

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The settings of a server that is a program show what runs, and no credential.
func TestSettingsOfCommand(t *testing.T) {
	cfg, err := config.Parse([]byte(`{"mcpServers": {"db": {"command": "uvx", "args": ["mcp-db", "--password", "hunter2", "postgres://me:s3cret@db/x"],
		"env": {"API_KEY": "k3y-in-clear"}, "cwd": "/srv"}}}`))
	require.OK(t, err)
	got := settingsOf(cfg.Servers[0])
	if want := "uvx mcp-db --password [secret] postgres://[secret]@db/x"; got.Command != want || got.Host != "" || got.Cwd != "/srv" || strings.Join(got.Env, " ") != "API_KEY" {
		t.Errorf("settings %+v, want the command %s", got, want)
	}
	all, err := json.Marshal(got)
	require.OK(t, err)
	for _, secret := range []string{"hunter2", "s3cret", "k3y-in-clear"} {
		if strings.Contains(string(all), secret) {
			t.Errorf("%s is shown: %s", secret, all)
		}
	}
}
