// Package observe says what the gateway does and where the time of a request goes: it puts usage
// metrics on log lines, and makes spans of the kinds of work.
//
// The metrics are in CloudWatch's embedded metric format: the platform turns the member "_aws" of a
// JSON line into metrics without a call or an agent. Every distinct value of a dimension is a
// metric that is billed, so dimensions are taken from bounded sets only (stack, function, tier,
// status, reason). Names of tools, agents and servers are ordinary members of the line, where Logs
// Insights can query them.
//
// The log line of a request has how long each kind of work took, and where an operator wants traces
// each is a span of OpenTelemetry. Spans have names of servers, tools and methods, and how they
// ended. They have no arguments, no results, no addresses of servers, no credentials and no agents:
// who asked is on the log line, which has the id of the trace. Where no traces are wanted a span is
// a look into the context, and allocates nothing.
//
// Source: "Specification: Embedded metric format", Amazon CloudWatch User Guide.
package observe

import (
	"log/slog"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// Namespace is the CloudWatch namespace of every metric.
const Namespace = "Portcullis"

// maxMember is the longest member that somebody else wrote, in bytes.
const maxMember = 256

// A Meter counts what a function does. A nil Meter counts nothing. It is safe for concurrent use.
type Meter struct {
	stack, function string
	now             func() time.Time
	memory          memory
}

// NewMeter returns a Meter whose metrics have the dimensions Stack and Function. All stacks of an
// account and region share the namespace, so without the first an alarm would count what another
// stack does. A nil now is time.Now.
func NewMeter(stack, function string, now func() time.Time) *Meter {
	if now == nil {
		now = time.Now
	}
	return &Meter{stack: stack, function: function, now: now}
}

// A metricLine has the counts of one log line. A line has the values of one name only once.
type metricLine struct {
	sets    []set
	members []slog.Attr
}

// A set is the metrics of one set of dimensions.
type set struct {
	Namespace  string
	Dimensions [][]string
	Metrics    []definition
}

type definition struct{ Name, Unit string }

type metricValue struct {
	name, unit string
	value      float64
}

func count(name string, n float64) metricValue { return metricValue{name, "Count", n} }

func milliseconds(name string, d time.Duration) metricValue {
	return metricValue{name, "Milliseconds", float64(d.Microseconds()) / 1000}
}

// add counts values under dimensions beside Stack and Function. property is a member that is no
// dimension; its value may be somebody else's text.
func (l *metricLine) add(dimensions []slog.Attr, property slog.Attr, values ...metricValue) {
	if len(values) == 0 {
		return
	}
	names := []string{"Stack", "Function"}
	for _, d := range dimensions {
		names = append(names, d.Key)
	}
	l.members = append(l.members, dimensions...)
	if property.Key != "" {
		l.members = append(l.members, slog.String(property.Key, text.Clip(property.Value.String(), maxMember)))
	}
	s := set{Namespace: Namespace, Dimensions: [][]string{names}}
	for _, v := range values {
		s.Metrics = append(s.Metrics, definition{v.name, v.unit})
		l.members = append(l.members, slog.Float64(v.name, v.value))
	}
	l.sets = append(l.sets, s)
}

// attrs returns the members of the line.
func (m *Meter) attrs(l *metricLine) []slog.Attr {
	if m == nil {
		return nil
	}
	header := struct {
		Timestamp         int64 // milliseconds since 1970
		CloudWatchMetrics []set
	}{m.now().UnixMilli(), l.sets}
	out := []slog.Attr{slog.String("Stack", m.stack), slog.String("Function", m.function)}
	return append(append(out, l.members...), slog.Any("_aws", header))
}
