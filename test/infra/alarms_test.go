package infra

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A dimension is a dimension of a metric.
type dimension struct{ Name, Value string }

// An alarm is an alarm of CloudWatch.
type alarm struct {
	AlarmName, Namespace, MetricName   string
	Statistic, StateValue, StateReason string
	ComparisonOperator                 string
	Period, EvaluationPeriods          int
	Threshold                          float64
	Dimensions                         []dimension
}

// A datum is a value of a metric, in the form of PutMetricData.
type datum struct {
	MetricName, Unit string
	Value            float64
	Dimensions       []dimension
}

// checkAlarms checks that health says that nobody gets the alarms. It then breaks the stack in four
// ways. Before, the metric of each alarm is below the threshold. After it, the metric with the
// dimensions of the alarm reaches the threshold, and the alarm fires. The function behind /mcp must
// have 128 MB, and the topic of the alarms no subscription.
//
// The emulator counts the errors of functions itself. It does not read metrics from log lines, so
// the test reads them from the log groups as CloudWatch does, and puts them into the emulator.
func (s *stack) checkAlarms() {
	s.t.Helper()
	var health struct{ Reasons []struct{ Code string } }
	s.Ask(http.StatusOK, "/admin/health", nil, &health)
	if !strings.Contains(fmt.Sprint(health), "alarm_topic_unconfirmed") {
		s.t.Errorf("health with a topic without subscriptions: %v", health)
	}
	bulky := make([]json.RawMessage, 30)
	for i := range bulky {
		text := strings.Repeat(fmt.Sprintf("Text %d. ", i), 12_000)
		bulky[i] = upstreamtest.Tool(fmt.Sprintf("tool_%d", i), text, `{"readOnlyHint":true}`)
	}
	server := upstreamtest.New(s.t, upstreamtest.Options{Tools: bulky})
	many := make([]string, 16)
	for i := range many {
		many[i] = fmt.Sprintf(`"bulky-%d":{"url":%q}`, i, server.URL)
	}
	functions := s.functions()
	sync := func(config string) {
		s.putConfig(config)
		s.invoke(functions["SyncFunction"], "{}")
	}
	for _, c := range []struct {
		alarms, how string
		force       func()
	}{
		{"MemoryTooSmall", "a sync of a big catalog, whose log line has the metric", func() {
			sync(`{"mcpServers":{` + strings.Join(many, ",") + `}}`)
		}},
		{"ConfigStale", "a sync with a broken config, whose log line has the metric", func() {
			sync(`{"mcpServers":`)
		}},
		// The log lines have SyncRuns, and the emulator counts Errors.
		{"SyncFailed SyncErrors", "three syncs of a required server that is down", func() {
			for range 3 {
				sync(`{"mcpServers":{"down":{"url":"http://127.0.0.1:9/mcp","required":true}}}`)
			}
		}},
		{"McpErrors", "an event that is no request; the emulator counts Errors", func() {
			s.invoke(functions["McpFunction"], "[]")
		}},
	} {
		for alarm := range strings.FieldsSeq(c.alarms) {
			if a := s.alarm(alarm); a.breaches(s.statistic(a)) {
				s.t.Errorf("the metric of %s is at the threshold before: %v", alarm, s.statistic(a))
			}
		}
		began := time.Now()
		c.force()
		s.publishMetrics(began)
		for alarm := range strings.FieldsSeq(c.alarms) {
			a := s.alarm(alarm)
			if values := s.statistic(a); !a.breaches(values) {
				s.t.Errorf(
					"after %s, the metric %s of %v has the values %v; the alarm %s wants %s %v",
					c.how,
					a.MetricName,
					a.Dimensions,
					values,
					alarm,
					a.ComparisonOperator,
					a.Threshold,
				)
			}
			local.Until(s.t, alarm+" fires", func() bool {
				return s.alarm(alarm).StateValue == "ALARM"
			})
		}
	}
}

// functions returns the names of the functions by their ids in the template.
func (s *stack) functions() map[string]string {
	s.t.Helper()
	url := s.endpoint + "/2015-03-31/functions/"
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, nil)
	require.OK(s.t, err)
	answer, err := http.DefaultClient.Do(r)
	require.OK(s.t, err)
	defer answer.Body.Close()
	var list struct {
		Functions []struct{ FunctionName string }
	}
	require.OK(s.t, json.NewDecoder(answer.Body).Decode(&list))
	names := map[string]string{}
	for _, f := range list.Functions {
		if rest, ok := strings.CutPrefix(f.FunctionName, s.name+"-"); ok {
			id, _, _ := strings.Cut(rest, "-")
			names[id] = f.FunctionName
		}
	}
	return names
}

// putConfig stores a config without the checks of `make push-config`.
func (s *stack) putConfig(text string) {
	s.t.Helper()
	_, err := emulator.S3(s.endpoint).PutObject(s.t.Context(), &s3.PutObjectInput{
		Bucket: aws.String(s.outputs["BucketName"]), Key: aws.String("config/mcp_config.json"),
		Body: strings.NewReader(text),
	})
	require.OK(s.t, err)
}

// invoke runs a function and waits for its end.
func (s *stack) invoke(function, event string) {
	s.t.Helper()
	client := awsjson.New(emulator.Config(s.endpoint), "lambda")
	path := "/2015-03-31/functions/" + function + ":live/invocations"
	_, err := client.Post(s.t.Context(), path, nil, []byte(event))
	require.OK(s.t, err)
}

// monitoring calls an operation of CloudWatch.
func (s *stack) monitoring(operation string, in, out any) {
	s.t.Helper()
	client := awsjson.New(emulator.Config(s.endpoint), "monitoring")
	require.OK(s.t, client.Call(s.t.Context(), "GraniteServiceVersion20100801."+operation, in, out))
}

// alarm returns the alarm with this id in a template of the stack.
func (s *stack) alarm(id string) alarm {
	s.t.Helper()
	var out struct{ MetricAlarms []alarm }
	in := map[string]any{"AlarmNamePrefix": s.name, "MaxRecords": 100}
	s.monitoring("DescribeAlarms", in, &out)
	i := slices.IndexFunc(out.MetricAlarms, func(a alarm) bool {
		return strings.Contains(a.AlarmName, "-"+id+"-")
	})
	if i < 0 {
		s.t.Fatalf("the stack has no alarm %s: %v", id, out.MetricAlarms)
	}
	return out.MetricAlarms[i]
}

// statistic returns the values that the alarm compares, from the metric with its dimensions. The
// emulator itself ignores the dimensions of an alarm.
func (s *stack) statistic(a alarm) (values []float64) {
	s.t.Helper()
	var out struct{ Datapoints []map[string]any }
	s.monitoring("GetMetricStatistics", map[string]any{
		"Namespace": a.Namespace, "MetricName": a.MetricName, "Dimensions": a.Dimensions,
		"Period": a.Period, "Statistics": []string{a.Statistic},
		"StartTime": time.Now().Add(-time.Hour).Unix(), "EndTime": time.Now().Add(time.Hour).Unix(),
	}, &out)
	for _, point := range out.Datapoints {
		values = append(values, point[a.Statistic].(float64))
	}
	return values
}

// breaches reports whether one of the values is over the threshold.
func (a alarm) breaches(values []float64) bool {
	return slices.ContainsFunc(values, func(v float64) bool {
		reaches := a.ComparisonOperator == "GreaterThanOrEqualToThreshold"
		return v > a.Threshold || reaches && v == a.Threshold
	})
}

// publishMetrics puts the metrics of all log lines since a time into the emulator, as CloudWatch
// does with lines in the embedded metric format.
func (s *stack) publishMetrics(since time.Time) {
	s.t.Helper()
	logs := awsjson.New(emulator.Config(s.endpoint), "logs")
	for _, group := range s.logGroups() {
		var out struct {
			Events []struct{ Message string }
		}
		in := map[string]any{"logGroupName": group, "startTime": since.UnixMilli(), "limit": 10000}
		require.OK(s.t, logs.Call(s.t.Context(), "Logs_20140328.FilterLogEvents", in, &out))
		for _, e := range out.Events {
			for namespace, data := range metricsOfLine(e.Message) {
				in := map[string]any{"Namespace": namespace, "MetricData": data}
				s.monitoring("PutMetricData", in, new(any))
			}
		}
	}
}

// metricsOfLine returns the values of a log line by namespace, or nothing if the line has none.
func metricsOfLine(line string) map[string][]datum {
	var header struct {
		AWS struct {
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
	}
	var members map[string]any
	err := json.Unmarshal([]byte(line), &members)
	if err != nil || json.Unmarshal([]byte(line), &header) != nil {
		return nil // a line of Lambda
	}
	out := map[string][]datum{}
	for _, set := range header.AWS.CloudWatchMetrics {
		for _, names := range set.Dimensions {
			var dimensions []dimension
			for _, name := range names {
				dimensions = append(dimensions, dimension{name, members[name].(string)})
			}
			for _, m := range set.Metrics {
				d := datum{m.Name, m.Unit, members[m.Name].(float64), dimensions}
				out[set.Namespace] = append(out[set.Namespace], d)
			}
		}
	}
	return out
}
