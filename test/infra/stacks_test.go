package infra

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// ofStack matches the dimension of the program's metrics in the templates.
var ofStack = regexp.MustCompile(`\{"Name":"Stack","Value":\{"Ref":"(Stack|AWS::StackName)"\}\}`)

// ofResource matches a dimension with a resource of the stack.
var ofResource = regexp.MustCompile(`"(Ref|Fn::GetAtt)"`)

// Each alarm uses metrics of one stack. A metric of the program has the dimension Stack, and a
// metric of AWS has the name of a resource of the stack.
func TestAlarmsAreOfOneStack(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "infra", "*.yaml"))
	require.OK(t, err)
	ours := 0
	for _, path := range append(files, filepath.Join(root, "template.yaml")) {
		path, err := filepath.Rel(root, path)
		require.OK(t, err)
		x := nested(t, path)
		for _, name := range x.of("AWS::CloudWatch::Alarm") {
			p := x.Resources[name].Properties
			looksAt := []map[string]any{p}
			if queries, ok := p["Metrics"].([]any); ok {
				looksAt = nil
				for _, q := range queries {
					if s, ok := q.(map[string]any)["MetricStat"].(map[string]any); ok {
						looksAt = append(looksAt, s["Metric"].(map[string]any))
					}
				}
			}
			for _, m := range looksAt {
				dimensions, err := json.Marshal(m["Dimensions"])
				require.OK(t, err)
				if m["Namespace"] == observe.Namespace {
					ours++
					if !ofStack.Match(dimensions) {
						t.Errorf("%s: %s uses %s of all stacks: %s", path, name, m["MetricName"], dimensions)
					}
				} else if !ofResource.Match(dimensions) {
					t.Errorf("%s: %s uses a metric of the whole account: %s", path, name, dimensions)
				}
			}
		}
		if filters := x.of("AWS::Logs::MetricFilter"); len(filters) > 0 {
			t.Errorf("%s: the metrics of %v have no dimension Stack; use metrics in log lines", path, filters)
		}
	}
	if ours < 10 {
		t.Errorf("found %d metrics of the program: the search is broken", ours)
	}
}

// The dashboard and the saved queries show one stack, and each function gets the name of its stack.
func TestPagesAreOfOneStack(t *testing.T) {
	x := nested(t, "infra/observability.yaml")
	body, err := json.Marshal(x.Resources["Dashboard"].Properties["DashboardBody"])
	require.OK(t, err)
	text := strings.ReplaceAll(strings.ReplaceAll(string(body), `\\`, `\`), `\"`, `"`)
	for all, one := range map[string]string{
		`\["Portcullis",`: `\["Portcullis", "\w+", "Stack", "\$\{Stack\}",`,
		`\{Portcullis,`:   `\{Portcullis,Stack,[\w,]+\} Stack=\\?"\$\{Stack\}\\?" `,
	} {
		n := len(regexp.MustCompile(all).FindAllString(text, -1))
		m := len(regexp.MustCompile(one).FindAllString(text, -1))
		if n == 0 || n != m {
			t.Errorf("the dashboard has %d of %s, but only %d with the stack", n, all, m)
		}
	}
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

// TestTwoStacks deploys the alarms of two stacks of one account and region. The alarms of a stack
// use only the metrics of its own functions. The emulator's own state of an alarm ignores
// dimensions, so the test compares the statistic of each alarm with its threshold.
func TestTwoStacks(t *testing.T) {
	endpoint := emulator.Start(t)
	x := expand(t)
	for _, name := range []string{"blue", "green"} {
		d := x.deployed(t, map[string]string{
			"AuthMode": "token", "AlarmMath": "false", "SavedQueries": "false", "SignIn": "true",
		})
		d.values["AWS::StackName"] = name
		values := map[string]string{}
		for p, v := range x.Resources["Observability"].Properties["Parameters"].(map[string]any) {
			values[p] = d.text(v)
		}
		emulator.Deploy(t, endpoint, name, filepath.Join(root, "infra", "observability.yaml"), values)
	}
	ctx, calls := t.Context(), observe.NewMeter("blue", "mcp", nil)
	fails, works := observe.NewMeter("blue", "sync", nil), observe.NewMeter("green", "sync", nil)
	old := &observe.CatalogCounts{Age: 2 * time.Hour, Stale: true}
	for range 3 {
		for _, counted := range [][]slog.Attr{
			fails.Sync(observe.SyncRun{Result: "failed", Catalog: old}),
			fails.GivenUp(1),
			fails.Upstream(ctx, "files", "denied", "credential_expired", time.Second),
			calls.Upstream(ctx, "files", "denied", "credential_expired", time.Second),
			works.Upstream(ctx, "mail", "denied", "sign_in_required", time.Second),
			works.Sync(observe.SyncRun{Result: "ok", Catalog: &observe.CatalogCounts{Age: time.Minute}}),
		} {
			count(t, endpoint, counted)
		}
	}
	var all struct{ MetricAlarms []alarm }
	watch(t, endpoint, "DescribeAlarms", map[string]any{"MaxRecords": 100}, &all)
	breached := map[string][]string{}
	for _, a := range all.MetricAlarms {
		stack, rest, _ := strings.Cut(a.AlarmName, "-")
		if a.Namespace == observe.Namespace && a.Statistic != "" && a.breached(t, endpoint) {
			name, _, _ := strings.Cut(rest, "-")
			breached[stack] = append(breached[stack], name)
		}
	}
	slices.Sort(breached["blue"])
	const want = "CatalogOld ConfigStale ConnectionEnded ConnectionEndedInCalls NoticesGivenUp SyncFailed"
	if got := strings.Join(breached["blue"], " "); got != want {
		t.Errorf("breached alarms of the failing stack: %s, want %s", got, want)
	}
	if len(breached["green"]) > 0 {
		t.Errorf("metrics of another stack breach %v", breached["green"])
	}
}

// count sends the metrics of a log line to CloudWatch, which reads the embedded metric format only
// from its own logs.
func count(t *testing.T, endpoint string, counted []slog.Attr) {
	t.Helper()
	var out strings.Builder
	log := slog.New(slog.NewJSONHandler(&out, nil))
	log.LogAttrs(t.Context(), slog.LevelInfo, "metrics", counted...)
	members := require.JSON[map[string]any](t, out.String())
	header := require.JSON[struct {
		AWS struct {
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name string }
			}
		} `json:"_aws"`
	}](t, out.String())
	for _, set := range header.AWS.CloudWatchMetrics {
		var dimensions, data []map[string]any
		for _, name := range set.Dimensions[0] {
			dimensions = append(dimensions, map[string]any{"Name": name, "Value": members[name]})
		}
		for _, m := range set.Metrics {
			data = append(data, map[string]any{
				"MetricName": m.Name, "Value": members[m.Name], "Dimensions": dimensions,
			})
		}
		metrics := map[string]any{"Namespace": set.Namespace, "MetricData": data}
		watch(t, endpoint, "PutMetricData", metrics, nil)
	}
}

// An alarm is CloudWatch's description of an alarm.
type alarm struct {
	AlarmName, Namespace, MetricName, Statistic, ComparisonOperator string

	Dimensions []map[string]string
	Threshold  float64
}

// breached reports whether the metric of an alarm exceeded its threshold in the last hours.
func (a alarm) breached(t *testing.T, endpoint string) bool {
	t.Helper()
	now := time.Now().Unix()
	var out struct{ Datapoints []map[string]any }
	watch(t, endpoint, "GetMetricStatistics", map[string]any{
		"Namespace": a.Namespace, "MetricName": a.MetricName, "Dimensions": a.Dimensions, "Statistics": []string{a.Statistic},
		"Period": 8 * 3600, "StartTime": now - 4*3600, "EndTime": now + 4*3600,
	}, &out)
	for _, p := range out.Datapoints {
		value, ok := p[a.Statistic].(float64)
		if !ok {
			t.Errorf("%s: no %s in %v", a.AlarmName, a.Statistic, p)
		}
		if value > a.Threshold ||
			a.ComparisonOperator == "GreaterThanOrEqualToThreshold" && value == a.Threshold {
			return true
		}
	}
	return false
}

// watch calls CloudWatch with JSON, because the SDK and the emulator encode CBOR differently.
func watch(t *testing.T, endpoint, action string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	require.OK(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint+"/", bytes.NewReader(body))
	require.OK(t, err)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "GraniteServiceVersion20100801."+action)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/monitoring/aws4_request, SignedHeaders=host, Signature=0")
	answer, err := http.DefaultClient.Do(r)
	require.OK(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.OK(t, err)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s answers %s: %s", action, answer.Status, data)
	}
	if out != nil {
		require.OK(t, json.Unmarshal(data, out))
	}
}
