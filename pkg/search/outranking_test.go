package search

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A word that no callable tool has weighs nothing when those are ranked alone: each of
// them then looks as good as the tool that was meant.
func TestOutranking(t *testing.T) {
	ix := indexOf(t, []Doc{
		{Name: "git_commit", Description: "Commit what is staged in git."},
		{Name: "git_log", Description: "Show the git history."},
		{Name: "commit_transaction", Description: "Commit a transaction."},
		{Name: "list_files", Description: "List files."},
	})
	for _, tt := range []struct {
		name, query string
		a, b        tool.Set
		want        int
	}{
		{"one is meant", "git commit", viewOf(4, 0), viewOf(4, 2, 3), 1},
		{"two match better", "git commit history", viewOf(4, 0, 1), viewOf(4, 3), 2},
		{"what is meant is in b", "commit transaction", viewOf(4, 0, 1), viewOf(4, 2, 3), 0},
		{"nothing in b matches", "git", viewOf(4, 0, 1), viewOf(4, 3), 2},
		{"nothing matches", "zebra", viewOf(4, 0, 1), viewOf(4, 2, 3), 0},
		{"a is empty", "git", tool.NewSet(4), viewOf(4, 0), 0},
		{"b is empty", "git", viewOf(4, 0), tool.NewSet(4), 1},
		{"in both counts for b", "git commit", viewOf(4, 0), viewOf(4, 0, 1), 0},
		{"sets of other bounds", "git", viewOf(2, 0, 1), viewOf(9, 3, 8), 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := ix.Outranking(ix.Query(tt.query), tt.a, tt.b, Options{Lexical: true}).Len(); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
	callable, locked := viewOf(4, 2, 3), viewOf(4, 0, 1)
	q := ix.Query("git commit")
	apart := ix.Rank(q, locked, 1, Options{Lexical: true}).Hits[0].Score - ix.Rank(q, callable, 1, Options{Lexical: true}).Hits[0].Score
	if apart > 0 || ix.Outranking(q, locked, callable, Options{Lexical: true}).Len() == 0 {
		t.Errorf("ranked apart the locked tool is better by %v: the case no longer shows the difference", apart)
	}
}

// lock locks a third of the servers at random; of the tools, where there is one server alone.
func (s *judgedSet) lock(round int) (callable, locked tool.Set) {
	r := rand.New(rand.NewPCG(5, uint64(round)))
	names := slices.Clone(s.servers)
	slices.Sort(names)
	names = slices.Compact(names)
	chosen := map[string]bool{}
	for _, i := range r.Perm(len(names))[:(len(names)+1)/3] {
		chosen[names[i]] = true
	}
	callable, locked = tool.NewSet(s.ix.docs), tool.NewSet(s.ix.docs)
	for doc, server := range s.servers {
		if chosen[server] || len(names) == 1 && r.IntN(3) == 0 {
			locked.Add(doc)
		} else {
			callable.Add(doc)
		}
	}
	return callable, locked
}

// hinted counts, by what the query needs: for how many queries a search hints at locked tools.
type hinted struct{ queries, zero, apart, best int }

// hints locks tools anew in each round. needed are the queries of which every wanted tool is
// locked, needless those of which none is.
func (s *judgedSet) hints(rounds int) (needed, needless hinted) {
	for round := range rounds {
		callable, locked := s.lock(round)
		for _, q := range s.queries {
			of := &needless
			if wanted := q.wanted(s.ix.docs); wanted.Meets(locked) {
				if of = &needed; wanted.Meets(callable) {
					continue
				}
			}
			query := s.ix.Query(q.text)
			c, l := s.ix.Rank(query, callable, 1, Options{}).Hits, s.ix.Rank(query, locked, 1, Options{}).Hits
			of.queries++
			if len(l) > 0 && len(c) == 0 {
				of.zero++
			}
			if len(l) > 0 && (len(c) == 0 || l[0].Score > c[0].Score) {
				of.apart++
			}
			if s.ix.Outranking(query, locked, callable, Options{}).Len() > 0 {
				of.best++
			}
		}
	}
	return needed, needless
}

// wanted returns the tools that are labelled for a query.
func (q judgedQuery) wanted(docs int) tool.Set {
	s := tool.NewSet(docs)
	for doc := range q.gains {
		s.Add(doc)
	}
	return s
}

func share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

func writeHints(w *bytes.Buffer, sets []*judgedSet) {
	fmt.Fprint(w, `
## The hint at locked tools

A third of the servers is locked at random, three times (of metatool, which has one server, a third
of the tools). Of the queries whose every wanted tool is locked, how many are answered with a hint;
and of those whose wanted tools are all callable, how many are hinted at a locked tool for nothing.
*zero*: if nothing callable matches. *ranked apart*: also if the best locked score is over the best
callable one, of two rankings. *best*, as shipped: also if a locked tool is over every callable one
in a ranking of both.

| | hint where it is needed: zero | ranked apart | best | hint for nothing: zero | ranked apart | best |
|---|---|---|---|---|---|---|
`)
	for _, s := range sets {
		a, b := s.hints(3)
		fmt.Fprintf(w, "| %s | %.3f | %.3f | **%.3f** | %.3f | %.3f | **%.3f** |\n", s.name,
			share(a.zero, a.queries), share(a.apart, a.queries), share(a.best, a.queries),
			share(b.zero, b.queries), share(b.apart, b.queries), share(b.best, b.queries))
	}
}

// TestOutrankingOwnSet holds floors on the small set of our own.
func TestOutrankingOwnSet(t *testing.T) {
	s := loadSet(t, "own", "testdata/tools.json", "testdata/queries.json")
	a, b := s.hints(9)
	t.Logf("needed %+v, for nothing %+v", a, b)
	if a.queries == 0 || b.queries == 0 || share(a.best, a.queries) < .75 || share(b.best, b.queries) > .05 || share(a.zero, a.queries) > share(a.best, a.queries) {
		t.Errorf("hints: needed %+v, for nothing %+v; want at least .75 and at most .05 of them", a, b)
	}
}
