package boot

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Every request gets the same answer, which contains only the condition: one word.
func TestHealthz(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		syncs        bool
		fault        error
		status       int
		body         string
	}{
		{"nothing stored", "", false, nil, 503, `{"status":"failing"}`},
		{"the stores fail", `{"mcpServers": {}}`, true, errors.New("arn:aws:s3:::bucket"), 503, `{"status":"failing"}`},
		{"no sync has succeeded", `{"mcpServers": {}}`, false, nil, 503, `{"status":"failing"}`},
		{"no server", `{"mcpServers": {}}`, true, nil, 200, `{"status":"degraded"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := &objecttest.Mem{}
			if tt.config != "" {
				if _, err := objects.Put(t.Context(), config.Key, []byte(tt.config), ""); err != nil {
					t.Fatal(err)
				}
			}
			stores := Stores{Objects: objects, Approvals: &approvaltest.Mem{}}
			settings := Settings{Access: Access{Ways: []string{"none"}}}
			if tt.syncs {
				if _, err := New(settings, stores, Options{}).Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			objects.OnGet = func(context.Context, string) error { return tt.fault }
			handler, err := New(settings, stores, Options{}).Public()
			require.OK(t, err)
			for _, credential := range []string{"", "Bearer x", "Basic eA=="} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz?verbose=1", nil)
				r.Header.Set("Authorization", credential)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != tt.status || w.Body.String() != tt.body || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
					t.Errorf("%q: %d %q %v, want %d %q", credential, w.Code, w.Body, w.Header(), tt.status, tt.body)
				}
			}
		})
	}
}
