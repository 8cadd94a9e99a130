package cloudwatch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscw "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/smithy-go/encoding/cbor"
	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/aws/cloudwatch"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

var now = time.Date(2026, 11, 22, 12, 7, 0, 0, time.UTC)

// A wire answers the requests of the real clients, without a network: of CloudWatch, which speaks
// CBOR, and of CloudWatch Logs, which speaks JSON.
type wire struct {
	metrics func(query map[string]any, n int) map[string]any // the result of a query; nil: none
	token   string                                           // of the first page, if there are two
	logs    func(call string, in map[string]any) (status int, body string)
	status  int // of CloudWatch, if it fails
	calls   []string
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	says := func(status int, kind string, body []byte) *http.Response {
		h := http.Header{"Content-Type": {kind}, "Smithy-Protocol": {"rpc-v2-cbor"}}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(bytes.NewReader(body)), Request: r}
	}
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		_, call, _ := strings.Cut(target, ".")
		w.calls = append(w.calls, call)
		var in map[string]any
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		status, answer := w.logs(call, in)
		return says(status, "application/x-amz-json-1.1", []byte(answer)), nil
	}
	w.calls = append(w.calls, path.Base(r.URL.Path))
	if w.status != 0 {
		return says(w.status, "application/cbor", cbor.Encode(cbor.Map{"__type": cbor.String("com.amazonaws.cloudwatch#AccessDenied"), "message": cbor.String("arn:aws:iam::1:role/x may not")})), nil
	}
	in, err := cbor.Decode(body)
	if err != nil {
		return nil, err
	}
	request := plainOf(in).(map[string]any)
	results := cbor.List{}
	for n, q := range request["MetricDataQueries"].([]any) {
		query := q.(map[string]any)
		query["from"] = request["StartTime"]
		if w.metrics != nil {
			if result := w.metrics(query, n); result != nil {
				result["Id"] = query["Id"]
				results = append(results, cborOf(result))
			}
		}
	}
	out := cbor.Map{"MetricDataResults": results}
	if _, second := request["NextToken"]; w.token != "" && !second {
		out["NextToken"] = cbor.String(w.token)
	}
	return says(http.StatusOK, "application/cbor", cbor.Encode(out)), nil
}

// plainOf and cborOf turn values of the wire into Go's and back.
func plainOf(v cbor.Value) any {
	switch v := v.(type) {
	case cbor.Map:
		out := map[string]any{}
		for k, e := range v {
			out[k] = plainOf(e)
		}
		return out
	case cbor.List:
		out := make([]any, 0, len(v))
		for _, e := range v {
			out = append(out, plainOf(e))
		}
		return out
	case cbor.String:
		return string(v)
	case cbor.Uint:
		return int(v)
	case *cbor.Tag:
		return plainOf(v.Value)
	case cbor.Float64:
		return float64(v)
	}
	return v
}

func cborOf(v any) cbor.Value {
	switch v := v.(type) {
	case map[string]any:
		out := cbor.Map{}
		for k, e := range v {
			out[k] = cborOf(e)
		}
		return out
	case []time.Time:
		out := cbor.List{}
		for _, t := range v {
			out = append(out, &cbor.Tag{ID: 1, Value: cbor.Float64(t.Unix())})
		}
		return out
	case []float64:
		out := cbor.List{}
		for _, f := range v {
			out = append(out, cbor.Float64(f))
		}
		return out
	}
	return cbor.String(fmt.Sprint(v))
}

// A bench is the source on a wire, with a clock.
type bench struct {
	*wire
	t   testing.TB
	now time.Time
	log bytes.Buffer
	src *cloudwatch.Source
}

func newBench(t testing.TB) *bench {
	b := &bench{wire: &wire{}, t: t, now: now}
	c := emulator.Config("http://aws.test")
	c.HTTPClient, c.RetryMaxAttempts = &http.Client{Transport: b.wire}, 1
	c.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	b.src = b.on(c)
	return b
}

func (b *bench) on(c aws.Config) *cloudwatch.Source {
	o := &cloudwatch.Options{Now: func() time.Time { return b.now }, Log: slog.New(slog.NewTextHandler(&b.log, nil)), Region: "eu-central-1", Stack: "prod"}
	return cloudwatch.New(cloudwatch.NewMetrics(awscw.NewFromConfig(c), o), cloudwatchlogs.NewFromConfig(c), "/aws/lambda/mcp")
}

func rangeOf(t testing.TB, name string) usage.Range {
	t.Helper()
	r, ok := usage.ParseRange(name)
	if !ok {
		t.Fatal(name)
	}
	return r
}

func (b *bench) usage(name string) usage.Report {
	b.t.Helper()
	out, err := b.src.Usage(b.t.Context(), rangeOf(b.t, name))
	require.OK(b.t, err)
	return out
}

// key names what a query asks for.
func key(query map[string]any) string {
	if e, ok := query["Expression"].(string); ok {
		return e
	}
	s := query["MetricStat"].(map[string]any)
	m := s["Metric"].(map[string]any)
	out := fmt.Sprint(m["Namespace"], " ", m["MetricName"], " ", s["Stat"], " ", s["Period"])
	for _, d := range m["Dimensions"].([]any) {
		d := d.(map[string]any)
		out += fmt.Sprint(" ", d["Name"], "=", d["Value"])
	}
	return out
}

// day answers as CloudWatch does: only buckets with something have a value.
func day(query map[string]any, _ int) map[string]any {
	values := map[string][]float64{
		"Portcullis ToolCalls Sum 3600 Stack=prod Function=mcp Tier=read":                      {3, 4},
		"Portcullis ToolCalls Sum 3600 Stack=prod Function=mcp Tier=destructive":               {1, 0},
		"Portcullis BlockedCalls Sum 3600 Stack=prod Function=mcp LockStatus=pending_approval": {2, 5},
		"Portcullis Latency p50 3600 Stack=prod Function=mcp":                                  {12.34, 20},
		"Portcullis Latency p95 3600 Stack=prod Function=mcp":                                  {120, 200.1},
		searchFor("transient"): {1, 1},
	}[key(query)]
	from := time.Unix(int64(query["from"].(float64)), 0)
	result := map[string]any{"Label": "x", "StatusCode": "Complete", "Timestamps": []time.Time{}, "Values": []float64{}}
	if values != nil {
		result["Timestamps"], result["Values"] = []time.Time{from.Add(time.Hour), from.Add(23 * time.Hour)}, values
	} else if strings.HasPrefix(key(query), "SUM") {
		return nil // a search that finds nothing
	}
	return result
}

func searchFor(status string) string {
	return `SUM(SEARCH('{Portcullis,Function,Reason,Stack,Status} MetricName="UpstreamOutcomes" Stack="prod" Function="mcp" Status="` + status + `"', 'Sum', 3600))`
}

func TestTotals(t *testing.T) {
	b := newBench(t)
	b.metrics = day
	got := b.usage("24h")
	want := usage.NewReport(rangeOf(t, "24h"), now)
	one, last := &want.Buckets[1], &want.Buckets[23]
	one.Counts[usage.CallsRead], last.Counts[usage.CallsRead] = 3, 4
	one.Counts[usage.CallsDestructive] = 1
	one.Counts[usage.LockedPending], last.Counts[usage.LockedPending] = 2, 5
	one.Counts[usage.FailedTransient], last.Counts[usage.FailedTransient] = 1, 1
	one.P50, one.P95, last.P50, last.P95 = 12.34, 120, 20, 200.1
	want.Sum()
	if d := cmp.Diff(want.Buckets, got.Buckets); d != "" || want.Total != got.Total {
		t.Errorf("%+v (-want +got)\n%s", got.Total, d)
	}
	// What the metrics do not have is left out of the charts, and said.
	names := map[string]int{}
	for _, c := range got.Charts() {
		names[c.Name] = len(c.Series)
	}
	if d := cmp.Diff(map[string]int{"calls": 3, "locked": 5, "errors": 3, "latency": 2}, names); d != "" || len(got.Says) != 1 || !strings.Contains(got.Says[0], "Searches") {
		t.Errorf("%v (-want +got)\n%s", got.Says, d)
	}
	if d := cmp.Diff([]string{"GetMetricData", "GetMetricData"}, b.calls); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	b.calls, b.now = nil, now.Add(4*time.Minute)
	b.usage("24h")
	if b.calls != nil {
		t.Errorf("after four minutes CloudWatch is asked again: %v", b.calls)
	}
	b.usage("1h")
	b.now = now.Add(6 * time.Minute)
	b.usage("24h")
	if len(b.calls) != 4 {
		t.Errorf("another range, and a range after six minutes: %v", b.calls)
	}
	if says := b.usage("30d").Says; len(says) != 2 || !strings.Contains(says[1], "two weeks") {
		t.Errorf("30 days: %v", says)
	}
}

// What fails takes nothing else with it, and is not shown as zero.
func TestTotalsFail(t *testing.T) {
	t.Run("all", func(t *testing.T) {
		b := newBench(t)
		b.status = http.StatusForbidden
		got := b.usage("24h")
		if len(got.Charts()) != 0 || len(got.Says) != 2 || strings.Contains(strings.Join(got.Says, ""), "arn:") || !strings.Contains(got.Says[1], "did not give all metrics now") {
			t.Errorf("%d charts, %v", len(got.Charts()), got.Says)
		}
		if !strings.Contains(b.log.String(), "AccessDenied") {
			t.Errorf("the log does not have the cause: %s", &b.log)
		}
		b.status, b.metrics = 0, day
		if got := b.usage("24h"); len(got.Charts()) != 4 || got.Total.Counts[usage.CallsRead] != 7 {
			t.Errorf("a failure is kept: %+v", got.Total)
		}
		b.status, b.now = http.StatusForbidden, now.Add(time.Hour)
		if got := b.usage("24h"); len(got.Charts()) != 4 || len(got.Says) != 2 || !strings.Contains(got.Says[1], "these are of 22 November 12:07 UTC") {
			t.Errorf("what was read before: %v", got.Says)
		}
		if got := b.usage("24h"); len(got.Says) != 2 {
			t.Errorf("it is said twice: %v", got.Says)
		}
	})
	t.Run("one metric in part", func(t *testing.T) {
		b := newBench(t)
		b.metrics = func(query map[string]any, n int) map[string]any {
			out := day(query, n)
			if strings.Contains(key(query), "Tier=read") {
				out["StatusCode"] = "InternalError"
			}
			return out
		}
		got := b.usage("24h")
		if calls := got.Charts()[0]; calls.Name != "calls" || len(calls.Series) != 2 || len(got.Says) != 2 {
			t.Errorf("%+v %v", calls, got.Says)
		}
	})
	t.Run("two pages", func(t *testing.T) {
		b := newBench(t)
		b.metrics, b.token = day, "next"
		if got := b.usage("24h"); len(b.calls) != 4 || got.Total.Counts[usage.CallsRead] != 14 { // this wire gives all of it twice
			t.Errorf("%v, %d calls", b.calls, got.Total.Counts[usage.CallsRead])
		}
	})
}

// done is the answer of a search that is complete.
func done(rows ...string) string {
	return `{"status":"Complete","statistics":{"bytesScanned":2.5e9,"recordsMatched":9,"recordsScanned":100},"results":[` + strings.Join(rows, ",") + `]}`
}

func row(fields ...string) string {
	var out []string
	for i := 0; i+1 < len(fields); i += 2 {
		out = append(out, fmt.Sprintf(`{"field":%q,"value":%q}`, fields[i], fields[i+1]))
	}
	return "[" + strings.Join(out, ",") + "]"
}

func TestSearchOfTheLog(t *testing.T) {
	b := newBench(t)
	answer := `{"status":"Running","results":[],"statistics":{"bytesScanned":0}}`
	var asked map[string]any
	b.logs = func(call string, in map[string]any) (int, string) {
		if call == "StartQuery" {
			asked = in
			return http.StatusOK, `{"queryId":"12ab-34"}`
		}
		if in["queryId"] != "12ab-34" {
			t.Errorf("%s of %v", call, in["queryId"])
		}
		return http.StatusOK, answer
	}
	r := rangeOf(t, "24h")
	query, err := b.src.Ask(t.Context(), r)
	require.OK(t, err)
	from, _ := r.Bounds(now)
	if asked["logGroupName"] != "/aws/lambda/mcp" || asked["startTime"] != float64(from.Unix()) || asked["endTime"] != float64(now.Unix()) || !strings.Contains(asked["queryString"].(string), "audit = 1") {
		t.Errorf("%v", asked)
	}
	if a, err := b.src.Answer(t.Context(), query); err != nil || !a.Running || a.Range != "24h" || !a.AskedAt.Equal(now.Truncate(time.Second)) {
		t.Errorf("%+v, %v", a, err)
	}
	if again, err := b.src.Ask(t.Context(), r); err != nil || again != query {
		t.Errorf("the same range again: %q, %v", again, err)
	}
	if _, err := b.src.Ask(t.Context(), rangeOf(t, "1h")); !errors.As(err, new(usage.RefusedError)) || !strings.Contains(err.Error(), "one runs at a time") {
		t.Errorf("another range meanwhile: %v", err)
	}
	answer = done(
		row("agent", "ci", "tool", "fs:read_file", "decision", "allowed", "outcome", "available", "n", "31"),
		row("agent", "ci", "tool", "fs:read_file", "decision", "allowed", "outcome", "transient", "n", "2"),
		row("agent", "ci", "tool", "retrieve_tools", "decision", "allowed", "n", "8"),
		row("agent", "ci", "tool", "describe_tools", "decision", "allowed", "n", "3"),
		row("agent", "deploy", "tool", "git:git_push", "decision", "locked", "n", "4"),
		row("agent", "deploy", "decision", "scope", "n", "1"),
		row("agent", "", "tool", "x:y", "decision", "locked", "n", "4"), row("n", "x"), row())
	a, err := b.src.Answer(t.Context(), query)
	require.OK(t, err)
	want := &usage.Uses{
		Tools:  []usage.Row{{Name: "", Beside: 1, Use: usage.Use{Refused: 1}}, {Name: "fs:read_file", Beside: 1, Use: usage.Use{Calls: 33, Failed: 2}}, {Name: "git:git_push", Beside: 1, Use: usage.Use{Locked: 4}}},
		Agents: []usage.Row{{Name: "ci", Beside: 1, Use: usage.Use{Calls: 33, Failed: 2, Searches: 8}}, {Name: "deploy", Beside: 2, Use: usage.Use{Locked: 4, Refused: 1}}},
	}
	if d := cmp.Diff(want, a.Uses); d != "" || a.Running || a.Failed != "" {
		t.Errorf("%+v (-want +got)\n%s", a, d)
	}
	if want := "The search read 2.5 GB of the log, about $0.013, reckoned by the price in us-east-1 as of November 2026, $0.005 a GB; this gateway is in eu-central-1, whose price may differ."; !strings.HasPrefix(a.Cost, want) {
		t.Errorf("%s", a.Cost)
	}
	calls := len(b.calls)
	b.now = now.Add(14 * time.Minute)
	if again, err := b.src.Ask(t.Context(), r); err != nil || again != query {
		t.Errorf("within 15 minutes: %q, %v", again, err)
	}
	if _, err := b.src.Answer(t.Context(), query); err != nil || len(b.calls) != calls {
		t.Errorf("what is known is asked for again: %v, %v", b.calls[calls:], err)
	}
	// Another instance reads the answer by the name of the question.
	if a, err := (&bench{wire: b.wire, t: t, now: b.now}).other().Answer(t.Context(), query); err != nil || a.Uses == nil || a.Range != "24h" {
		t.Errorf("another instance: %+v, %v", a, err)
	}
	b.now = now.Add(16 * time.Minute)
	if _, err := b.src.Answer(t.Context(), query); !errors.Is(err, usage.ErrNoQuery) {
		t.Errorf("after 15 minutes: %v", err)
	}
	if again, err := b.src.Ask(t.Context(), r); err != nil || again == query {
		t.Errorf("asked after 15 minutes: %q, %v", again, err)
	}
}

// other is a source of its own on the same wire.
func (b *bench) other() *cloudwatch.Source {
	c := emulator.Config("http://aws.test")
	c.HTTPClient, c.Retryer = &http.Client{Transport: b.wire}, func() aws.Retryer { return aws.NopRetryer{} }
	return b.on(c)
}

func TestSearchFails(t *testing.T) {
	failure := func(kind string) string { return `{"__type":"` + kind + `","message":"arn:aws:logs:x"}` }
	for name, tc := range map[string]struct {
		status int
		answer string
		wait   time.Duration
		stop   int
		says   string
		again  bool // it may be made again at once
	}{
		"failed":        {200, `{"status":"Failed","results":[],"statistics":{"bytesScanned":1e9}}`, 0, 200, "ended without an answer (CloudWatch Logs calls it failed)", true},
		"canceled":      {200, `{"status":"Cancelled","results":[]}`, 0, 200, "calls it cancelled", true},
		"timeout":       {200, `{"status":"Timeout","results":[]}`, 0, 200, "calls it timeout", true},
		"too long":      {200, `{"status":"Running","results":[]}`, 6 * time.Minute, 200, "longer than 5 minutes and was stopped", true},
		"no end to it":  {200, `{"status":"Running","results":[]}`, 6 * time.Minute, 400, "could not be stopped either", true},
		"denied":        {400, failure("AccessDeniedException"), 0, 200, "does not give the answer now", false},
		"forgotten":     {400, failure("ResourceNotFoundException"), 0, 200, "does not know this search any more", true},
		"no JSON":       {200, `{`, 0, 200, "does not give the answer now", false},
		"another shape": {200, `{"status":"Complete"}`, 0, 200, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			starts := 0
			b.logs = func(call string, _ map[string]any) (int, string) {
				switch call {
				case "StartQuery":
					starts++
					return 200, fmt.Sprintf(`{"queryId":"q-%d"}`, starts)
				case "StopQuery":
					return tc.stop, `{"success":true}`
				}
				return tc.status, tc.answer
			}
			r := rangeOf(t, "1h")
			query, err := b.src.Ask(t.Context(), r)
			require.OK(t, err)
			b.now = now.Add(tc.wait)
			a, err := b.src.Answer(t.Context(), query)
			if err != nil || a.Running || !strings.Contains(a.Failed, tc.says) || strings.Contains(a.Failed, "arn:") || (tc.says == "") != (a.Failed == "") {
				t.Errorf("%+v, %v", a, err)
			}
			if _, err := b.src.Ask(t.Context(), r); err != nil || (starts == 2) != tc.again {
				t.Errorf("again: %d searches, %v", starts, err)
			}
		})
	}
	t.Run("not begun", func(t *testing.T) {
		b := newBench(t)
		b.logs = func(string, map[string]any) (int, string) { return 400, failure("LimitExceededException") }
		if _, err := b.src.Ask(t.Context(), rangeOf(t, "1h")); err == nil || errors.As(err, new(usage.RefusedError)) {
			t.Errorf("%v", err)
		}
		if _, err := b.src.Ask(t.Context(), rangeOf(t, "30d")); !errors.As(err, new(usage.RefusedError)) || !strings.Contains(err.Error(), "at most 7 days") {
			t.Errorf("a month: %v", err)
		}
		if len(b.calls) != 1 {
			t.Errorf("%v", b.calls)
		}
	})
	t.Run("names that are none", func(t *testing.T) {
		b := newBench(t)
		b.logs = func(string, map[string]any) (int, string) { t.Error("CloudWatch is asked"); return 400, "" }
		for _, query := range []string{"", "x", "30d.1795349220.x", "24h.1795349220.", "24h.1.x", "24h.99999999999999999999.x", "24h.1795349220." + strings.Repeat("x", 65), "24h.1795349220.a/b", "24h.1795349220.a\n"} {
			if _, err := b.src.Answer(t.Context(), query); !errors.Is(err, usage.ErrNoQuery) {
				t.Errorf("%q: %v", query, err)
			}
		}
	})
}

// TestOnAnEmulator goes as far as MiniStack does: it takes searches of the log, though it does not know
// the command stats, and answers them. It has no SEARCH, and as it is installed none of the CBOR that the
// client speaks to CloudWatch: that counts as metrics that are not given.
func TestOnAnEmulator(t *testing.T) {
	endpoint := emulator.Start(t)
	c := emulator.Config(endpoint)
	b := &bench{t: t, now: time.Now()}
	b.src = b.on(c)
	if got := b.usage("1h"); len(got.Says) != 2 {
		t.Errorf("%v", got.Says)
	}
	if _, err := b.src.Ask(t.Context(), rangeOf(t, "1h")); err == nil {
		t.Error("a log group that there is not is searched")
	}
	logs, group := cloudwatchlogs.NewFromConfig(c), aws.String("/aws/lambda/mcp")
	_, err := logs.CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: group})
	require.OK(t, err)
	_, err = logs.CreateLogStream(t.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: group, LogStreamName: aws.String("s")})
	require.OK(t, err)
	_, err = logs.PutLogEvents(t.Context(), &cloudwatchlogs.PutLogEventsInput{LogGroupName: group, LogStreamName: aws.String("s"), LogEvents: []logtypes.InputLogEvent{
		{Message: aws.String(`{"audit":1,"kind":"call"}`), Timestamp: aws.Int64(b.now.Add(-time.Minute).UnixMilli())},
	}})
	require.OK(t, err)
	query, err := b.src.Ask(t.Context(), rangeOf(t, "1h"))
	require.OK(t, err)
	if a, err := b.src.Answer(t.Context(), query); err != nil || a.Running || a.Failed != "" || a.Uses == nil || !strings.Contains(a.Cost, "GB of the log") {
		t.Errorf("%+v, %v; %s", a, err, &b.log)
	}
}
