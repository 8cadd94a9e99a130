// Package metrics writes usage metrics as CloudWatch embedded metric format:
// one JSON line on standard output for each event, which the platform turns
// into metrics without a call or an agent.
//
// Every distinct value of a dimension is a metric that is billed, so dimensions
// are taken from bounded sets only (function, tier, status, reason). Names of
// tools, agents and servers go on the line as properties, where Logs Insights
// can query them.
//
// Source: "Specification: Embedded metric format", Amazon CloudWatch User Guide.
package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Namespace is the CloudWatch namespace of every metric.
const Namespace = "Portcullis"

// A Unit is a CloudWatch unit.
type Unit string

// The units in use.
const (
	Count        Unit = "Count"
	Milliseconds Unit = "Milliseconds"
	Seconds      Unit = "Seconds"
)

// Limits of the format.
const (
	maxMetrics    = 100
	maxDimensions = 30
	maxValue      = 1024 // bytes of a dimension's value
	maxProperty   = 256  // bytes of a property that somebody else wrote
)

// A Metric is one number of an event.
type Metric struct {
	Name  string
	Unit  Unit
	Value float64
}

// A Field is a dimension or a property of an event.
type Field struct {
	Name  string
	Value string
}

// An Event is one line: numbers, the bounded dimensions under which they are
// kept, and properties that can only be queried.
type Event struct {
	Metrics    []Metric
	Dimensions []Field
	Properties []Field
}

// An Emitter writes events. A nil Emitter writes nothing. It is safe for
// concurrent use.
type Emitter struct {
	mu       sync.Mutex
	w        io.Writer
	function string
	now      func() time.Time
}

// New returns an Emitter on w whose metrics have the dimension Function. A nil
// now is time.Now.
func New(w io.Writer, function string, now func() time.Time) *Emitter {
	if now == nil {
		now = time.Now
	}
	return &Emitter{w: w, function: function, now: now}
}

// Emit writes e as one line. A failed write is dropped: counting a request
// must never fail it. An event that breaks the format is a fault of this
// program and is returned, for tests; callers in the request path ignore it.
func (e *Emitter) Emit(ev Event) error {
	if e == nil {
		return nil
	}
	line, err := e.encode(ev)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, err = e.w.Write(line)
	return err
}

type definition struct {
	Name string `json:"Name"`
	Unit Unit   `json:"Unit"`
}

type directive struct {
	Namespace  string       `json:"Namespace"`
	Dimensions [][]string   `json:"Dimensions"`
	Metrics    []definition `json:"Metrics"`
}

type header struct {
	Timestamp         int64       `json:"Timestamp"` // milliseconds since 1970
	CloudWatchMetrics []directive `json:"CloudWatchMetrics"`
}

func (e *Emitter) encode(ev Event) ([]byte, error) {
	dims := append([]Field{{"Function", e.function}}, ev.Dimensions...)
	if len(ev.Metrics) == 0 || len(ev.Metrics) > maxMetrics || len(dims) > maxDimensions {
		return nil, fmt.Errorf("event with %d metrics and %d dimensions is outside the format", len(ev.Metrics), len(dims))
	}
	now := e.now()
	head := header{now.UnixMilli(), []directive{{Namespace: Namespace, Dimensions: [][]string{{}}}}}
	var line object
	line.add("level", "INFO")
	line.add("timestamp", now.UTC().Format(time.RFC3339Nano))
	for _, d := range dims {
		if d.Value == "" || len(d.Value) > maxValue {
			return nil, fmt.Errorf("dimension %q has a value of %d bytes", d.Name, len(d.Value))
		}
		head.CloudWatchMetrics[0].Dimensions[0] = append(head.CloudWatchMetrics[0].Dimensions[0], d.Name)
		line.add(d.Name, d.Value)
	}
	for _, m := range ev.Metrics {
		head.CloudWatchMetrics[0].Metrics = append(head.CloudWatchMetrics[0].Metrics, definition{m.Name, m.Unit})
		line.add(m.Name, m.Value)
	}
	for _, p := range ev.Properties {
		if len(p.Value) > maxProperty {
			p.Value = p.Value[:maxProperty]
		}
		line.add(p.Name, p.Value)
	}
	line.add("_aws", head)
	return line.bytes()
}

// An object is a JSON object under construction whose keys keep their order,
// so that a line reads the same each time, and do not repeat.
type object struct {
	buf  bytes.Buffer
	keys []string
	err  error
}

func (o *object) add(key string, value any) {
	if slices.Contains(o.keys, key) {
		o.err = fmt.Errorf("field %q stands twice in one event", key)
		return
	}
	k, err := json.Marshal(key)
	if err == nil {
		var v []byte
		if v, err = json.Marshal(value); err == nil {
			if len(o.keys) > 0 {
				o.buf.WriteByte(',')
			}
			o.buf.Write(k)
			o.buf.WriteByte(':')
			o.buf.Write(v)
			o.keys = append(o.keys, key)
			return
		}
	}
	o.err = err
}

func (o *object) bytes() ([]byte, error) {
	if o.err != nil {
		return nil, o.err
	}
	return append(append([]byte{'{'}, o.buf.Bytes()...), '}', '\n'), nil
}
