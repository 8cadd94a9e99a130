// Package observe measures what the gateway does and how requests spend their time. It adds usage
// metrics to log lines, and makes a span for each kind of work.
//
// The metrics use CloudWatch's embedded metric format: the platform turns the member "_aws" of a
// JSON line into metrics without a call or an agent. CloudWatch bills each distinct value of a
// dimension as a metric. So dimensions use bounded sets only (stack, function, tier, status,
// reason). Names of tools, agents and servers are ordinary members of the line, where Logs Insights
// can query them.
//
// The log line of a request says how long each kind of work took. If the operator configures
// traces, each kind is also an OpenTelemetry span. A span has names of servers, tools and methods,
// and its result. It has no arguments, results, server addresses, credentials or agents. The log
// line names the agent and has the id of the trace. Without traces, a span costs one context lookup
// and no allocation.
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

// maxMember is the longest member from outside the program, in bytes.
const maxMember = 256

// A Meter counts what a function does. A nil Meter counts nothing. It is safe for concurrent use.
type Meter struct {
	stack, function string
	now             func() time.Time
	memory          memory
}

// NewMeter returns a Meter whose metrics have the dimensions Stack and Function. All stacks of an
// account and region share the namespace. Without Stack, an alarm would count other stacks, too. If
// now is nil, it uses time.Now.
func NewMeter(stack, function string, now func() time.Time) *Meter {
	if now == nil {
		now = time.Now
	}
	return &Meter{stack: stack, function: function, now: now}
}

// A metricLine has the counts of one log line. Each metric name has one list of values in the line.
type metricLine struct {
	sets    []set
	members []slog.Attr
}

// A set has the metrics of one set of dimensions.
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

// add counts values under dimensions, in addition to Stack and Function. property is a member that
// is no dimension. Its value may be text from outside the program.
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
