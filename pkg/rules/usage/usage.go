// Package usage reports how agents use the tools: how many calls there were, which were refused
// and why, which failed, how long they took, and by tool and by agent.
//
// A [Source] makes these reports. On one machine it is a [Counter], which counts audit lines as
// they are written, by minutes and by hours, into a [Store]. On AWS it is the driver in
// pkg/aws/cloudwatch, which searches the log for names of tools and agents when a person requests
// them. A report says what its source does not know: a missing number is never a zero.
package usage

import (
	"context"
	"errors"
	"time"
)

// A Source reports how the tools are used.
type Source interface {
	// Usage returns the report of r up to now. The report says which parts cannot be read now; an
	// error means that nothing can be read.
	Usage(ctx context.Context, r Range) (Report, error)
}

// A ToolSource reports the usage of one tool at no cost.
type ToolSource interface {
	// UsageOf returns the calls of the tool with the id in the last week.
	UsageOf(ctx context.Context, id string) (Week, error)
}

// An AgentSource lists agents at no cost.
type AgentSource interface {
	// Agents returns the agents that called or searched in the last month, sorted by id.
	Agents(ctx context.Context) ([]AgentUse, error)

	// ToolsOf returns the tools that an agent called in the last month, sorted by id.
	ToolsOf(ctx context.Context, agent string) ([]Row, error)
}

// An AgentUse says what an agent did in the last month.
type AgentUse struct {
	Row
	Last time.Time // beginning of the last counted hour, or minute if it is recent, in which it called or searched
}

// An Asker is a [Source] that finds tools and agents only on request, because that costs money.
type Asker interface {
	// Ask starts a query for the tools and agents of r, and returns its name. If the same query
	// ran a short time ago, it returns that query's name. It returns a [RefusedError] while
	// another query runs.
	Ask(ctx context.Context, r Range) (query string, err error)

	// Answer returns the state of a query; [ErrNoQuery] if there is none with the name.
	Answer(ctx context.Context, query string) (Answer, error)
}

// ErrNoQuery says that there is no query with this name.
var ErrNoQuery = errors.New("no such query")

// A RefusedError tells a person why a query was refused.
type RefusedError string

// Error implements error.
func (e RefusedError) Error() string { return string(e) }

// An Answer is the state of a query for tools and agents.
type Answer struct {
	Range   string
	AskedAt time.Time
	Running bool
	Failed  string // why there is no result, for a person; "": there is one, or the query runs
	Uses    *Uses  // nil: not yet, or it failed
	Cost    string // the cost, and how it was computed
}

// A Range is the time that a report covers, in buckets of equal length.
type Range struct {
	Name    string
	Words   string // for a person
	Step    time.Duration
	Buckets int
}

// Ranges returns all ranges, the shortest first.
func Ranges() []Range {
	return []Range{
		{"1h", "last hour", 2 * time.Minute, 30},
		{"24h", "last 24 hours", time.Hour, 24},
		{"7d", "last 7 days", 6 * time.Hour, 28},
		{"30d", "last 30 days", day, 30},
	}
}

// ParseRange returns the range of the name.
func ParseRange(name string) (Range, bool) {
	for _, r := range Ranges() {
		if r.Name == name {
			return r, true
		}
	}
	return Range{}, false
}

// Bounds returns the span of r that ends with the bucket of now. Buckets begin at whole multiples
// of their length, in UTC.
func (r Range) Bounds(now time.Time) (from, to time.Time) {
	to = now.UTC().Truncate(r.Step).Add(r.Step)
	return to.Add(-r.Step * time.Duration(r.Buckets)), to
}

// A Report has the counts of a range.
type Report struct {
	Range   Range
	Buckets []Bucket // oldest first; the last one is not over; nil: the source has no counts
	Total   Bucket   // of the whole range
	Uses    *Uses    // nil: unknown
	Says    []string // what is missing and why, in sentences for a person
}

// A Bucket has the counts of a span of time.
type Bucket struct {
	Start    time.Time
	Counts   Counts
	P50, P95 float64 // durations of requests, milliseconds; 0: unknown, or no requests
}

// NewReport returns an empty report of r up to now.
func NewReport(r Range, now time.Time) Report {
	from, _ := r.Bounds(now)
	out := Report{Range: r, Buckets: make([]Bucket, r.Buckets), Total: Bucket{Start: from}}
	for i := range out.Buckets {
		out.Buckets[i].Start = from.Add(r.Step * time.Duration(i))
	}
	return out
}

// Sum sets the counts of the total.
func (r *Report) Sum() {
	r.Total.Counts = Counts{}
	for i := range r.Buckets {
		r.Total.Counts.Add(&r.Buckets[i].Counts)
	}
}
