// Package metrics serves the metrics of a gateway on one machine to Prometheus.
//
// The counters and histograms get the same values as CloudWatch, from [observe.Meter]. The gauges
// are read when Prometheus asks. Labels have bounded sets of values: tiers, statuses, reasons, and
// the servers of the config. Agents, people and tools are no labels, because a caller could make
// any number of them.
//
// The functions on AWS do not link this package: their platform reads metrics from the log.
package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An Exporter keeps what a gateway counts. It implements [observe.Recorder].
type Exporter struct {
	registry *prometheus.Registry
	series   map[string]series // by the name of the metric in CloudWatch
}

// A metric is a metric of CloudWatch that the exporter keeps. It is a histogram if it has buckets,
// a counter if its name ends in _total, and otherwise a gauge with the last value.
type metric struct {
	cloud, name, help string
	keys              []string // dimensions and properties of CloudWatch whose values are labels
	buckets           []float64
}

// metrics are all metrics that a [observe.Meter] counts, except those that only a function has.
var metrics = []metric{
	{"Requests", "portcullis_requests_total", "Requests of agents to /mcp.", nil, nil},
	{"Errors", "portcullis_request_errors_total", "Requests that failed in the gateway.", nil, nil},
	{"Latency", "portcullis_request_duration_seconds",
		"Time from the first byte of a request to the last byte of its answer.", nil, requestTimes},
	{"ToolCalls", "portcullis_tool_calls_total",
		"Calls that were sent to a server, by the tier of the tool.", []string{"Tier"}, nil},
	{"BlockedCalls", "portcullis_refused_calls_total",
		"Calls that were refused because their tool is locked, by the status of the tool.",
		[]string{"LockStatus"}, nil},
	{"IncludeDisabled", "portcullis_searches_with_locked_total",
		"Searches that asked for locked tools, too.", nil, nil},
	{"Nudges", "portcullis_search_notices_total",
		"Searches whose answer says that locked tools match better.", nil, nil},
	{"UpstreamOutcomes", "portcullis_upstream_outcomes_total",
		"Loads and calls of a server, by how they ended.",
		[]string{"server", "Status", "Reason"}, nil},
	{"UpstreamDuration", "portcullis_upstream_duration_seconds",
		"Time of a load or a call of a server.", []string{"server"}, upstreamTimes},
	{"SyncRuns", "portcullis_syncs_total", "Syncs, by their result.", []string{"Result"}, nil},
	{"SyncDuration", "portcullis_sync_duration_seconds",
		"Time of a sync.", []string{"Result"}, syncTimes},
	{"SyncServers", "portcullis_sync_servers", "Servers of the last sync.", nil, nil},
	{"SyncTools", "portcullis_sync_tools", "Tools that the last sync found.", nil, nil},
	{"NoticesGivenUp", "portcullis_notices_given_up_total",
		"Notices that a target will not get.", nil, nil},
}

// labels are the names of labels by the dimension or property that they come from.
var labels = map[string]string{
	"Tier": "tier", "LockStatus": "status", "Status": "status", "Reason": "reason",
	"Result": "result", "server": "server",
}

// Buckets of the histograms, in seconds. A call may take minutes. Each server has its own buckets,
// so it has fewer.
var (
	requestTimes = []float64{
		.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300,
	}
	upstreamTimes = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 120}
	syncTimes     = []float64{.1, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300}
)

// New returns an Exporter that has counted nothing.
func New() *Exporter {
	x := &Exporter{registry: prometheus.NewRegistry(), series: map[string]series{}}
	process := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	x.registry.MustRegister(collectors.NewGoCollector(), process)
	for _, m := range metrics {
		s := newSeries(m)
		x.series[m.cloud] = s
		x.registry.MustRegister(s.all)
	}
	// A rate is only right if a series begins at 0.
	for _, t := range []tool.Tier{tool.Read, tool.Write, tool.Destructive} {
		x.series["ToolCalls"].add([]string{t.String()}, 0)
	}
	for _, status := range lock.Statuses() {
		x.series["BlockedCalls"].add([]string{string(status)}, 0)
	}
	for _, result := range []string{"ok", "failed"} {
		x.series["SyncRuns"].add([]string{result}, 0)
	}
	return x
}

// series are the series of one metric, one for each combination of the labels' values.
type series struct {
	keys []string
	all  prometheus.Collector
	add  func(values []string, n float64)
}

func newSeries(m metric) series {
	names := make([]string, len(m.keys))
	for i, key := range m.keys {
		names[i] = labels[key]
	}
	s := series{keys: m.keys}
	switch {
	case m.buckets != nil:
		o := prometheus.HistogramOpts{Name: m.name, Help: m.help, Buckets: m.buckets}
		all := prometheus.NewHistogramVec(o, names)
		s.all, s.add = all, func(v []string, n float64) { all.WithLabelValues(v...).Observe(n) }
	case strings.HasSuffix(m.name, total):
		all := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.name, Help: m.help}, names)
		s.all, s.add = all, func(v []string, n float64) { all.WithLabelValues(v...).Add(n) }
		if len(names) == 0 {
			s.add(nil, 0) // as in New
		}
	default:
		all := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.name, Help: m.help}, names)
		s.all, s.add = all, func(v []string, n float64) { all.WithLabelValues(v...).Set(n) }
	}
	return s
}

// total ends the name of each counter, by convention.
const total = "_total"

// Record implements [observe.Recorder]. It ignores metrics that only a function has.
func (x *Exporter) Record(s observe.Sample) {
	for _, v := range s.Values {
		to, ok := x.series[v.Name]
		if !ok {
			continue
		}
		values := make([]string, len(to.keys))
		for i, key := range to.keys {
			values[i] = strings.ToValidUTF8(s.Label(key), "?") // other text would panic
		}
		n := v.Value
		if v.Unit == observe.Milliseconds {
			n /= 1000
		}
		to.add(values, n)
	}
}
