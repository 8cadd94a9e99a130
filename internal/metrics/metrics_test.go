package metrics

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const twoServers = `{"mcpServers": {
	"notes": {"url": "http://127.0.0.1:1/mcp"},
	"off": {"url": "http://127.0.0.1:1/x", "enabled": false}
}}`

// newMeasured returns the exporter of a gateway after a sync, and after one event of each kind. The
// gateway may not reach the address of its server.
func newMeasured(t *testing.T) *Exporter {
	t.Helper()
	x, objects := New(), dir.New(t.TempDir())
	_, err := objects.Put(t.Context(), config.Key, []byte(twoServers), "")
	require.OK(t, err)
	stores := boot.Stores{Objects: objects, Approvals: &approvaltest.Mem{}}
	gate := capacity.NewGate(capacity.Limits{Memory: 1 << 30, Descriptors: 1024}, nil)
	p := boot.New(boot.Settings{}, stores, boot.Options{Recorder: x, Gate: gate})
	x.Watch(p, map[string]Store{"objects": objects})
	_, err = p.Sync(t.Context())
	require.OK(t, err)
	called := &observe.Counts{Called: observe.Target{Name: "notes:get", By: "read"}}
	ctx := p.Metrics.Begin(t.Context(), called)
	p.Metrics.Upstream(ctx, "notes", "available", "", 80*time.Millisecond)
	p.Metrics.Request(called, 90*time.Millisecond, true)
	refused := &observe.Counts{IncludeDisabled: true, Nudged: true}
	refused.Blocked = observe.Target{Name: "notes:\xff", By: "pending_approval"}
	p.Metrics.Request(refused, 5*time.Millisecond, false)
	p.Metrics.Upstream(t.Context(), "\xff", "denied", "", time.Second) // a name that no config has
	p.Metrics.GivenUp(2)
	return x
}

// read sends a request for metrics, with "Name: value" headers.
func read(
	t *testing.T, h http.Handler, method, path string, headers ...string,
) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Host = "127.0.0.1:9464"
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// text returns the metrics as Prometheus reads them.
func text(t *testing.T, x *Exporter) string {
	t.Helper()
	w := read(t, x.Handler(secret.Text{}, func(context.Context) {}), http.MethodGet, Path)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// The exporter has the same values as the log lines of a function, in base units.
func TestValues(t *testing.T) {
	got := text(t, newMeasured(t))
	for _, want := range []string{
		`portcullis_requests_total 2`,
		`portcullis_request_errors_total 1`,
		`portcullis_request_duration_seconds_count 2`,
		`portcullis_request_duration_seconds_sum 0.095`,
		`portcullis_tool_calls_total{tier="read"} 1`,
		`portcullis_tool_calls_total{tier="destructive"} 0`,
		`portcullis_refused_calls_total{status="pending_approval"} 1`,
		`portcullis_refused_calls_total{status="disabled_unknown"} 0`,
		`portcullis_searches_with_locked_total 1`,
		`portcullis_search_notices_total 1`,
		`portcullis_upstream_outcomes_total{reason="none",server="notes",status="available"} 1`,
		`portcullis_upstream_outcomes_total{reason="none",server="?",status="denied"} 1`,
		`portcullis_upstream_duration_seconds_count{server="?"} 1`,
		`portcullis_syncs_total{result="ok"} 1`,
		`portcullis_syncs_total{result="failed"} 0`,
		`portcullis_sync_duration_seconds_count{result="ok"} 1`,
		`portcullis_sync_servers 2`,
		`portcullis_sync_tools 0`,
		`portcullis_notices_given_up_total 2`,
		`portcullis_health{condition="degraded"} 1`,
		`portcullis_health{condition="failing"} 0`,
		`portcullis_config_stale 0`,
		`portcullis_tools{status="callable"} 0`,
		`portcullis_servers{outcome="permanent"} 1`,
		`portcullis_servers{outcome="disabled"} 1`,
		`portcullis_upstream_sessions 0`,
		`portcullis_programs 0`,
		`portcullis_requests_in_flight 0`,
		`portcullis_overload_refusals_total 0`,
		`portcullis_store_errors_total{store="objects"} 0`,
	} {
		if !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	for _, begin := range []string{
		"portcullis_catalog_age_seconds ", "go_goroutines ", "process_cpu_seconds_total ",
	} {
		if !strings.Contains(got, "\n"+begin) {
			t.Errorf("%s is missing", begin)
		}
	}
	if t.Failed() {
		t.Log(regexp.MustCompile(`(?m)^(#|go_|process_|.*_bucket).*\n`).ReplaceAllString(got, ""))
	}
}

// Names, units and help follow the conventions of Prometheus, as promtool checks them.
func TestConventions(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(text(t, newMeasured(t)))).Lint()
	require.OK(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// names returns the registered metrics of the gateway.
func names(t *testing.T) (all []string) {
	t.Helper()
	types := regexp.MustCompile(`(?m)^# TYPE (portcullis_\w+) `)
	for _, m := range types.FindAllStringSubmatch(text(t, newMeasured(t)), -1) {
		all = append(all, m[1])
	}
	if want := len(metrics) + len(gauges); len(all) != want {
		t.Fatalf("%d metrics have a value, want %d: %q", len(all), want, all)
	}
	return all
}

// Without the token there is nothing to read, and without a token only this machine reads.
func TestHandler(t *testing.T) {
	x, loads := newMeasured(t), 0
	const token, bearer = "made-up-token-of-32-characters-00", "Authorization: Bearer "
	const far, foreign = "Host: 10.0.0.7:9464", "Host: evil.example.com"
	closed := x.Handler(secret.New(token), func(context.Context) { loads++ })
	open := x.Handler(secret.Text{}, func(context.Context) { loads++ })
	for _, test := range []struct {
		name         string
		h            http.Handler
		method, path string
		headers      []string
		status       int
		body         string
	}{
		{"the token", closed, "GET", Path, []string{bearer + token, far}, 200, "# HELP"},
		{"no token", closed, "GET", Path, nil, 401, "Authorization: Bearer TOKEN"},
		{"a part of it", closed, "GET", Path, []string{bearer + token[:8]}, 401, ""},
		{"another way", closed, "GET", Path, []string{"Authorization: Basic " + token}, 401, ""},
		{"an empty token", closed, "GET", Path, []string{bearer}, 401, ""},
		{"loopback", open, "GET", Path, nil, 200, "# HELP"},
		{"loopback, by name", open, "GET", Path, []string{"Host: localhost:9464"}, 200, "# HELP"},
		{"a page of another site", open, "GET", Path, []string{foreign}, 403, "loopback"},
		{"another path", open, "GET", "/debug/pprof/", nil, 404, ""},
		{"another method", open, "POST", Path, nil, 405, ""},
	} {
		before := loads
		w := read(t, test.h, test.method, test.path, test.headers...)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.body) ||
			(loads > before) != (test.status == 200) {
			t.Errorf(
				"%s: %d %.80s, the state was read %d times",
				test.name,
				w.Code,
				w.Body,
				loads-before,
			)
		}
		if strings.Contains(w.Body.String(), token) ||
			test.status == 401 && w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: %v %.80s", test.name, w.Header(), w.Body)
		}
	}
}

// The page docs/metrics.md has one row for each metric of the gateway, and each row names a metric
// that exists. The same holds for the metrics of CloudWatch.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	require.OK(t, err)
	events, err := os.ReadFile(
		filepath.Join("..", "..", "pkg", "base", "observe", "testdata", "events.jsonl"),
	)
	require.OK(t, err)
	cloud := map[string]bool{"MemoryUsed": true} // only a process that watches its memory has it
	for line := range strings.Lines(string(events)) {
		var l struct {
			AWS struct {
				CloudWatchMetrics []struct{ Metrics []struct{ Name string } }
			} `json:"_aws"`
		}
		require.OK(t, json.Unmarshal([]byte(line), &l))
		for _, s := range l.AWS.CloudWatchMetrics {
			for _, m := range s.Metrics {
				cloud[m.Name] = true
			}
		}
	}
	rows, all := map[string]bool{}, text(t, newMeasured(t))
	cell := regexp.MustCompile("\\| `(portcullis_\\w+|[A-Z]\\w+)`")
	for line := range strings.Lines(string(page)) {
		for _, m := range cell.FindAllStringSubmatch(line, -1) {
			if rows[m[1]] {
				t.Errorf("two rows name %s", m[1])
			}
			rows[m[1]] = true
		}
	}
	for _, name := range metricName.FindAllString(string(page), -1) {
		if !has(all, name) {
			t.Errorf("the page names %s, which does not exist", name)
		}
	}
	exist := maps.Clone(cloud)
	for _, name := range names(t) {
		exist[name] = true
	}
	if !maps.Equal(rows, exist) {
		t.Errorf("the rows and the metrics differ: %s", cmp.Diff(exist, rows))
	}
}
