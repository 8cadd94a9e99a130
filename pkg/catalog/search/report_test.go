package search

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/golden"
)

const (
	qualityReport = "../../../docs/search-quality.md"
	resamples     = 2000
)

// A run is the measures of one way of ranking, by set and by query.
type run [][]measures

func runOver(sets []*judgedSet, m mixing) (r run) {
	for _, s := range sets {
		r = append(r, s.measure(m, nil))
	}
	return r
}

// objective returns the mean of the objective over the sets.
func (r run) objective() float64 {
	sum := 0.0
	for _, per := range r {
		sum += mean(per)[objective]
	}
	return sum / float64(len(r))
}

// minus returns the difference of measure m between r and o, for each query.
func (r run) minus(o run, m int) [][]float64 {
	out := make([][]float64, len(r))
	for i, per := range r {
		for j := range per {
			d := per[j][m]
			if o != nil {
				d -= o[i][j][m]
			}
			out[i] = append(out[i], d)
		}
	}
	return out
}

// header writes the head of a table with a column for each set; cell is the heading of its values.
func header(w *bytes.Buffer, first string, sets []*judgedSet, cell, rest string) {
	fmt.Fprintf(w, "| %s |", first)
	for _, s := range sets {
		fmt.Fprintf(w, " %s%s |", cell, s.name)
	}
	columns := len(sets) + strings.Count(first+rest, "|") + 1
	fmt.Fprintf(w, "%s\n|%s\n", rest, strings.Repeat("---|", columns))
}

// interval writes a mean and the middle 95 % of its resamples.
func interval(perSet [][]float64) string {
	b := bootstrap(perSet, resamples)
	at := 0.0
	for _, values := range perSet {
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		at += sum / float64(len(values)) / float64(len(perSet))
	}
	return fmt.Sprintf("%+.3f [%+.3f, %+.3f]", at, b[resamples*25/1000], b[resamples*975/1000])
}

// standardError returns the standard error of a run's objective.
func standardError(r run) float64 {
	b := bootstrap(r.minus(nil, objective), resamples)
	sum, squares := 0.0, 0.0
	for _, x := range b {
		sum += x
		squares += x * x
	}
	n := float64(len(b))
	return math.Sqrt(squares/n - sum/n*sum/n)
}

// TestSearchQuality compares docs/search-quality.md with the results of the code; with -update it
// writes the page.
func TestSearchQuality(t *testing.T) {
	var page bytes.Buffer
	sets := publicSets(t)
	writeFigures(&page, sets)
	writeVerbs(t, &page, sets)
	writeForgiving(&page, sets)
	writeShares(t, &page, sets)
	writeThresholds(&page, sets)
	writeHints(t, &page, sets)
	golden.Check(t, qualityReport, page.String()) // make bench-search writes it
}

func writeFigures(w *bytes.Buffer, sets []*judgedSet) {
	fmt.Fprint(w, `# Search quality

[Documentation](README.md) › Reference · Reference

This page measures the parameters of the ranking. Read it before you change one of them;
[design/search.md](design/search.md) says why they have these values.
`+"`make bench-search`"+` writes the page, and a test checks it: do not edit it.

Four public query sets: the 47 (45 tools of 7 MCP servers, graded), bfcl (943 tools, 600 queries),
metatool (199, 597), toolalpaca (94, 209). R@k is the share of a query's labelled tools among the
first k, MRR 1/rank of the first one within 10. The objective is the mean over the sets of (R@5 +
MRR + nDCG@10)/3. In brackets: the middle 95 % of 2,000 paired bootstrap resamples of the queries
within each set.

## Figures

R@1 R@5 R@10 MRR nDCG@10 of each set, and the objective. Only the last two rows have a least cosine
for a match.

`)
	header(w, "ranking", sets, "", " objective |")
	rows := []struct {
		name string
		m    mixing
	}{
		{"lexical, misspellings not corrected", exact(lexicalMixing())},
		{"**lexical**", lexicalMixing()},
		{"vectors alone", unbounded(mixing{share: 1})},
		{"fused", unbounded(fusedMixing())},
		{"fused, without verbs", verbless(fusedMixing())},
		{"**fused, as shipped**", fusedMixing()},
	}
	for _, r := range rows {
		got := runOver(sets, r.m)
		fmt.Fprintf(w, "| %s |", r.name)
		for _, per := range got {
			m := mean(per)
			fmt.Fprintf(w, " %.3f %.3f %.3f %.3f %.3f |", m[r1], m[r5], m[r10], m[mrr], m[ndcg])
		}
		fmt.Fprintf(w, " %.3f |\n", got.objective())
	}
	words, both := runOver(sets, lexicalMixing()), runOver(sets, fusedMixing())
	fmt.Fprint(w, "\nFused, as shipped, minus lexical:\n\n")
	header(w, "| mean of the sets", sets, "", "")
	for _, v := range []struct {
		name string
		m    int
	}{{"objective", objective}, {"R@1", r1}, {"R@5", r5}, {"MRR", mrr}} {
		d := both.minus(words, v.m)
		fmt.Fprintf(w, "| %s | %s |", v.name, interval(d))
		for i := range sets {
			fmt.Fprintf(w, " %s |", interval(d[i:i+1]))
		}
		fmt.Fprintln(w)
	}
}

// writeShares writes the results for each λ. It fails if the λ in use differs significantly from
// the best.
func writeShares(t *testing.T, w *bytes.Buffer, sets []*judgedSet) {
	var shares []float64
	var runs []run
	for i := range 11 {
		shares = append(shares, float64(i)/10)
		m := unbounded(fusedMixing())
		m.share = shares[i]
		runs = append(runs, runOver(sets, m))
	}
	best := slices.MaxFunc(runs, func(a, b run) int { return int(math.Copysign(1, a.objective()-b.objective())) })
	se := standardError(best)
	fmt.Fprintf(w, `
## The share of meaning, λ

The rule: use the smallest or simplest of all values within one standard error of the best (%.3f,
by bootstrap). Better figures among them are chance.

`, se)
	header(w, "λ", sets, "", " objective | within one error |")
	smallest := -1.0
	for i, r := range runs {
		fmt.Fprintf(w, "| %.1f |", shares[i])
		for _, per := range r {
			fmt.Fprintf(w, " %.3f |", mean(per)[objective])
		}
		note := ""
		within := r.objective() >= best.objective()-se
		if within {
			note = "yes"
			if smallest < 0 {
				smallest = shares[i]
				note = "yes, the smallest"
			}
		}
		if shares[i] == semanticShare {
			note += " (in use)"
			if !within {
				t.Errorf("λ = %v reaches %.3f, more than one error (%.3f) below the best, %.3f", semanticShare, r.objective(), se, best.objective())
			}
		}
		fmt.Fprintf(w, " %.3f | %s |\n", r.objective(), strings.TrimSpace(note))
	}
}

func writeThresholds(w *bytes.Buffer, sets []*judgedSet) {
	fmt.Fprint(w, `
## The least cosine of a match by meaning

A document without a word of the query matches from this cosine on. A lower value finds more tools
in small catalogs; a higher value prevents matches of a query about something else. The column of
false matches has the mean number of matches by meaning alone, for the queries of the three other
sets on the 45 tools.

`)
	header(w, "least cosine", sets, "R@10 ", " objective | false matches |")
	for _, least := range []float64{-1, .20, .28, .35, .45} {
		m := fusedMixing()
		m.threshold = least
		r := runOver(sets, m)
		name := fmt.Sprintf("%.2f", least)
		if least < 0 {
			name = "none"
		} else if least == minCosine {
			name += " (in use)"
		}
		fmt.Fprintf(w, "| %s |", name)
		for _, per := range r {
			fmt.Fprintf(w, " %.3f |", mean(per)[r10])
		}
		fmt.Fprintf(w, " %.4f | %.2f |\n", r.objective(), falseMatches(sets, m))
	}
}

// falseMatches returns the mean number of documents of the first set that match a query of the
// other sets by meaning alone.
func falseMatches(sets []*judgedSet, m mixing) float64 {
	first, n, queries := sets[0], 0, 0
	for _, s := range sets[1:] {
		for _, q := range s.queries {
			query := first.ix.Query(q.text)
			n += first.ix.rank(query, first.all, 0, m, nil).Total -
				first.ix.rank(query, first.all, 0, lexicalMixing(), nil).Total
			queries++
		}
	}
	return float64(n) / float64(queries)
}
