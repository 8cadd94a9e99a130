// Package usage says how agents use the tools: how many calls there were, which were refused and
// why, what failed, how long it took, and by tool and by agent.
//
// A [Source] answers that. On one machine it is a [Counter], which counts the lines of the audit as
// they are written, by minutes and by hours, into a [Store]. On AWS it is the driver in
// pkg/aws/cloudwatch, which searches the log for names of tools and agents when a person wants them.
// What a source does not know it leaves out and says so: a number that is missing is never a zero.
package usage

import (
	"context"
	"errors"
	"time"
)

// A Source knows how the tools are used.
type Source interface {
	// Usage returns what is known of r up to now. What cannot be read now is missing from the
	// report, which says so; an error means that nothing can be read.
	Usage(ctx context.Context, r Range) (Report, error)
}

// A ToolSource knows without being paid for it how one tool is used.
type ToolSource interface {
	// UsageOf returns how the tool with the id was called in the last week.
	UsageOf(ctx context.Context, id string) (Week, error)
}

// An AgentSource knows agents without being paid for it.
type AgentSource interface {
	// Agents returns the ids of the agents that called or searched in the last month, sorted.
	Agents(ctx context.Context) ([]string, error)
}

// An Asker is a [Source] that knows tools and agents only if somebody asks, because that costs.
type Asker interface {
	// Ask begins to look for the tools and agents of r, and returns a name of the question. What
	// was asked a short time ago is not asked again: then it is the same name. It returns a
	// [RefusedError] while another question is open.
	Ask(ctx context.Context, r Range) (query string, err error)

	// Answer returns what became of a question; [ErrNoQuery] if there is none of the name.
	Answer(ctx context.Context, query string) (Answer, error)
}

// ErrNoQuery says that there is no question of a name.
var ErrNoQuery = errors.New("no such question")

// A RefusedError says to a person why a question was not asked.
type RefusedError string

// Error implements error.
func (e RefusedError) Error() string { return string(e) }

// An Answer is what became of a question about tools and agents.
type Answer struct {
	Range   string
	AskedAt time.Time
	Running bool
	Failed  string // why there is no answer, for a person; "": there is one, or it is running
	Uses    *Uses  // nil: not yet, or it failed
	Cost    string // what it cost, and how that was reckoned
}

// A Range is how far back a report goes, in buckets of equal length.
type Range struct {
	Name    string
	Words   string // for a person
	Step    time.Duration
	Buckets int
}

// Ranges returns the ranges that there are, the shortest first.
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

// Bounds returns the span of r that ends with the bucket in which now lies. Buckets begin at whole
// multiples of their length, in UTC.
func (r Range) Bounds(now time.Time) (from, to time.Time) {
	to = now.UTC().Truncate(r.Step).Add(r.Step)
	return to.Add(-r.Step * time.Duration(r.Buckets)), to
}

// A Report is what is known of a range.
type Report struct {
	Range   Range
	Buckets []Bucket // oldest first; the last one is not over; nil: the source counts nothing
	Total   Bucket   // of the whole range
	Uses    *Uses    // nil: not known
	Says    []string // what is missing and why, each a sentence for a person
}

// A Bucket is what happened in a span of time.
type Bucket struct {
	Start    time.Time
	Counts   Counts
	P50, P95 float64 // of how long requests took, milliseconds; 0: not known, or there were none
}

// NewReport returns a report of r up to now in which nothing happened.
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
