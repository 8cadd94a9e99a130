package search

import (
	"bytes"
	"fmt"
	"testing"
)

// typists is the number of typists who misspell the queries, so that one lucky error has little
// weight.
const typists = 5

// runWithTypos returns the mean measures over the typists' queries.
func runWithTypos(sets []*judgedSet, m mixing) run {
	var sum run
	for seed := range uint64(typists) {
		for i, s := range sets {
			per := s.measure(m, newTypistOf(seed+1).spoil)
			if seed == 0 {
				sum = append(sum, make([]measures, len(per)))
			}
			for j := range per {
				for k := range per[j] {
					sum[i][j][k] += per[j][k] / typists
				}
			}
		}
	}
	return sum
}

// strict is the fused ranking without tolerance for errors.
func strict() mixing {
	m := fusedMixing()
	m.stemsAlone, m.noKinds = true, true
	return m
}

// writeForgiving writes the effect of both steps on correct and on misspelled queries.
func writeForgiving(w *bytes.Buffer, sets []*judgedSet) {
	clean, spoilt := runOver(sets, strict(), false), runWithTypos(sets, strict())
	fmt.Fprintf(w, `
## Errors and literals in queries

*Typing errors in meaning*: some words are not whole words of the token table, and no tool of the
view has them. The search replaces such a word, in the vector and among the stems, with the words of
the table at one edit whose stems the view has. Before, the vector used the word's pieces, and only
its stem was corrected. *Kinds of literals*: a path, a URL, an e-mail address, a date, an IP address
or a hash adds the word of its kind. The table compares the ranking with both and without both, for
clean queries and for queries with one error each, by %d typists.

| ranking | clean | with an error | clean: change of the objective | with an error: change of the objective | with an error: change of R@5 |
|---|---|---|---|---|---|
| neither | %.3f | %.3f | | | |
`, typists, clean.objective(), spoilt.objective())
	c, e := runOver(sets, fusedMixing(), false), runWithTypos(sets, fusedMixing())
	fmt.Fprintf(w, "| **both, as shipped** | %.3f | %.3f | %s | %s | %s |\n", c.objective(), e.objective(),
		interval(c.minus(clean, objective)), interval(e.minus(spoilt, objective)), interval(e.minus(spoilt, r5)))
	with := only(sets, func(q judgedQuery) bool { return literals(q.text) != nil })
	a, b := runOver(with, strict(), false), runOver(with, fusedMixing(), false)
	n := 0
	for _, s := range with {
		n += len(s.queries)
	}
	fmt.Fprintf(w, "\n%d queries have a literal. Only for these, the objective is %.3f without, %.3f with the kinds,\n%s.\n",
		n, a.objective(), b.objective(), interval(b.minus(a, objective)))
}

// only returns the sets with only the queries that chosen accepts. It omits empty sets.
func only(sets []*judgedSet, chosen func(judgedQuery) bool) (out []*judgedSet) {
	for _, s := range sets {
		some := *s
		some.queries = nil
		for _, q := range s.queries {
			if chosen(q) {
				some.queries = append(some.queries, q)
			}
		}
		if len(some.queries) > 0 {
			out = append(out, &some)
		}
	}
	return out
}

// writeSizes writes the quality with more tools: the tools of all sets and of 70 real servers.
func writeSizes(t testing.TB, w *bytes.Buffer, sets []*judgedSet) {
	fmt.Fprint(w, `
## Among more tools

The queries of the three larger sets, among the tools of all three and of 70 real servers.

| tools | ranking | objective clean | with an error | R@5 clean | with an error | change of R@5 with an error |
|---|---|---|---|---|---|---|
`)
	all := inOneCatalog(t, sets[1:])
	var x run
	for _, r := range []struct {
		name string
		m    mixing
	}{{"before", strict()}, {"**as shipped**", fusedMixing()}} {
		clean, spoilt := runOver(all, r.m, false), runOver(all, r.m, true)
		change := ""
		if x != nil {
			change = interval(spoilt.minus(x, r5))
		}
		x = spoilt
		fmt.Fprintf(w, "| %d | %s | %.3f | %.3f | %.3f | %.3f | %s |\n", len(all[0].docs), r.name, clean.objective(), spoilt.objective(), clean.mean(r5), spoilt.mean(r5), change)
	}
}

// mean returns the mean of a measure over the sets.
func (r run) mean(m int) float64 {
	sum := 0.0
	for _, per := range r {
		sum += mean(per)[m]
	}
	return sum / float64(len(r))
}

// inOneCatalog returns the sets in one catalog of all their tools and of 70 real servers.
func inOneCatalog(t testing.TB, sets []*judgedSet) (out []*judgedSet) {
	var docs []Doc
	var first []int
	for _, s := range sets {
		first = append(first, len(docs))
		docs = append(docs, s.docs...)
	}
	docs = append(docs, realDocs(t)...)
	ix := indexOf(t, docs)
	for i, s := range sets {
		o := &judgedSet{name: s.name, docs: docs, ix: ix, all: fullSet(len(docs))}
		for _, q := range s.queries {
			gains := map[int]float64{}
			for doc, gain := range q.gains {
				gains[first[i]+doc] = gain
			}
			o.queries = append(o.queries, judgedQuery{q.text, gains})
		}
		out = append(out, o)
	}
	return out
}
