package cloudwatch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/aws/cloudwatch"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

var now = time.Date(2026, 11, 22, 12, 7, 0, 0, time.UTC)

// A wire simulates CloudWatch Logs without a network.
type wire struct {
	logs  func(call string, in map[string]any) (status int, body string)
	calls []string
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	_, call, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	w.calls = append(w.calls, call)
	var in map[string]any
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, err
	}
	status, answer := w.logs(call, in)
	body := io.NopCloser(strings.NewReader(answer))
	return &http.Response{StatusCode: status, Body: body, Request: r}, nil
}

// A bench is a source on a wire, with a clock.
type bench struct {
	*wire
	t   testing.TB
	now time.Time
	log bytes.Buffer
	src *cloudwatch.Source
}

func newBench(t testing.TB) *bench {
	b := &bench{wire: &wire{}, t: t, now: now}
	b.src = b.other()
	return b
}

// newSource returns a new source.
func (b *bench) newSource(c aws.Config) *cloudwatch.Source {
	return cloudwatch.New(c, "/aws/lambda/mcp", cloudwatch.Options{
		Now: func() time.Time { return b.now }, Log: slog.New(slog.NewTextHandler(&b.log, nil)), Stack: "prod",
	})
}

// other returns a new source on the same wire, like another instance of the function.
func (b *bench) other() *cloudwatch.Source {
	c := emulator.Config("http://aws.test")
	c.Region, c.HTTPClient = "eu-central-1", &http.Client{Transport: b.wire}
	c.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	return b.newSource(c)
}

func rangeOf(t testing.TB, name string) usage.Range {
	t.Helper()
	r, ok := usage.ParseRange(name)
	if !ok {
		t.Fatal(name)
	}
	return r
}

// The dashboard has CloudWatch's counts. The usage page names it without a call to AWS.
func TestTotalsAreOnTheDashboard(t *testing.T) {
	b := newBench(t)
	got, err := b.src.Usage(t.Context(), rangeOf(t, "24h"))
	require.OK(t, err)
	from, _ := got.Range.Bounds(now)
	if len(got.Charts()) != 0 || !got.Total.Start.Equal(from) || got.Uses != nil || b.calls != nil {
		t.Errorf("%+v, %v", got, b.calls)
	}
	if len(got.Says) != 1 || !strings.Contains(got.Says[0], "dashboard prod-eu-central-1.") {
		t.Errorf("%q", got.Says)
	}
	template, err := os.ReadFile("../../../infra/observability.yaml")
	require.OK(t, err)
	if name := `DashboardName: !Sub "${Stack}-${AWS::Region}"`; !strings.Contains(string(template), name) {
		t.Errorf("the template lacks %s", name)
	}
}

// completeSearch returns the answer of a complete search.
func completeSearch(rows ...string) string {
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
		t.Errorf("another range during the search: %v", err)
	}
	answer = completeSearch(
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
	if want := "The search read 2.5 GB of the log, about $0.013, computed with the price in " +
		"us-east-1 as of November 2026, $0.005 a GB; this gateway is in eu-central-1, whose " +
		"price may differ."; !strings.HasPrefix(a.Cost, want) {
		t.Errorf("%s", a.Cost)
	}
	calls := len(b.calls)
	b.now = now.Add(14 * time.Minute)
	if again, err := b.src.Ask(t.Context(), r); err != nil || again != query {
		t.Errorf("within 15 minutes: %q, %v", again, err)
	}
	if _, err := b.src.Answer(t.Context(), query); err != nil || len(b.calls) != calls {
		t.Errorf("Answer requests a known answer again: %v, %v", b.calls[calls:], err)
	}
	// Another instance reads the answer by the name of the search.
	if a, err := (&bench{wire: b.wire, t: t, now: b.now}).other().Answer(t.Context(), query); err != nil || a.Uses == nil || a.Range != "24h" {
		t.Errorf("another instance: %+v, %v", a, err)
	}
	b.now = now.Add(16 * time.Minute)
	if _, err := b.src.Answer(t.Context(), query); !errors.Is(err, usage.ErrNoQuery) {
		t.Errorf("after 15 minutes: %v", err)
	}
	if again, err := b.src.Ask(t.Context(), r); err != nil || again == query {
		t.Errorf("search after 15 minutes: %q, %v", again, err)
	}
}

func TestSearchFails(t *testing.T) {
	failure := func(kind string) string { return `{"__type":"` + kind + `","message":"arn:aws:logs:x"}` }
	for name, tc := range map[string]struct {
		status int
		answer string
		wait   time.Duration
		stop   int
		says   string
		again  bool // the search may be repeated immediately
	}{
		"failed":   {200, `{"status":"Failed","results":[],"statistics":{"bytesScanned":1e9}}`, 0, 200, "ended without an answer (CloudWatch Logs calls it failed)", true},
		"canceled": {200, `{"status":"Cancelled","results":[]}`, 0, 200, "calls it cancelled", true},
		"timeout":  {200, `{"status":"Timeout","results":[]}`, 0, 200, "calls it timeout", true},
		"too long": {200, `{"status":"Running","results":[]}`, 6 * time.Minute, 200, "longer than 5 minutes and was stopped", true},
		"not stopped": {200, `{"status":"Running","results":[]}`, 6 * time.Minute, 400,
			"could not be stopped;", true},
		"denied":        {400, failure("AccessDeniedException"), 0, 200, "did not return the answer", false},
		"forgotten":     {400, failure("ResourceNotFoundException"), 0, 200, "no longer has this search", true},
		"no JSON":       {200, `{`, 0, 200, "did not return the answer", false},
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
				t.Errorf("a second Ask: %d searches, %v", starts, err)
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
	t.Run("invalid names", func(t *testing.T) {
		b := newBench(t)
		b.logs = func(string, map[string]any) (int, string) { t.Error("CloudWatch is called"); return 400, "" }
		for _, query := range []string{"", "x", "30d.1795349220.x", "24h.1795349220.", "24h.1.x", "24h.99999999999999999999.x", "24h.1795349220." + strings.Repeat("x", 65), "24h.1795349220.a/b", "24h.1795349220.a\n"} {
			if _, err := b.src.Answer(t.Context(), query); !errors.Is(err, usage.ErrNoQuery) {
				t.Errorf("%q: %v", query, err)
			}
		}
	})
}

// TestOnAnEmulator tests only what MiniStack supports: it accepts searches of the log and answers
// them, but does not know the command stats.
func TestOnAnEmulator(t *testing.T) {
	endpoint := emulator.Start(t)
	c := emulator.Config(endpoint)
	b := &bench{t: t, now: time.Now()}
	b.src = b.newSource(c)
	if _, err := b.src.Ask(t.Context(), rangeOf(t, "1h")); err == nil {
		t.Error("a search of a missing log group succeeds")
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
