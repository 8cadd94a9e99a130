package mcphttp_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt/bolttest"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The golden file has what the five writers of call events write about three calls.
func TestCallEvent(t *testing.T) {
	var out local.Buffer
	spans := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(&out, r.Body)
	}))
	defer spans.Close()
	tracer := observe.NewTracer(observe.TracerOptions{URL: spans.URL, Service: "gate"})
	known := func(context.Context, tool.ID) (tool.Tier, bool) { return tool.Read, true }
	counter := usage.NewCounter(bolttest.Open(t, t.TempDir()).Usage(), known, nil)
	h := tracer.Handler(newHandler(t, auditedGateway(t), &mcphttp.Options{
		Audit: counter, AuditLog: true, Metrics: observe.NewMeter("portcullis", "mcp", nil),
		Log: slog.New(slog.NewJSONHandler(&out, nil)),
	}), true)
	for _, c := range auditCases {
		if c.name == "search" || c.name == "the server fails" || c.name == "locked by a list" {
			send(h, modern.request(t, c.method, c.params))
		}
	}
	used, err := counter.Usage(t.Context(), usage.Ranges()[0])
	require.OK(t, err)
	fmt.Fprintf(&out, "\nusage %v %+v\n", used.Total.Counts, *used.Uses)
	masks := `("(?:time|traceId|trace_id|spanId|parentSpanId|startTimeUnixNano|endTimeUnixNano)":)` +
		`"\w[^"]*"|("(?:ms|search_ms|store_ms|Latency|Timestamp)":)[0-9.]+`
	got := regexp.MustCompile(masks).ReplaceAllString(out.String(), `$1${2}0`)
	golden.Check(t, filepath.Join("testdata", "callevent.txt"), got)
}
