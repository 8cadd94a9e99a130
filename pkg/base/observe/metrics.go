// Package observe measures what the gateway does and how requests spend their time. It adds usage
// metrics to log lines, and makes a span for each kind of work.
//
// In a function, the metrics use CloudWatch's embedded metric format: the platform turns the member
// "_aws" of a JSON line into metrics without a call or an agent. CloudWatch bills each distinct
// value of a dimension as a metric. So dimensions use bounded sets only (stack, function, tier,
// status, reason). Names of tools, agents and servers are ordinary members of the line, where Logs
// Insights can query them. On a server, a [Recorder] gets the same values instead of the log.
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

// A Meter counts what a program does. A nil Meter counts nothing. It is safe for concurrent use.
type Meter struct {
	stack, function string
	recorder        Recorder // nil: the log lines have the counts
	now             func() time.Time
	memory          memory
}

// NewMeter returns a Meter that adds its counts to log lines. Its metrics have the dimensions Stack
// and Function. All stacks of an account and region share the namespace. Without Stack, an alarm
// would count other stacks, too. If now is nil, it uses time.Now.
func NewMeter(stack, function string, now func() time.Time) *Meter {
	if now == nil {
		now = time.Now
	}
	return &Meter{stack: stack, function: function, now: now}
}

// NewRecordingMeter returns a Meter that passes its counts to r, and adds nothing to log lines.
func NewRecordingMeter(r Recorder) *Meter { return &Meter{recorder: r, now: time.Now} }

// Logs reports whether the meter adds its counts to log lines.
func (m *Meter) Logs() bool { return m != nil && m.recorder == nil }

// A Recorder gets the counts of a [Meter], from any goroutine.
type Recorder interface {
	Record(Sample)
}

// A Sample has the values that were counted under one set of dimensions.
type Sample struct {
	Dimensions []slog.Attr // bounded
	Property   slog.Attr   // the name of a server or of a tool; zero: none
	Values     []Value
}

// Label returns the dimension or the property with a key, or "".
func (s Sample) Label(key string) string {
	for _, d := range s.Dimensions {
		if d.Key == key {
			return d.Value.String()
		}
	}
	if s.Property.Key == key {
		return s.Property.Value.String()
	}
	return ""
}

// A Value is the value of one metric.
type Value struct {
	Name, Unit string
	Value      float64
}

// A metricLine has the counts of one log line. Each metric name has one list of values in the line.
type metricLine struct {
	samples []Sample
	members []slog.Attr // that are no counts
}

// A set has the metrics of one set of dimensions.
type set struct {
	Namespace  string
	Dimensions [][]string
	Metrics    []definition
}

type definition struct{ Name, Unit string }

// Milliseconds is the unit of durations.
const Milliseconds = "Milliseconds"

func count(name string, n float64) Value { return Value{name, "Count", n} }

func milliseconds(name string, d time.Duration) Value {
	return Value{name, Milliseconds, float64(d.Microseconds()) / 1000}
}

// add counts values under dimensions, in addition to Stack and Function. property is a member that
// is no dimension. Its value may be text from outside the program.
func (l *metricLine) add(dimensions []slog.Attr, property slog.Attr, values ...Value) {
	if len(values) > 0 {
		l.samples = append(l.samples, Sample{dimensions, property, values})
	}
}

// attrs returns the members of the line. If the meter has a recorder, attrs passes the counts to
// the recorder, and returns nil.
func (m *Meter) attrs(l *metricLine) []slog.Attr {
	if m == nil {
		return nil
	}
	if m.recorder != nil {
		for _, s := range l.samples {
			m.recorder.Record(s)
		}
		return nil
	}
	header := struct {
		Timestamp         int64 // milliseconds since 1970
		CloudWatchMetrics []set
	}{Timestamp: m.now().UnixMilli()}
	out := []slog.Attr{slog.String("Stack", m.stack), slog.String("Function", m.function)}
	for _, s := range l.samples {
		names := []string{"Stack", "Function"}
		for _, d := range s.Dimensions {
			names = append(names, d.Key)
		}
		out = append(out, s.Dimensions...)
		if p := s.Property; p.Key != "" {
			out = append(out, slog.String(p.Key, text.Clip(p.Value.String(), maxMember)))
		}
		in := set{Namespace: Namespace, Dimensions: [][]string{names}}
		for _, v := range s.Values {
			in.Metrics = append(in.Metrics, definition{v.Name, v.Unit})
			out = append(out, slog.Float64(v.Name, v.Value))
		}
		header.CloudWatchMetrics = append(header.CloudWatchMetrics, in)
	}
	return append(append(out, l.members...), slog.Any("_aws", header))
}
