package decide_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Each endpoint is in the config, and its guide names the servers of the endpoint.
func TestGuideOfEndpoints(t *testing.T) {
	d := admintest.New(t)
	d.Put(config.Key, `{"mcpServers": {"fs": {"url": "https://fs.example.com/mcp"}, "mail": {"url": "https://mail.example.com/mcp"}, "old": {"url": "https://old.example.com/mcp", "enabled": false}},
		"toolsets": {"triage": ["mail:send"]}}`)
	d.Sync()
	service := d.Console.Service
	gate := &connect.Gateway{BaseURL: "https://gate.example.com", Auths: []connect.Auth{connect.OAuth, connect.Bearer}}
	want := []string{"/mcp", "/mcp/readonly", "/mcp/x/triage", "/mcp/x/fs", "/mcp/x/mail"}
	if diff := cmp.Diff(want, service.Endpoints(t.Context())); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
	for path, servers := range map[string][]string{
		"": {"fs", "mail"}, "/mcp/x/triage": {"mail"}, "/mcp/x/fs": {"fs"},
	} {
		g, err := service.Guide(t.Context(), gate, "codex", path, "")
		require.OK(t, err)
		if diff := cmp.Diff(servers, g.Servers); diff != "" || g.Auth != connect.OAuth || g.URL != gate.BaseURL+g.Path {
			t.Errorf("%q: %+v\n%s", path, g, diff)
		}
	}
	for name, tt := range map[string]struct {
		gate         *connect.Gateway
		client, path string
		by           connect.Auth
		status       int
	}{
		"no such client":   {gate, "emacs", "", "", http.StatusNotFound},
		"no such toolset":  {gate, "codex", "/mcp/x/none", "", http.StatusUnprocessableEntity},
		"no such path":     {gate, "codex", "@evil.example.com/mcp", "", http.StatusUnprocessableEntity},
		"another host":     {gate, "codex", "//evil.example.com", "", http.StatusUnprocessableEntity},
		"a longer host":    {gate, "codex", ".evil.example.com", "", http.StatusUnprocessableEntity},
		"no such auth":     {gate, "codex", "", connect.None, http.StatusUnprocessableEntity},
		"no known address": {&connect.Gateway{Auths: gate.Auths}, "codex", "", "", http.StatusServiceUnavailable},
	} {
		_, err := service.Guide(t.Context(), tt.gate, tt.client, tt.path, tt.by)
		if e, ok := errors.AsType[*decide.Error](err); !ok || e.Status != tt.status {
			t.Errorf("%s: %v, want %d", name, err, tt.status)
		}
	}
}
