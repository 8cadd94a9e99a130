package search

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/portcullis-mcp/portcullis/test/local"
)

// TestVerbs opens an index and checks the verb of each tool.
func TestVerbs(t *testing.T) {
	cases := []struct {
		name, description string
		want              verb
	}{
		{"get_issue", "", reads},
		{"createIssue", "Deletes a draft.", creates},
		{"git_show", "", reads},
		{"playwright_delete", "", deletes},
		{"notes", "Deletes a note.", deletes},
		{"notes", "Modifies a note.", changes},
		{"notes", "Publishes a note.", sends},
		{"updates", "", noVerb},
		{"notes", "", noVerb},
		{"notes", strings.Repeat("A note. ", 10) + "Delete it.", noVerb},
		{"検索", "\xff", noVerb},
	}
	docs := make([]Doc, len(cases))
	for i, c := range cases {
		docs[i] = Doc{Name: c.name, Server: "delete", Description: c.description}
	}
	parts := indexOf(t, docs[:4])
	ix := Join(parts, parts, indexOf(t, docs[4:]))
	for i, c := range cases {
		s, doc := ix.segments[0], i
		if i >= 4 {
			s, doc = ix.segments[2], i-4
		}
		if got := s.verb(doc); got != c.want {
			t.Errorf("%q, %q: verb %d, want %d", c.name, c.description, got, c.want)
		}
	}
	if got := indexOf(t, []Doc{{Name: "notes"}}).segments[0].verbs; got != nil {
		t.Errorf("an index without verbs has %v", got)
	}
}

// TestVerbCosts ranks tools that have the same words and different verbs.
func TestVerbCosts(t *testing.T) {
	names := []string{"get_record", "create_record", "update_record", "delete_record", "send_record", "record"}
	ix := indexOf(t, docs(names...))
	long := strings.Repeat(" please", fewWords)
	for _, c := range []struct {
		query string
		keep  []float64 // share of the score without verbs that each tool keeps
	}{
		{"erase the record", []float64{.8, .8, .8, 1, .8, 1}},
		{"add a record", []float64{.8, 1, 1, .8, .8, 1}},
		{"modify a record", []float64{.8, 1, 1, .8, .8, 1}},
		{"look at the record", []float64{1, .8, .8, .8, .8, 1}},
		{"share the record", []float64{.8, .8, .8, .8, 1, 1}},
		{"the record", []float64{1, 1, 1, 1, 1, 1}},
		{"erase the record" + long, []float64{1, 1, 1, 1, 1, 1}},
		{"record without erasing or sharing it", []float64{1, 1, 1, .5, .5, 1}},
		{"record without erasing it" + long, []float64{1, 1, 1, .5, 1, 1}},
		{"view the record, do not erase", []float64{1, .8, .8, .5, .8, 1}},
		{"erase the record without erasing more", []float64{.8, .8, .8, 1, .8, 1}},
	} {
		for _, m := range []mixing{fusedMixing(), lexicalMixing()} {
			scores := func(m mixing) []float64 {
				out := make([]float64, len(names))
				for _, h := range ix.rank(ix.Query(c.query), fullSet(len(names)), len(names), m, nil).Hits {
					out[h.Doc] = h.Score
				}
				return out
			}
			got, all := scores(m), scores(verbless(m))
			for i, keep := range c.keep {
				if all[i] == 0 || math.Abs(got[i]-keep*all[i]) > 2e-9 {
					t.Errorf("%q: %s scores %v, want %v of %v", c.query, names[i], got[i], keep, all[i])
				}
			}
		}
	}
}

// TestNegatedTerms checks that the words of a negated clause have no weight. In a query without
// other words, the objects of the clause have weight.
func TestNegatedTerms(t *testing.T) {
	ix := indexOf(t, []Doc{{Name: "list_files"}, {Name: "delete_backup"}, {Name: "list_backups"}})
	for _, c := range []struct {
		query string
		want  []int
	}{
		{"list files without deleting the backup", []int{0, 2}},
		{"files, never delete /tmp/backup.tar", []int{0}},
		{"do not delete a backup", []int{2, 1}},
		{"do not delete", []int{}},
	} {
		if got := found(ix.Rank(ix.Query(c.query), fullSet(3), 10, Options{Lexical: true})); !slices.Equal(got, c.want) {
			t.Errorf("%q finds %v, want %v", c.query, got, c.want)
		}
	}
}

// TestIndexWithoutVerbs ranks with an index of an earlier program, in which no verb has a cost.
func TestIndexWithoutVerbs(t *testing.T) {
	ix := indexOf(t, docs("get_record", "delete_record"))
	q := ix.Query("remove the record")
	want := ix.rank(q, fullSet(2), 2, verbless(fusedMixing()), nil).Hits
	if slices.Equal(want, ix.Rank(q, fullSet(2), 2, Options{}).Hits) {
		t.Fatal("the verb does not change the ranking")
	}
	ix.segments[0].verbs = nil
	if got := ix.Rank(q, fullSet(2), 2, Options{}).Hits; !slices.Equal(got, want) {
		t.Errorf("hits %+v, want %+v", got, want)
	}
}

// TestDamagedVerbs opens an index in which a class of verbs has a document that does not exist.
func TestDamagedVerbs(t *testing.T) {
	stored := built(docs("delete_file"))
	ix, err := Open(stored)
	require.OK(t, err)
	s := ix.segments[0]
	term, _ := s.find(deletes.term())
	binary.LittleEndian.PutUint32(s.list(term), 1) // in place
	again, err := Open(stored)
	if err != nil || again.segments[0].verb(0) != noVerb || len(again.segments[0].verbs) != 1 {
		t.Errorf("error %v, verbs %v; want none", err, again.segments[0].verbs)
	}
}

// A ruling is a query over the 527 real tools that excludes the actions of tools of a pattern.
type ruling struct {
	Query, Not string
	Wanted     []string
}

// ruledOut returns patterns of the names of the excluded tools.
func ruledOut() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"delete": regexp.MustCompile(`delete|clear|kill|terminate|unprotect`),
		"change": regexp.MustCompile(`edit|move|update|set_|write|convert|replace`),
		"send":   regexp.MustCompile(`post|feedback`),
	}
}

// negations counts the queries with an excluded tool first, and the queries with a right tool first
// or among the first five.
type negations struct{ queries, first, wanted, among int }

// rulings counts over the rulings of one kind.
func rulings(t testing.TB, m mixing, not string) (n negations) {
	t.Helper()
	local.Data(t, ".")
	s := &judgedSet{docs: realDocs(t)}
	s.ix, s.all = indexOf(t, s.docs), fullSet(len(s.docs))
	var all []ruling
	readJSON(t, "testdata/negations.json", &all)
	for _, r := range all {
		if r.Not != not {
			continue
		}
		n.queries++
		for i, h := range s.ix.rank(s.query(r.Query, m), s.all, 5, m, nil).Hits {
			name := s.docs[h.Doc].Name
			if i == 0 && ruledOut()[not].MatchString(name) {
				n.first++
			}
			if slices.Contains(r.Wanted, name) {
				n.among++
				if i == 0 {
					n.wanted++
				}
				break
			}
		}
	}
	return n
}

func writeVerbs(t testing.TB, w *bytes.Buffer, sets []*judgedSet) {
	fmt.Fprintf(w, `
## The verb

If a query of at most %d words and a tool have verbs of different classes, the tool loses this
share of its score. The classes are reading, creating, changing, deleting and sending. Creating and
changing do not clash. The last column is the change of the set that gains least.

`, fewWords)
	var before run
	header(w, "ranking | share lost", sets, "", " objective | worst set |")
	for _, base := range []struct {
		name string
		m    mixing
	}{{"lexical", lexicalMixing()}, {"fused", fusedMixing()}} {
		for _, cost := range []float64{0, .1, .2, .25, .4} {
			m := base.m
			m.clash = cost
			r := runOver(sets, m)
			if cost == 0 {
				before = r
			}
			name := fmt.Sprintf("%.2f", cost)
			if cost == clashCost {
				name = "**" + name + "**, as shipped"
			}
			fmt.Fprintf(w, "| %s | %s |", base.name, name)
			worst := math.Inf(1)
			for i, per := range r {
				fmt.Fprintf(w, " %.4f |", mean(per)[objective])
				worst = min(worst, mean(per)[objective]-mean(before[i])[objective])
			}
			fmt.Fprintf(w, " %.4f | %+.4f |\n", r.objective(), worst)
		}
	}
	fmt.Fprintf(w, `
## Negation

Queries over the 527 real tools that say what must not be done ("list files without deleting them").
*Ruled out*: a tool that does what the query rules out comes first. *Wanted*: a tool that the query
wants comes first, or is among the first five. The words of the clause count for nothing, and tools
of its verb lose %.0f %% of their score.

| must not | queries | ruled out: before | as shipped | wanted first: before | as shipped | wanted among 5: before | as shipped |
|---|---|---|---|---|---|---|---|
`, 100*negationCost)
	without := verbless(fusedMixing())
	for _, not := range []string{"delete", "change", "send"} {
		a, b := rulings(t, without, not), rulings(t, fusedMixing(), not)
		if b.queries == 0 || a.first == 0 || b.first > 0 || b.wanted <= a.wanted || b.among < a.among {
			t.Errorf("%s: before %+v, now %+v; want no excluded tool first, and no right tool lost", not, a, b)
		}
		fmt.Fprintf(w, "| %s | %d | %d | **%d** | %d | **%d** | %d | **%d** |\n", not, a.queries, a.first, b.first, a.wanted, b.wanted, a.among, b.among)
	}
}
