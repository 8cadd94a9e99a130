package usage

import (
	"math"
	"strconv"
)

// A Chart is a set of related numbers over time. If Stacked, they are parts of a whole.
type Chart struct {
	Name    string   `json:"name" enum:"calls,locked,refused,errors,searches,latency"`
	Title   string   `json:"title"`
	Unit    string   `json:"unit" doc:"ms for durations; absent for counts"`
	Stacked bool     `json:"stacked" doc:"the series are parts of a whole: nothing is counted in two of them"`
	Series  []Series `json:"series" nullable:"false"`
}

// Series is one line of numbers of a [Chart].
type Series struct {
	Name   string    `json:"name"`
	Words  string    `json:"words" doc:"the name for a person"`
	Total  *float64  `json:"total,omitempty" doc:"over the whole range: the sum of counts, or the percentile over all of it; absent: not known"`
	Values []float64 `json:"values" nullable:"false" doc:"one for each bucket; a duration is 0 if there was no request"`
}

// Charts returns the numbers of the report; none if its source has no counts.
func (r Report) Charts() []Chart {
	out := []Chart{}
	if r.Buckets == nil {
		return out
	}
	for _, g := range groups() {
		c := Chart{Name: g.name, Title: g.title, Stacked: true}
		for _, m := range g.metrics {
			c.Series = append(c.Series, r.series(m.name, m.words, true, func(b Bucket) float64 { return float64(b.Counts[m.Metric]) }))
		}
		out = append(out, c)
	}
	return append(out, Chart{Name: "latency", Title: "How long requests took", Unit: "ms", Series: []Series{
		r.series("p50", "half of them, at most", r.Total.P50 > 0, func(b Bucket) float64 { return round(b.P50) }),
		r.series("p95", "95 of 100, at most", r.Total.P95 > 0, func(b Bucket) float64 { return round(b.P95) }),
	}})
}

func (r Report) series(name, words string, known bool, of func(Bucket) float64) Series {
	s := Series{Name: name, Words: words}
	for _, b := range r.Buckets {
		s.Values = append(s.Values, of(b))
	}
	if known {
		total := of(r.Total)
		s.Total = &total
	}
	return s
}

// round returns a time with three digits, its precision.
func round(ms float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(ms, 'g', 3, 64), 64)
	if err != nil || math.IsNaN(short) || math.IsInf(short, 0) {
		return 0 // no request takes this time
	}
	return short
}
