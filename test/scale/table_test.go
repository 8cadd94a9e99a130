package scale

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A row is one line of the table: a figure, and its limits at some sizes.
type row struct {
	key, label string
	format     string // of the figure
	aims       map[int]float64
}

// rows contains the measured figures, in the order of the table.
var rows = []row{
	{"raw", "snapshot, raw, MB", "%.1f", nil},
	{"stored", "snapshot in S3, MB", "%.1f", map[int]float64{10_000: 6, 100_000: 60}},
	{"open", "opening from a folder, ms", "%.1f", nil},
	{"ready", "cold start: exec → request for an event, ms", "%.0f", nil},
	{"cold", "cold start: exec → first answer, ms", "%.0f", nil},
	{"transfer", "cold start: answers of the emulator's S3, ms", "%.0f", nil},
	{"own", "cold start without these answers, ms", "%.0f", map[int]float64{10_000: 60, 100_000: 400}},
	{"coldPeak", "cold start: peak memory of the function, MB", "%.0f", nil},
	{"server", "warm search, server side, p50, ms", "%.2f", map[int]float64{10_000: .9, 100_000: 5}},
	{"p50", "search over HTTP, at rest, p50, ms", "%.2f", map[int]float64{527: .25, 10_000: 1, 100_000: 6}},
	{"p95", "search over HTTP, at rest, p95, ms", "%.2f", map[int]float64{527: .5, 10_000: 2, 100_000: 12}},
	{"ping", "ping over HTTP, p50, ms", "%.2f", nil},
	{"busy", "search while a sync runs, p95, ms", "%.2f", nil}, // aim: twice that at rest
	{"initialize", "`initialize` while a sync runs, p95, ms", "%.2f", nil},
	{"restart", "restart → first answer, ms", "%.0f", map[int]float64{10_000: 60, 100_000: 400}},
	{"firstCPU", "first sync, CPU, s", "%.2f", map[int]float64{10_000: 1.5, 100_000: 15}},
	{"firstPeak", "first sync, peak memory, MB", "%.0f", nil},
	{"sameCPU", "unchanged sync, CPU, s", "%.2f", map[int]float64{10_000: .2, 100_000: 2}},
	{"samePeak", "unchanged sync, peak memory, MB", "%.0f", map[int]float64{10_000: 150, 100_000: 600}},
	{"functionPeak", "sync function, first sync, peak memory, MB", "%.0f", nil}, // up to tableMost
	{"feed", "feed read of an idle search, units", "%.1f", map[int]float64{527: 1, 10_000: 1, 100_000: 1}},
}

// busyFactor is how many times the p95 at rest a search may take while a sync runs.
const busyFactor = 2

// figures contains every sample of one program, by row and size.
type figures map[string]map[int][]float64

// add adds a sample.
func (f figures) add(key string, n int, value float64) {
	if f[key] == nil {
		f[key] = map[int][]float64{}
	}
	f[key][n] = append(f[key][n], value)
}

// get returns the median of the samples; ok is false if there is none.
func (f figures) get(key string, n int) (value float64, ok bool) {
	all := slices.Sorted(slices.Values(f[key][n]))
	if len(all) == 0 {
		return 0, false
	}
	return all[len(all)/2], true
}

// exponent returns "n^x", where x is the growth of a row between the smallest and the largest size.
func (f figures) exponent(key string, sizes []int) string {
	var at []int
	for _, n := range sizes {
		if v, ok := f.get(key, n); ok && v > 0 {
			at = append(at, n)
		}
	}
	if len(at) < 2 {
		return "–"
	}
	first, last := at[0], at[len(at)-1]
	a, _ := f.get(key, first)
	b, _ := f.get(key, last)
	return fmt.Sprintf("n^%.2f", math.Log(b/a)/math.Log(float64(last)/float64(first)))
}

// aim returns the limit of a row at a size, if there is one.
func (f figures) aim(r row, n int) (most float64, ok bool) {
	if r.key == "busy" {
		most, ok = f.get("p95", n)
		return busyFactor * most, ok
	}
	most, ok = r.aims[n]
	return most, ok
}

// table returns the figures as Markdown. Each cell contains before, unless it is nil, and after.
func table(before, after figures, sizes []int) string {
	var b strings.Builder
	b.WriteString("| |")
	for _, n := range sizes {
		fmt.Fprintf(&b, " %d |", n)
	}
	b.WriteString(" grows as | aim |\n|---|" + strings.Repeat("---|", len(sizes)+2) + "\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s |", r.label)
		var aims []string
		for _, n := range sizes {
			now, measured := after.get(r.key, n)
			cell := "–"
			if measured {
				cell = fmt.Sprintf(r.format, now)
			}
			if was, ok := before.get(r.key, n); ok {
				cell = fmt.Sprintf(r.format, was) + " → " + cell
			} else if before != nil {
				cell = "– → " + cell
			}
			b.WriteString(" " + cell + " |")
			most, ok := after.aim(r, n)
			if !ok || !measured {
				continue
			}
			met := "met"
			if now > most {
				met = "**not met**"
			}
			aims = append(aims, fmt.Sprintf("≤ "+r.format+" at %d: %s", most, n, met))
		}
		grows := after.exponent(r.key, sizes)
		if before != nil {
			grows = before.exponent(r.key, sizes) + " → " + grows
		}
		fmt.Fprintf(&b, " %s | %s |\n", grows, strings.Join(aims, "; "))
	}
	return b.String()
}
