package search

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// If a search ranks only the callable tools, a word without a callable tool has no weight. Then
// each callable tool seems as good as the right tool.
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
		{"one in a matches better", "git commit", viewOf(4, 0), viewOf(4, 2, 3), 1},
		{"two in a match better", "git commit history", viewOf(4, 0, 1), viewOf(4, 3), 2},
		{"the best match is in b", "commit transaction", viewOf(4, 0, 1), viewOf(4, 2, 3), 0},
		{"nothing in b matches", "git", viewOf(4, 0, 1), viewOf(4, 3), 2},
		{"nothing matches", "zebra", viewOf(4, 0, 1), viewOf(4, 2, 3), 0},
		{"a is empty", "git", tool.NewSet(4), viewOf(4, 0), 0},
		{"b is empty", "git", viewOf(4, 0), tool.NewSet(4), 1},
		{"a document in both sets counts for b", "git commit", viewOf(4, 0), viewOf(4, 0, 1), 0},
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
		t.Errorf("with separate rankings, the locked tool is better by %v, want no better: then the test shows nothing", apart)
	}
}

// A locking is a way to choose the locked tools.
type locking struct {
	name   string
	rounds int
	locks  func(s *judgedSet, r *rand.Rand) func(doc int) bool
}

func lockings() []locking {
	thirdOfTools := func(_ *judgedSet, r *rand.Rand) func(int) bool {
		return func(int) bool { return r.IntN(3) == 0 }
	}
	return []locking{
		{"a third of the servers", 3, func(s *judgedSet, r *rand.Rand) func(int) bool {
			names := slices.Sorted(slices.Values(s.servers))
			if names = slices.Compact(names); len(names) == 1 {
				return thirdOfTools(s, r)
			}
			chosen := map[string]bool{}
			for _, i := range r.Perm(len(names))[:(len(names)+1)/3] {
				chosen[names[i]] = true
			}
			return func(doc int) bool { return chosen[s.servers[doc]] }
		}},
		{"a third of the tools", 3, thirdOfTools},
		{"all writes", 1, func(s *judgedSet, _ *rand.Rand) func(int) bool {
			return func(doc int) bool { return s.ix.segments[0].verb(doc) > reads }
		}},
	}
}

// lock locks documents of the set.
func (s *judgedSet) lock(l locking, round int) (callable, locked tool.Set) {
	locks := l.locks(s, rand.New(rand.NewPCG(5, uint64(round))))
	callable, locked = tool.NewSet(s.ix.docs), tool.NewSet(s.ix.docs)
	for doc := range s.docs {
		if locks(doc) {
			locked.Add(doc)
		} else {
			callable.Add(doc)
		}
	}
	return callable, locked
}

// hintCounts counts the queries for which a search hints at locked tools.
type hintCounts struct{ queries, zero, apart, best int }

// hints locks other tools in each round. A query is in needed if all its labeled tools are locked,
// and in needless if none of them is locked.
func (s *judgedSet) hints(l locking) (needed, needless hintCounts) {
	for round := range l.rounds {
		callable, locked := s.lock(l, round)
		for _, q := range s.queries {
			of := &needless
			if wanted := q.rightTools(s.ix.docs); wanted.Meets(locked) {
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

// rightTools returns the tools that are labeled for a query.
func (q judgedQuery) rightTools(docs int) tool.Set {
	s := tool.NewSet(docs)
	for doc := range q.gains {
		s.Add(doc)
	}
	return s
}

func share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

// plus adds two counts.
func (h hintCounts) plus(o hintCounts) hintCounts {
	return hintCounts{h.queries + o.queries, h.zero + o.zero, h.apart + o.apart, h.best + o.best}
}

// writeHints writes how often the notice of locked tools appears, and fails if it appears less than
// required.
func writeHints(t *testing.T, w *bytes.Buffer, sets []*judgedSet) {
	fmt.Fprint(w, `
## The notice of locked tools

The test locks tools in three ways: a third of the servers at random, three times (for metatool,
which has one server, a third of the tools); a third of the tools, three times; and every tool whose
verb is creating, changing, deleting or sending. *Told* is the share of queries with a notice, among
queries for which every wanted tool is locked. *False* is the share with a needless notice, among
queries for which every wanted tool is callable. The rules for a notice are: *zero*, if no callable
tool matches; *ranked apart*, even if the best locked score is over the best callable score, in two
rankings; *best*, as shipped, even if a locked tool is over every callable tool in one ranking of
both. *real* has the 527 real tools, and its queries are their names. The aims, over the three sets
with servers, are .85 told and .09 false for servers, .88 and .04 for writes.

| locked | set | told: zero | ranked apart | best | false: zero | ranked apart | best |
|---|---|---|---|---|---|---|---|
`)
	real := realNames(t)
	for _, l := range lockings() {
		var a, b hintCounts
		row := func(name string, a, b hintCounts) {
			fmt.Fprintf(w, "| %s | %s | %.3f | %.3f | **%.3f** | %.3f | %.3f | **%.3f** |\n", l.name, name,
				share(a.zero, a.queries), share(a.apart, a.queries), share(a.best, a.queries),
				share(b.zero, b.queries), share(b.apart, b.queries), share(b.best, b.queries))
		}
		for _, s := range append(slices.Clone(sets), real) {
			needed, needless := s.hints(l)
			row(s.name, needed, needless)
			if s != real && s.name != "metatool" {
				a, b = a.plus(needed), b.plus(needless)
			}
		}
		row("the three with servers", a, b)
		if least, most := floors()[l.name][0], floors()[l.name][1]; share(a.best, a.queries) < least || share(b.best, b.queries) > most {
			t.Errorf("%s: told %.3f, false %.3f; want at least %.3f and at most %.3f",
				l.name, share(a.best, a.queries), share(b.best, b.queries), least, most)
		}
	}
}

// floors are the least share of right notices and the largest share of false ones, over the sets
// with servers.
func floors() map[string][2]float64 {
	return map[string][2]float64{
		"a third of the servers": {.85, .09},
		"a third of the tools":   {.79, .1},
		"all writes":             {.86, .041},
	}
}

// realNames returns the real tools, each with its name as a query.
func realNames(t testing.TB) *judgedSet {
	s := &judgedSet{name: "real", docs: realDocs(t)}
	s.ix, s.all = indexOf(t, s.docs), fullSet(len(s.docs))
	for i, d := range s.docs {
		s.servers = append(s.servers, d.Server)
		name := strings.NewReplacer("_", " ", "-", " ").Replace(d.Name)
		s.queries = append(s.queries, judgedQuery{name, map[int]float64{i: 2}})
	}
	return s
}

// TestOutrankingOwnSet checks the floors with our own small set.
func TestOutrankingOwnSet(t *testing.T) {
	s := loadSet(t, "own", "testdata/tools.json", "testdata/queries.json")
	servers := lockings()[0]
	servers.rounds = 9
	a, b := s.hints(servers)
	t.Logf("needed %+v, needless %+v", a, b)
	if a.queries == 0 || b.queries == 0 || share(a.best, a.queries) < .75 || share(b.best, b.queries) > .05 || share(a.zero, a.queries) > share(a.best, a.queries) {
		t.Errorf("hints: needed %+v, needless %+v; want at least .75 and at most .05 of them", a, b)
	}
}
