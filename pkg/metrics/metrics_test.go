package metrics_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/metrics"
	"github.com/portcullis-mcp/portcullis/test/golden"
)

func fixed() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC) }

// The golden file pins every event as the platform reads it.
func TestEventsMatchGolden(t *testing.T) {
	var out bytes.Buffer
	e := metrics.New(&out, "mcp", fixed)
	for _, err := range []error{
		e.Request(metrics.Request{Method: "tools/call", Tool: "retrieve_tools", Agent: "ci", RequestID: "r-1", Duration: 12500 * time.Microsecond}),
		e.Request(metrics.Request{Method: "tools/list", Failed: true}),
		e.Discovery("ci", true, true),
		e.Discovery("ci", false, false),
		e.Call("ci", "notes:get_note", "read"),
		e.Blocked("ci", "notes:delete_note", "disabled_by_config"),
		e.Upstream("notes", "available", "", 80*time.Millisecond),
		e.Upstream("tickets", "transient", "timeout", 5*time.Second),
		e.Catalog(90*time.Second, true),
		e.ColdStart(120 * time.Millisecond),
		e.Sync("ok", 70, 527, 3*time.Second),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	golden.Check(t, filepath.Join("testdata", "events.jsonl"), out.String())
}

// The rules of the format's specification, checked on every golden line.
func TestLinesKeepTheFormat(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) < 10 {
		t.Fatalf("golden file has %d lines", len(lines))
	}
	bounded := map[string]bool{"Function": true, "Tier": true, "LockStatus": true, "Status": true, "Reason": true, "Result": true}
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

func TestEventsOutsideTheFormatAreRefused(t *testing.T) {
	one := []metrics.Metric{{Name: "Requests", Unit: metrics.Count, Value: 1}}
	for name, ev := range map[string]metrics.Event{
		"no metric":           {},
		"empty dimension":     {Metrics: one, Dimensions: []metrics.Field{{Name: "Tier"}}},
		"over-long dimension": {Metrics: one, Dimensions: []metrics.Field{{Name: "Tier", Value: strings.Repeat("x", 1025)}}},
		"repeated field":      {Metrics: one, Properties: []metrics.Field{{Name: "Requests", Value: "2"}}},
		"101 metrics":         {Metrics: make([]metrics.Metric, 101)},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := metrics.New(&out, "mcp", fixed).Emit(ev); err == nil || out.Len() > 0 {
				t.Errorf("Emit = %v and wrote %d bytes, want an error and nothing", err, out.Len())
			}
		})
	}
}

func TestLongPropertiesAreCut(t *testing.T) {
	var out bytes.Buffer
	if err := metrics.New(&out, "mcp", fixed).Call("a", strings.Repeat("n", 5000), "read"); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 1000 {
		t.Errorf("line has %d bytes", out.Len())
	}
}

func TestNilEmitterWritesNothing(t *testing.T) {
	var e *metrics.Emitter
	if err := e.Call("a", "b", "read"); err != nil {
		t.Error(err)
	}
}
