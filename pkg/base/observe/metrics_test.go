package observe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/test/golden"
)

func fixed() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC) }

// print writes the counted attributes as a line of the functions' log.
func print(t *testing.T, out *bytes.Buffer, counted []slog.Attr, more ...slog.Attr) {
	t.Helper()
	r := slog.NewRecord(fixed(), slog.LevelInfo, "metrics", 0)
	r.AddAttrs(append(more, counted...)...)
	h := slog.NewJSONHandler(out, &slog.HandlerOptions{ReplaceAttr: lambdacontext.ReplaceAttr})
	if err := h.Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// The golden file has every event as the platform reads it.
func TestEvents(t *testing.T) {
	var out bytes.Buffer
	m := observe.NewMeter("portcullis", "mcp", fixed)
	request := func(took time.Duration, failed bool, c *observe.Counts) {
		print(t, &out, m.Request(c, took, failed), slog.String("agent", "ci"))
	}
	request(0, true, &observe.Counts{})
	request(12500*time.Microsecond, false, &observe.Counts{IncludeDisabled: true, Nudged: true})
	request(12500*time.Microsecond, false, &observe.Counts{})
	request(time.Millisecond, false, &observe.Counts{
		Blocked: observe.Target{Name: "notes:delete_note", By: "disabled_by_config"},
	})
	called, took := &observe.Counts{Called: observe.Target{Name: "notes:get_note", By: "read"}}, 80*time.Millisecond
	if own := m.Upstream(m.Begin(t.Context(), called), "notes", "available", "", took); own != nil {
		t.Errorf("the server of a request has a separate line: %v", own)
	}
	request(90*time.Millisecond, false, called)
	print(t, &out, m.Upstream(t.Context(), "notes", "available", "", 80*time.Millisecond))
	print(t, &out, m.Upstream(t.Context(), "tickets", "transient", "timeout", 5*time.Second))
	print(t, &out, m.ColdStart(120*time.Millisecond))
	print(t, &out, m.Sync(observe.SyncRun{Result: "ok", Servers: 70, Tools: 527, Took: 3 * time.Second, Catalog: &observe.CatalogCounts{Age: 90 * time.Second, Stale: true}}))
	print(t, &out, m.Sync(observe.SyncRun{Result: "skipped"}))
	print(t, &out, m.GivenUp(2))
	golden.Check(t, filepath.Join("testdata", "events.jsonl"), out.String())
}

// Every golden line follows the rules of the format's specification.
func TestLinesKeepTheFormat(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) < 10 {
		t.Fatalf("golden file has %d lines", len(lines))
	}
	bounded := map[string]bool{"Stack": true, "Function": true, "Tier": true, "LockStatus": true, "Status": true, "Reason": true, "Result": true}
	for _, l := range lines {
		var line struct {
			AWS struct {
				Timestamp         int64
				CloudWatchMetrics []struct {
					Namespace  string
					Dimensions [][]string
					Metrics    []struct{ Name, Unit string }
				}
			} `json:"_aws"`
			Level     string
			Timestamp time.Time
		}
		var fields map[string]any
		if err := errors.Join(json.Unmarshal([]byte(l), &line), json.Unmarshal([]byte(l), &fields)); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		if line.AWS.Timestamp != fixed().UnixMilli() || line.Level != "INFO" || !line.Timestamp.Equal(fixed()) {
			t.Errorf("%s: wrong time or level", l)
		}
		for _, d := range line.AWS.CloudWatchMetrics {
			if d.Namespace != "Portcullis" || len(d.Dimensions) != 1 || len(d.Metrics) == 0 || len(d.Metrics) > 100 {
				t.Errorf("%s: %+v is outside the format", l, d)
			}
			if d.Dimensions[0][0] != "Stack" || fields["Stack"] != "portcullis" {
				t.Errorf("%s: the metrics of two stacks would be one", l)
			}
			for _, name := range d.Dimensions[0] {
				if v, ok := fields[name].(string); !ok || v == "" || !bounded[name] {
					t.Errorf("%s: dimension %q is unbounded or has no text", l, name)
				}
			}
			for _, m := range d.Metrics {
				if _, ok := fields[m.Name].(float64); !ok {
					t.Errorf("%s: metric %q has no number", l, m.Name)
				}
			}
		}
	}
}

// samples are the recorded values, as text.
type samples []string

func (all *samples) Record(s observe.Sample) {
	for _, v := range s.Values {
		labels := s.Label("Tier") + s.Label("server")
		*all = append(*all, fmt.Sprintf("%s %s %v", v.Name, labels, v.Value))
	}
}

func TestMeter(t *testing.T) {
	m := observe.NewMeter("portcullis", "mcp", fixed)
	t.Run("a line has each name once", func(t *testing.T) {
		c, out := &observe.Counts{}, &bytes.Buffer{}
		ctx := m.Begin(t.Context(), c)
		m.Upstream(ctx, "notes", "available", "", time.Second)
		print(t, out, m.Upstream(ctx, "tickets", "transient", "timeout", time.Second))
		print(t, out, m.Request(c, time.Second, false))
		for _, member := range []string{`"UpstreamDuration":`, `"Status":`, `"server":`} {
			for line := range strings.Lines(out.String()) {
				if strings.Count(line, member) != 1 {
					t.Errorf("%s occurs %d times in %s", member, strings.Count(line, member), line)
				}
			}
		}
	})
	t.Run("a recorder gets what the lines would have", func(t *testing.T) {
		var got samples
		m := observe.NewRecordingMeter(&got)
		c := &observe.Counts{Called: observe.Target{Name: "notes:get_note", By: "read"}}
		ctx := m.Begin(t.Context(), c)
		m.Upstream(ctx, "notes", "available", "", 80*time.Millisecond)
		lines := append(m.Request(c, 90*time.Millisecond, true), m.GivenUp(2)...)
		want := []string{
			"ToolCalls read 1", "UpstreamOutcomes notes 1", "UpstreamDuration notes 80",
			"Requests  1", "Errors  1", "Latency  90", "NoticesGivenUp  2",
		}
		if !slices.Equal(got, want) || lines != nil || m.Logs() {
			t.Errorf("recorded %q, want %q; a line has %v", got, want, lines)
		}
	})
	t.Run("long names are cut", func(t *testing.T) {
		c, out := &observe.Counts{Called: observe.Target{Name: strings.Repeat("n", 5000), By: "read"}}, &bytes.Buffer{}
		if print(t, out, m.Request(c, 0, false)); out.Len() > 1000 {
			t.Errorf("line has %d bytes", out.Len())
		}
	})
	t.Run("nil", func(t *testing.T) {
		var m *observe.Meter
		c := &observe.Counts{}
		ctx := m.Begin(t.Context(), c)
		if got := append(m.Request(c, 0, false), m.Upstream(ctx, "s", "available", "", 0)...); got != nil {
			t.Errorf("a nil Meter counts %v", got)
		}
	})
}
