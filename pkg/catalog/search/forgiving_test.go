package search

import (
	"bytes"
	"fmt"
)

// typists is the number of typists who misspell the queries, so that one lucky error has little
// weight.
const typists = 3

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

// writeForgiving writes the effect of corrections on correct and on misspelled queries, and the
// effect of literals.
func writeForgiving(w *bytes.Buffer, sets []*judgedSet) {
	fmt.Fprintf(w, `
## Errors and literals in queries

In a random word of at least four letters, one letter is left out, added, replaced, or swapped with
the next. *In meaning*: some words are not whole words of the token table, and no tool of the view
has them. The search replaces such a word, in the vector and among the stems, with the words of the
table at one edit whose stems the view has. *Only stems*: the vector uses the pieces of the word.
The table has clean queries, and queries with one error each, by %d typists.

| ranking | clean | with an error | change of the objective | change of R@5 |
|---|---|---|---|---|
`, typists)
	var spoilt []run
	for _, r := range []struct {
		name string
		m    mixing
	}{
		{"lexical, not corrected", exact(lexicalMixing())},
		{"lexical, corrected", lexicalMixing()},
		{"fused, not corrected", exact(fusedMixing())},
		{"fused, only stems corrected, no kinds of literals", strict()},
		{"**fused, corrected in meaning, as shipped**", fusedMixing()},
	} {
		c, e := runOver(sets, r.m), runWithTypos(sets, r.m)
		fmt.Fprintf(w, "| %s | %.3f | %.3f | %s | %s |\n", r.name, c.objective(), e.objective(), interval(e.minus(c, objective)), interval(e.minus(c, r5)))
		spoilt = append(spoilt, e)
	}
	before, shipped := spoilt[3], spoilt[4]
	fmt.Fprintf(w, `
With an error, the last row minus the row before: objective %s,
R@5 %s.

*Kinds of literals*: a path, a URL, an e-mail address, a date, an IP address or a hash adds the word
of its kind.
`, interval(shipped.minus(before, objective)), interval(shipped.minus(before, r5)))
	with := only(sets, func(q judgedQuery) bool { return literals(q.text) != nil })
	a, b := runOver(with, strict()), runOver(with, fusedMixing())
	n := 0
	for _, s := range with {
		n += len(s.queries)
	}
	fmt.Fprintf(w, "%d queries have a literal. Only for these, the objective is %.3f without, %.3f with the kinds,\n%s.\n",
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
