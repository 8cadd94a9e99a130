package console

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
)

// A drawing is a chart as SVG and as a table.
type drawing struct {
	usage.Chart
	Width   int     // of the SVG; it is drawnHeight high
	Most    string  // what the full height stands for
	Sum     string  // of all series, if they are parts of a whole
	Desc    string  // what there is to see
	First   string  // when the first bucket begins
	Bars    []bars  // the series of which there is anything
	Rows    []point // the buckets of which there is anything
	Buckets int
}

// Bars are a series as the outline of its bars.
type bars struct {
	usage.Series
	Number int    // chooses the color
	Path   string // as SVG has it
	Sum    string
}

// A point is a bucket of the table: the numbers of [drawing.Bars].
type point struct {
	At     string
	Values []string
}

// How a bucket is drawn.
const (
	drawnHeight = 100
	barStep     = 10
	barWidth    = 8
)

// draw returns the drawing of a chart whose first bucket begins at from. Series of a whole are piled
// up; others stand before each other, the last behind.
func draw(c usage.Chart, from time.Time, step time.Duration) drawing {
	d := drawing{Chart: c, First: clock(from, step)}
	for n, s := range c.Series {
		d.Buckets = max(d.Buckets, len(s.Values))
		if shown := barsOf(s, n, c.Unit); shown != nil {
			d.Bars = append(d.Bars, *shown)
		}
	}
	tops, most, at := make([]float64, d.Buckets), 0.0, 0
	for i := range tops {
		for _, s := range d.Bars {
			if c.Stacked {
				tops[i] += s.Values[i]
			} else {
				tops[i] = max(tops[i], s.Values[i])
			}
		}
		if tops[i] > most {
			most, at = tops[i], i
		}
	}
	d.Width = d.Buckets * barStep
	bases := make([]float64, d.Buckets)
	for n := range d.Bars {
		d.Bars[n].Path = outline(d.Bars[n].Values, bases, most, c.Stacked)
	}
	for i := range tops {
		if tops[i] == 0 {
			continue
		}
		p := point{At: clock(from.Add(time.Duration(i)*step), step)}
		for _, s := range d.Bars {
			p.Values = append(p.Values, numeral(s.Values[i]))
		}
		d.Rows = append(d.Rows, p)
	}
	d.Most = strings.TrimSpace(numeral(most) + " " + c.Unit)
	d.Desc = "Nothing happened."
	if most > 0 {
		d.Desc = fmt.Sprintf("%d bars of %s each. The highest is %s, at %s UTC. The table beneath has every number.", d.Buckets, span(step), d.Most, clock(from.Add(time.Duration(at)*step), step))
	}
	if c.Stacked {
		sum := 0.0
		for _, s := range c.Series {
			if s.Total != nil {
				sum += *s.Total
			}
		}
		d.Sum = numeral(sum)
	}
	return d
}

// Behind returns the bars with those that are drawn first, because the others stand before them.
func (d drawing) Behind() []bars {
	out := slices.Clone(d.Bars)
	slices.Reverse(out)
	return out
}

// barsOf returns a series to be drawn; nil if there is nothing of it.
func barsOf(s usage.Series, number int, unit string) *bars {
	for _, v := range s.Values {
		if v != 0 {
			b := &bars{Series: s, Number: number, Sum: "not known"}
			if s.Total != nil {
				b.Sum = strings.TrimSpace(numeral(*s.Total) + " " + unit)
			}
			return b
		}
	}
	return nil
}

// outline returns the path around the bars of a series that stand on bases, to which it adds them if
// they are piled up.
func outline(values, bases []float64, most float64, stacked bool) string {
	var path strings.Builder
	for i, v := range values {
		low, high := scaled(bases[i], most), scaled(bases[i]+v, most)
		if v > 0 && high == low { // what there is can be seen
			high++
		}
		if v > 0 {
			fmt.Fprintf(&path, "M%d %dh%dv%dh-%dz", i*barStep+(barStep-barWidth)/2, drawnHeight-high, barWidth, high-low, barWidth)
		}
		if stacked {
			bases[i] += v
		}
	}
	return path.String()
}

func scaled(v, most float64) int { return int(math.Round(v / most * drawnHeight)) }

// numeral returns a number as people read it.
func numeral(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// clock returns when a bucket begins, in UTC.
func clock(t time.Time, step time.Duration) string {
	if step >= 24*time.Hour {
		return t.Format("2 Jan")
	}
	return t.Format("2 Jan 15:04")
}

// span returns how long a bucket is.
func span(step time.Duration) string {
	if step == 24*time.Hour {
		return "a day"
	}
	return length(step)
}
