package search

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
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

// forgiving has the tolerance steps, each alone and together.
func forgiving() []struct {
	name string
	m    mixing
} {
	typos, kinds := strict(), strict()
	typos.stemsAlone, kinds.noKinds = false, false
	return []struct {
		name string
		m    mixing
	}{
		{"typing errors in meaning", typos}, {"kinds of literals", kinds},
		{"**both, as shipped**", fusedMixing()},
	}
}

// writeForgiving writes the effect of each step on correct and on misspelled queries.
func writeForgiving(w *bytes.Buffer, sets []*judgedSet) {
	clean, spoilt := runOver(sets, strict(), false), runWithTypos(sets, strict())
	fmt.Fprintf(w, `
## Errors and literals in queries

*Typing errors in meaning*: some words are not whole words of the token table, and no tool of the
view has them. The search replaces such a word, in the vector and among the stems, with the words of
the table at one edit whose stems the view has. Before, the vector used the word's pieces, and only
its stem was corrected. *Kinds of literals*: a path, a URL, an e-mail address, a date, an IP address
or a hash adds the word of its kind. The table compares each step with the ranking without both, for
clean queries and for queries with one error each, by %d typists.

| ranking | clean | with an error | clean: change of the objective | with an error: change of the objective | with an error: change of R@5 |
|---|---|---|---|---|---|
| neither | %.3f | %.3f | | | |
`, typists, clean.objective(), spoilt.objective())
	for _, step := range forgiving() {
		c, e := runOver(sets, step.m, false), runWithTypos(sets, step.m)
		fmt.Fprintf(w, "| %s | %.3f | %.3f | %s | %s | %s |\n", step.name, c.objective(), e.objective(),
			interval(c.minus(clean, objective)), interval(e.minus(spoilt, objective)), interval(e.minus(spoilt, r5)))
	}
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

// writeLengths writes the cost of one error by the number of words in a query.
func writeLengths(w *bytes.Buffer, sets []*judgedSet) {
	fmt.Fprint(w, `
The shorter a query, the more each of its words counts. The table shows how much of R@5 one error
costs, over all queries of a length:

| words | queries | R@5 clean | cost of an error before | cost as shipped |
|---|---|---|---|---|
`)
	for _, length := range []struct {
		name        string
		least, most int
	}{{"1–7", 1, 7}, {"8–15", 8, 15}, {"16 and more", 16, 1 << 20}} {
		chosen := only(sets, func(q judgedQuery) bool {
			n := len(strings.Fields(q.text))
			return n >= length.least && n <= length.most
		})
		a := pool(runOver(chosen, strict(), false))
		b := pool(runOver(chosen, fusedMixing(), false))
		x, y := pool(runWithTypos(chosen, strict())), pool(runWithTypos(chosen, fusedMixing()))
		fmt.Fprintf(w, "| %s | %d | %.3f | %s | %s |\n", length.name, len(b[0]), mean(b[0])[r5], interval(x.minus(a, r5)), interval(y.minus(b, r5)))
	}
}

// pool returns a run as if all queries were in one set.
func pool(r run) run {
	var all []measures
	for _, per := range r {
		all = append(all, per...)
	}
	return run{all}
}

// writeSizes writes the quality with more tools: the tools of all sets and of 70 real servers, and
// with many copies of these servers.
func writeSizes(t testing.TB, w *bytes.Buffer, sets []*judgedSet) {
	fmt.Fprint(w, `
## Among more tools

The queries of the three larger sets, among the tools of all three and of 70 real servers, and with
these servers 17 times under other names.

| tools | ranking | objective clean | with an error | R@5 clean | with an error | change of R@5 with an error |
|---|---|---|---|---|---|---|
`)
	for _, times := range []int{1, 17} {
		all := inOneCatalog(t, sets[1:], times)
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
}

// mean returns the mean of a measure over the sets.
func (r run) mean(m int) float64 {
	sum := 0.0
	for _, per := range r {
		sum += mean(per)[m]
	}
	return sum / float64(len(r))
}

// inOneCatalog returns the sets in one catalog of all their tools and of this many copies of 70
// real servers.
func inOneCatalog(t testing.TB, sets []*judgedSet, times int) (out []*judgedSet) {
	var live struct {
		Tools []struct {
			Server, Tool, Description string
			InputSchema               json.RawMessage
		}
	}
	readJSON(t, filepath.Join(local.Data(t, "livemcp"), "tools.json"), &live)
	var docs []Doc
	var first []int
	for _, s := range sets {
		first = append(first, len(docs))
		docs = append(docs, s.docs...)
	}
	for n := range times {
		for _, d := range live.Tools {
			server := d.Server
			if n > 0 {
				server = fmt.Sprintf("%s-%d", d.Server, n)
			}
			docs = append(docs, Doc{Name: d.Tool, Server: server, Description: d.Description, Schema: d.InputSchema})
		}
	}
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
