package infra

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// ofResource matches a dimension with a resource of the stack.
var ofResource = regexp.MustCompile(`"(Ref|Fn::GetAtt)"`)

// Each alarm uses metrics of one stack. A metric of the program is one that the functions of the
// stack count, with the dimension Stack. A metric of AWS has the name of a resource of the stack.
func TestAlarmsAreOfOneStack(t *testing.T) {
	counted, ours := metricsOfProgram(t), 0
	files, err := filepath.Glob(filepath.Join(root, "infra", "*.yaml"))
	require.OK(t, err)
	for _, path := range append(files, filepath.Join(root, "template.yaml")) {
		path, err := filepath.Rel(root, path)
		require.OK(t, err)
		d := nested(t, path).deployed(t, nil)
		d.values["Stack"], d.values["AWS::StackName"] = "blue", "blue"
		for _, name := range d.of("AWS::CloudWatch::Alarm") {
			for _, m := range metricsOfAlarm(d.Resources[name].Properties) {
				dimensions, err := json.Marshal(m["Dimensions"])
				require.OK(t, err)
				switch {
				case m["Namespace"] == observe.Namespace:
					ours++
					if key := d.metric(m); !counted[key] {
						t.Errorf("%s: no function counts %s of %s", path, key, name)
					}
				case !ofResource.Match(dimensions):
					t.Errorf("%s: %s uses a metric of the whole account: %s", path, name, dimensions)
				}
			}
		}
		if filters := d.of("AWS::Logs::MetricFilter"); len(filters) > 0 {
			t.Errorf("%s: the metrics of %v have no dimension Stack; use metrics in log lines", path, filters)
		}
	}
	if ours < 10 {
		t.Errorf("found %d metrics of the program: the search is broken", ours)
	}
}

// metricsOfAlarm returns the metrics that an alarm uses.
func metricsOfAlarm(alarm map[string]any) (all []map[string]any) {
	queries, ok := alarm["Metrics"].([]any)
	if !ok {
		return []map[string]any{alarm}
	}
	for _, q := range queries {
		if s, ok := q.(map[string]any)["MetricStat"].(map[string]any); ok {
			all = append(all, s["Metric"].(map[string]any))
		}
	}
	return all
}

// metric returns the name and the dimensions of a metric.
func (d deployment) metric(m map[string]any) string {
	dimensions := map[string]any{}
	for _, one := range m["Dimensions"].([]any) {
		dimensions[d.text(one.(map[string]any)["Name"])] = d.text(one.(map[string]any)["Value"])
	}
	name := d.text(m["MetricName"])
	if name == "MemoryUsed" {
		name = "ColdStarts" // a function counts both in one line, but its memory only on Linux
	}
	return fmt.Sprint(name, " ", dimensions)
}

// metricsOfProgram returns the metrics that the functions of the stack blue count: in the form of
// metric, and with the names of the dimensions alone.
func metricsOfProgram(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, function := range []string{"mcp", "sync", "admin", "work", "assemble"} {
		m := observe.NewMeter("blue", function, nil)
		for _, counted := range [][]slog.Attr{
			m.ColdStart(time.Second), m.GivenUp(1),
			m.Request(&observe.Counts{
				IncludeDisabled: true, Nudged: true,
				Called:  observe.Target{Name: "files:read", By: "read"},
				Blocked: observe.Target{Name: "files:write", By: "pending_approval"},
			}, time.Second, false),
			m.Sync(observe.SyncRun{Result: "ok"}), m.Sync(observe.SyncRun{Result: "failed", Catalog: &observe.CatalogCounts{}}),
			m.Upstream(t.Context(), "files", "denied", "credential_expired", time.Second),
		} {
			var line strings.Builder
			log := slog.New(slog.NewJSONHandler(&line, nil))
			log.LogAttrs(t.Context(), slog.LevelInfo, "metrics", counted...)
			members := require.JSON[map[string]any](t, line.String())
			header := require.JSON[struct {
				AWS struct {
					CloudWatchMetrics []struct {
						Dimensions [][]string
						Metrics    []struct{ Name string }
					}
				} `json:"_aws"`
			}](t, line.String())
			for _, set := range header.AWS.CloudWatchMetrics {
				dimensions := map[string]any{}
				for _, name := range set.Dimensions[0] {
					dimensions[name] = members[name]
				}
				for _, metric := range set.Metrics {
					out[fmt.Sprint(metric.Name, " ", dimensions)] = true
					out[fmt.Sprint(metric.Name, " ", set.Dimensions[0])] = true
				}
			}
		}
	}
	return out
}

// found matches a search of the dashboard: the names of the dimensions, and the name of the metric.
var found = regexp.MustCompile(`^SEARCH\('\{Portcullis,([\w,]+)\} Stack="blue" MetricName="(\w+)"', '\w+', \d+\)$`)

// The dashboard draws only metrics that a function of its stack counts, and metrics of AWS about a
// resource of the stack. Two stacks have two names of dashboards. One of 50 metrics is free, and the
// searches find up to twenty.
func TestDashboardIsOfOneStack(t *testing.T) {
	counted := metricsOfProgram(t)
	for fanout, work := range map[string]string{"sync": "none", "assemble": "work"} {
		d := nested(t, "infra/observability.yaml").deployed(t, map[string]string{"Stack": "blue", "WorkFunctionName": work})
		for name := range d.Parameters {
			if d.values[name] == "<nil>" {
				d.values[name] = "of-blue"
			}
		}
		p := d.Resources["Dashboard"].Properties
		d.values["AWS::Region"] = "eu-central-1"
		if got := d.text(p["DashboardName"]); got != "blue-eu-central-1" {
			t.Errorf("the dashboard has the name %s", got)
		}
		body := require.JSON[struct {
			Widgets []struct {
				Properties struct {
					Title   string
					Metrics [][]any
				}
			}
		}](t, d.text(p["DashboardBody"]))
		drawn := 0
		for _, w := range body.Widgets {
			for _, m := range w.Properties.Metrics {
				drawn++
				if key, ok := drawnMetric(d, m); ok && counted[key] || strings.HasPrefix(key, "[AWS/") && strings.Contains(key, "of-blue") {
					continue
				}
				t.Errorf("%s, %s: no function counts %v", fanout, w.Properties.Title, m)
			}
		}
		if drawn < 25 || drawn > 35 {
			t.Errorf("%s: the dashboard draws %d metrics", fanout, drawn)
		}
	}
}

// drawnMetric returns the metric of one line of a chart, in a form of metricsOfProgram. ok is false
// for a metric of AWS.
func drawnMetric(d deployment, line []any) (key string, ok bool) {
	if search, isSearch := line[0].(map[string]any); isSearch {
		m := found.FindStringSubmatch(fmt.Sprint(search["expression"]))
		if m == nil {
			return fmt.Sprint(search["expression"]), false
		}
		return fmt.Sprint(m[2], " ", strings.Split(m[1], ",")), true
	}
	if _, hasOptions := line[len(line)-1].(map[string]any); hasOptions {
		line = line[:len(line)-1]
	}
	if line[0] != observe.Namespace {
		return fmt.Sprint(line), false
	}
	var dimensions []any
	for i := 2; i+1 < len(line); i += 2 {
		dimensions = append(dimensions, map[string]any{"Name": line[i], "Value": line[i+1]})
	}
	return d.metric(map[string]any{"MetricName": line[1], "Dimensions": dimensions}), true
}

// The saved queries show one stack, and each function gets the name of its stack.
func TestPagesAreOfOneStack(t *testing.T) {
	x := nested(t, "infra/observability.yaml")
	for _, name := range x.of("AWS::Logs::QueryDefinition") {
		p := x.Resources[name].Properties
		named, _ := p["Name"].(map[string]any)["Fn::Sub"].(string)
		if !strings.HasPrefix(named, "${Stack}/") {
			t.Errorf("the query %s has the same name %v in each stack", name, p["Name"])
		}
	}
	d := expand(t).deployed(t, nil)
	d.values["AWS::StackName"] = "blue"
	if got := d.text(d.Resources["Observability"].Properties["Parameters"].(map[string]any)["Stack"]); got != "blue" {
		t.Errorf("the alarms have the stack %q", got)
	}
	for _, name := range d.of("AWS::Lambda::Function") {
		variables := d.Resources[name].Properties["Environment"].(map[string]any)["Variables"].(map[string]any)
		if got := d.text(variables["PORTCULLIS_STACK"]); got != "blue" {
			t.Errorf("%s has the stack %q", name, got)
		}
	}
}
