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
	Link    string   // address of the lines of the audit
	Width   int      // of the SVG, whose height is drawnHeight
	Marks   []string // of the vertical axis, from the top to 0
	Ticks   []string // of the horizontal axis: the starts of four buckets
	Sum     string   // sum of all series, if they are parts of a whole
	Desc    string   // description of the chart in words
	Bars    []bars   // series that have a value
	Rows    []point  // buckets that have a value
	Buckets int
}

// Bars are a series as the outline of its bars.
type bars struct {
	usage.Series
	Number int    // selects the color
	Path   string // path data of the SVG
	Sum    string
	Link   string // address of the lines of the audit; "": none of its own
	Parts  []bars // without bars; none: the series is not a sum
}

// A point is a bucket of the table, with one number for each of [drawing.Bars].
type point struct {
	At     string
	Values []string
}

// The layout of the SVG: its height, and the width of a bucket and of its bar.
const (
	drawnHeight = 100
	barStep     = 10
	barWidth    = 8
)

// draw returns the drawing of a chart whose first bucket starts at from. It stacks the series if
// they are parts of a whole. Otherwise the series overlap, with the first one in front.
func draw(c usage.Chart, from time.Time, step time.Duration) drawing {
	d := drawing{Chart: c}
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
	top, bases := topOf(most, c.Unit == ""), make([]float64, d.Buckets)
	for n := range d.Bars {
		d.Bars[n].Path = outline(d.Bars[n].Values, bases, top, c.Stacked)
	}
	d.Marks = []string{strings.TrimSpace(numeral(top) + " " + c.Unit), numeral(top / 2), "0"}
	layout := "15:04"
	if time.Duration(d.Buckets)*step > 48*time.Hour {
		layout = "2 Jan"
	}
	for n := range 4 {
		d.Ticks = append(d.Ticks, from.Add(time.Duration(n*d.Buckets/4)*step).Format(layout))
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
	if most > 0 {
		highest := strings.TrimSpace(numeral(most) + " " + c.Unit)
		d.Desc = fmt.Sprintf("%d bars of %s each. The highest is %s, at %s UTC. "+
			"The table below has every number.", d.Buckets, span(step), highest, clock(from.Add(time.Duration(at)*step), step))
	}
	if c.Stacked {
		d.Sum = numeral(*sumOf(c).Total)
	}
	return d
}

// sumOf returns the sum of the series of a chart.
func sumOf(c usage.Chart) usage.Series {
	sum := usage.Series{Name: c.Name, Total: new(float64)}
	for _, s := range c.Series {
		if s.Total != nil {
			*sum.Total += *s.Total
		}
		sum.Values = slices.Grow(sum.Values, len(s.Values))
		for i, v := range s.Values {
			if i == len(sum.Values) {
				sum.Values = append(sum.Values, 0)
			}
			sum.Values[i] += v
		}
	}
	return sum
}

// topOf returns the upper end of the vertical axis. Half of it is a mark, too, so for counts it is
// an even number.
func topOf(most float64, isCount bool) float64 {
	if most <= 0 {
		return 2
	}
	exponent := int(math.Floor(math.Log10(most)))
	for _, digit := range []float64{1, 2, 4, 6, 8, 10} {
		top := digit * math.Pow10(exponent)
		if exponent < 0 { // a product with 0.1 is not exact
			top = digit / math.Pow10(-exponent)
		}
		if top >= most && (!isCount || math.Mod(top, 2) == 0) {
			return top
		}
	}
	return most // unreachable: most is less than the next power of ten
}

// Behind returns the bars in drawing order, from back to front.
func (d drawing) Behind() []bars {
	out := slices.Clone(d.Bars)
	slices.Reverse(out)
	return out
}

// barsOf returns the bars of a series; nil if all values are 0.
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

// outline returns the path around the bars of a series. The bar of values[i] starts at bases[i]. If
// stacked is set, outline adds the values to bases.
func outline(values, bases []float64, most float64, stacked bool) string {
	var path strings.Builder
	for i, v := range values {
		low, high := scaled(bases[i], most), scaled(bases[i]+v, most)
		if v > 0 && high == low { // a small value stays visible
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

// numeral formats a number for people.
func numeral(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// clock returns the start of a bucket, in UTC.
func clock(t time.Time, step time.Duration) string {
	if step >= 24*time.Hour {
		return t.Format("2 Jan")
	}
	return t.Format("2 Jan 15:04")
}

// span returns the length of a bucket in words.
func span(step time.Duration) string {
	if step == 24*time.Hour {
		return "a day"
	}
	return length(step)
}
