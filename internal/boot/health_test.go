package boot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A process that works is alive. It is ready once it has a catalog, until it drains. While its
// first sync runs, it is not failing.
func TestReadiness(t *testing.T) {
	objects, ending := &objecttest.Mem{}, make(chan struct{})
	_, err := objects.Put(t.Context(), config.Key, []byte(`{"mcpServers": {}}`), "")
	require.OK(t, err)
	p := New(
		Settings{Access: Access{Ways: []string{"none"}}},
		Stores{Objects: objects, Approvals: &approvaltest.Mem{}},
		Options{Front: Local(), Ending: ending, Syncs: true},
	)
	h, err := p.Public()
	require.OK(t, err)
	check := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, path := range []string{HealthPath, LivePath, ReadyPath} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			got = append(got, fmt.Sprint(w.Code, " ", w.Body))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	const degraded, alive = `200 {"status":"degraded"}`, `200 {"status":"alive"}`
	check("during the first sync", degraded, alive, `503 {"status":"not_ready"}`)
	_, err = p.Sync(t.Context())
	require.OK(t, err)
	check("after the first sync", degraded, alive, `200 {"status":"ready"}`)
	objects.OnGet = func(context.Context, string) error { return errors.New("down") }
	p.States.Refresh(t.Context())
	check("with an old catalog", degraded, alive, `200 {"status":"ready"}`)
	close(ending)
	check("while it drains", degraded, alive, `503 {"status":"draining"}`)
}

// After the first sync has failed, a gateway without a catalog is failing.
func TestFirstSyncFails(t *testing.T) {
	objects := &objecttest.Mem{}
	_, err := objects.Put(
		t.Context(),
		config.Key,
		[]byte(`{"mcpServers": {"s": {"url": "http://127.0.0.1:1/mcp", "required": true}}}`),
		"",
	)
	require.OK(t, err)
	p := New(
		Settings{},
		Stores{Objects: objects, Approvals: &approvaltest.Mem{}},
		Options{Syncs: true},
	)
	if got := p.States.Load(t.Context()).Health.Condition(); got != state.Degraded {
		t.Errorf("before the sync: %s", got)
	}
	if _, err = p.Sync(t.Context()); err == nil {
		t.Error("the sync succeeded without its required server")
	}
	if got := p.States.Load(t.Context()).Health.Condition(); got != state.Failing {
		t.Errorf("after the sync: %s", got)
	}
}

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
				r := httptest.NewRequestWithContext(
					t.Context(),
					http.MethodGet,
					"/healthz?verbose=1",
					nil,
				)
				r.Header.Set("Authorization", credential)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != tt.status || w.Body.String() != tt.body ||
					w.Header().Get("Content-Type") != "application/json" ||
					w.Header().Get("Cache-Control") != "no-store" {
					t.Errorf(
						"%q: %d %q %v, want %d %q",
						credential,
						w.Code,
						w.Body,
						w.Header(),
						tt.status,
						tt.body,
					)
				}
			}
		})
	}
}
