// Package cloudwatch says how agents use the tools of a gateway on AWS.
//
// Totals are the metrics that the functions write on their log lines anyway. Names of tools and
// agents are no dimensions of them, since each value would be a metric that is billed; they stand on
// the lines, and a search of the log finds them when a person has it made.
package cloudwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
)

const (
	// function is the dimension of the metrics of what agents call.
	function = "mcp"

	keepTotals = 5 * time.Minute
	maxPages   = 10 // of an answer; there is one as a rule
)

// metricAPI is the part of *cloudwatch.Client that Metrics calls.
type metricAPI interface {
	GetMetricData(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error)
}

// Options are the knobs of the sources of this package.
type Options struct {
	Now    func() time.Time // nil: time.Now
	Log    *slog.Logger     // nil: none
	Region string           // of the gateway, for a person
	Stack  string           // whose metrics are read; those of other stacks are in the same namespace
}

func (o *Options) orDefault() (out Options) {
	if o != nil {
		out = *o
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	out.Log = cmp.Or(out.Log, slog.New(slog.DiscardHandler))
	return out
}

// Metrics is a [usage.Source] that knows totals alone. It is safe for concurrent use.
type Metrics struct {
	api metricAPI
	o   Options

	mu   sync.Mutex
	kept map[string]held // by range
}

type held struct {
	usage.Report
	at time.Time
}

var _ usage.Source = (*Metrics)(nil)

// NewMetrics returns a source of totals. It makes no call.
func NewMetrics(api metricAPI, o *Options) *Metrics {
	return &Metrics{api: api, o: o.orDefault(), kept: map[string]held{}}
}

// Usage implements [usage.Source]. What was read is good for five minutes; if it cannot be read again
// then, it is shown on, with its age.
func (m *Metrics) Usage(ctx context.Context, r usage.Range) (usage.Report, error) {
	m.mu.Lock()
	defer m.mu.Unlock() // of several people who ask at once, one asks CloudWatch
	now := m.o.Now()
	last, ok := m.kept[r.Name]
	if ok && now.Sub(last.at).Abs() < keepTotals {
		return last.Report, nil
	}
	report, err := m.read(ctx, r, now)
	if err == nil {
		m.kept[r.Name] = held{report, now}
		return report, nil
	}
	m.o.Log.LogAttrs(ctx, slog.LevelError, "metrics not read", slog.String("range", r.Name), slog.Any("error", err))
	if ok {
		out := last.Report
		out.Says = append(slices.Clone(out.Says), "CloudWatch did not give all metrics now, so these are of "+last.at.UTC().Format("2 January 15:04 UTC")+"; load the page again in a minute. The log of the admin function says why.")
		return out, nil
	}
	report.Says = append(report.Says, "CloudWatch did not give all metrics now, and those that it did not give are left out; load the page again in a minute. The log of the admin function says why.")
	return report, nil
}

// A stat is one metric of a query, and where its values belong.
type stat struct {
	name, stat string
	dimensions []string // names and values, beside Stack and Function
	set        func(b *usage.Bucket, v float64)
	lacks      []usage.Metric // if it cannot be read
	search     bool           // it may find nothing, and then there is no result
}

// counts returns a stat that counts m.
func counts(m usage.Metric, name string, dimensions ...string) stat {
	return stat{name, "Sum", dimensions, func(b *usage.Bucket, v float64) { b.Counts[m] += int(v) }, []usage.Metric{m}, false}
}

// plain returns the metrics of which all values of dimensions are known.
func plain() []stat {
	out := []stat{
		{"Latency", "p50", nil, func(b *usage.Bucket, v float64) { b.P50 = v }, nil, false},
		{"Latency", "p95", nil, func(b *usage.Bucket, v float64) { b.P95 = v }, nil, false},
	}
	for m, tier := range map[usage.Metric]tool.Tier{usage.CallsRead: tool.Read, usage.CallsWrite: tool.Write, usage.CallsDestructive: tool.Destructive} {
		out = append(out, counts(m, "ToolCalls", "Tier", tier.String()))
	}
	for m, status := range map[usage.Metric]lock.Status{
		usage.LockedServerDisabled: lock.ServerDisabled, usage.LockedByConfig: lock.DisabledByConfig, usage.LockedByUser: lock.DisabledByUser,
		usage.LockedPending: lock.PendingApproval, usage.LockedUnknown: lock.DisabledUnknown,
	} {
		out = append(out, counts(m, "BlockedCalls", "LockStatus", string(status)))
	}
	return out
}

// failed are the metrics that have the reason of a failure as a dimension as well: they are searched
// for by the outcome, since most reasons never occur, and each metric that is asked for is charged.
func failed() map[usage.Metric]outcome.Status {
	return map[usage.Metric]outcome.Status{usage.FailedTransient: outcome.Transient, usage.FailedPermanent: outcome.Permanent, usage.FailedDenied: outcome.Denied}
}

// lacking are the metrics that the functions do not write.
func lacking() []usage.Metric {
	return []usage.Metric{
		usage.CallsOther, usage.RefusedTier, usage.RefusedScope, usage.RefusedStopped, usage.RefusedFaulty, usage.FailedCancelled, usage.SearchesHit, usage.SearchesBarren,
	}
}

// read asks for everything. With an error it returns what it got.
func (m *Metrics) read(ctx context.Context, r usage.Range, now time.Time) (usage.Report, error) {
	out := usage.NewReport(r, now)
	out.Lacks = lacking()
	out.Says = []string{
		"Searches, calls of prompts and resources, calls that clients gave up, and refusals other than locks are not among the metrics of the functions. " +
			"Percentiles are known for each bar, not over the whole range, and are of all requests.",
	}
	if r.Step*time.Duration(r.Buckets) > 14*24*time.Hour {
		out.Says = append(out.Says, "Failures of a kind that has not occurred for two weeks are missing: CloudWatch no longer finds their metric.")
	}
	err := errors.Join(m.readPlain(ctx, &out), m.readFailed(ctx, &out))
	out.Sum()
	return out, err
}

func (m *Metrics) readPlain(ctx context.Context, out *usage.Report) error {
	stats := plain()
	var queries []types.MetricDataQuery
	for n, s := range stats {
		dimensions := []types.Dimension{{Name: aws.String("Stack"), Value: &m.o.Stack}, {Name: aws.String("Function"), Value: aws.String(function)}}
		for i := 0; i+1 < len(s.dimensions); i += 2 {
			dimensions = append(dimensions, types.Dimension{Name: &s.dimensions[i], Value: &s.dimensions[i+1]})
		}
		queries = append(queries, types.MetricDataQuery{Id: aws.String(fmt.Sprint("m", n)), MetricStat: &types.MetricStat{
			Metric: &types.Metric{Namespace: aws.String(observe.Namespace), MetricName: &s.name, Dimensions: dimensions},
			Period: aws.Int32(int32(out.Range.Step / time.Second)), Stat: &s.stat,
		}})
	}
	return m.ask(ctx, out, queries, stats)
}

func (m *Metrics) readFailed(ctx context.Context, out *usage.Report) error {
	var stats []stat
	var queries []types.MetricDataQuery
	for metric, status := range failed() {
		queries = append(queries, types.MetricDataQuery{Id: aws.String(fmt.Sprint("m", len(stats))), Expression: aws.String(fmt.Sprintf(
			`SUM(SEARCH('{%s,Function,Reason,Stack,Status} MetricName="UpstreamOutcomes" Stack="%s" Function="%s" Status="%s"', 'Sum', %d))`, observe.Namespace, m.o.Stack, function, status, int(out.Range.Step/time.Second)))})
		s := counts(metric, string(status))
		s.search = true
		stats = append(stats, s)
	}
	return m.ask(ctx, out, queries, stats)
}

// fill sets the values of a result from the given time on.
func (s stat) fill(out *usage.Report, from time.Time, result types.MetricDataResult) {
	for i, at := range result.Timestamps {
		if b := int(at.Sub(from) / out.Range.Step); !at.Before(from) && b < len(out.Buckets) && i < len(result.Values) {
			s.set(&out.Buckets[b], result.Values[i])
		}
	}
}

// ask asks for the stats and sets their values. What is not given as a whole is taken out, and is an
// error.
func (m *Metrics) ask(ctx context.Context, out *usage.Report, queries []types.MetricDataQuery, stats []stat) (err error) {
	from, to := out.Total.Start, out.Total.Start.Add(out.Range.Step*time.Duration(out.Range.Buckets))
	in := &cloudwatch.GetMetricDataInput{MetricDataQueries: queries, StartTime: &from, EndTime: &to, ScanBy: types.ScanByTimestampAscending}
	whole, answered := map[string]bool{}, false
	for range maxPages {
		var page *cloudwatch.GetMetricDataOutput
		if page, err = m.api.GetMetricData(ctx, in); err != nil {
			break
		}
		answered = page.NextToken == nil
		for _, result := range page.MetricDataResults {
			id := aws.ToString(result.Id)
			whole[id] = result.StatusCode == types.StatusCodeComplete || result.StatusCode == types.StatusCodePartialData && whole[id]
			var n int
			if _, err := fmt.Sscanf(id, "m%d", &n); err == nil && n >= 0 && n < len(stats) {
				stats[n].fill(out, from, result)
			}
		}
		if in.NextToken = page.NextToken; answered {
			break
		}
	}
	for n, s := range stats {
		complete, given := whole[fmt.Sprint("m", n)]
		if complete || s.search && !given && answered {
			continue
		}
		err = errors.Join(err, fmt.Errorf("%s %s %v was not given as a whole", s.name, s.stat, s.dimensions))
		out.Lacks = append(out.Lacks, s.lacks...)
		out.LacksTimes = out.LacksTimes || s.lacks == nil
	}
	return err
}
