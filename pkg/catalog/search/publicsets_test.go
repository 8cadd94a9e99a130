package search

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
)

// publicSets loads the judged queries by which the parameters of the ranking were chosen. They are
// not part of this repository.
func publicSets(t testing.TB) []*judgedSet {
	t.Helper()
	data := local.Data(t, ".")
	dev := filepath.Join(data, "retrieval-dev")
	sets := []*judgedSet{loadSet(t, "the 47", filepath.Join(dev, "tools.json"), filepath.Join(dev, "golden.json"))}
	for _, name := range []string{"bfcl", "metatool", "toolalpaca"} {
		dir := filepath.Join(data, "retrieval-public", name)
		sets = append(sets, loadSet(t, name, filepath.Join(dir, "tools.json"), filepath.Join(dir, "queries.json")))
	}
	return sets
}

// unbounded returns m without a minimum cosine, so that every document with a vector matches.
func unbounded(m mixing) mixing {
	m.threshold = -1
	return m
}

// exact returns m without corrections of misspelled words.
func exact(m mixing) mixing {
	m.exact = true
	return m
}

// verbless returns m without costs of verbs, and with the words of negated clauses.
func verbless(m mixing) mixing {
	m.clash, m.negation = 0, 0
	return m
}

// TestWorkedExample checks every number of the ranking of one query.
func TestWorkedExample(t *testing.T) {
	s := publicSets(t)[0]
	const mass = 17.1109
	query := s.ix.Query("Show me the full text content stored inside a file on disk")
	hits := s.ix.Rank(query, s.all, 4, Options{}).Hits
	want := []struct{ bm25f, cosine, score float64 }{
		{7.4244, .658, .434}, // read_text_file
		{7.1502, .657, .423}, // read_file
		{5.9895, .637, .298}, // write_file, which does not read: .8 of .372
		{3.7037, .578, .264}, // read_multiple_files
	}
	if len(hits) != len(want) {
		t.Fatalf("%d hits, want %d", len(hits), len(want))
	}
	for i, w := range want {
		h := hits[i]
		if math.Abs(h.Lexical*mass-w.bm25f) > .0001 || math.Abs(math.Sqrt(h.Semantic)-w.cosine) > .005 || math.Abs(h.Score-w.score) > .005 {
			t.Errorf("hit %d: BM25F %.4f, cosine %.3f, score %.3f, want %.4f, %.3f, %.3f",
				i+1, h.Lexical*mass, math.Sqrt(h.Semantic), h.Score, w.bm25f, w.cosine, w.score)
		}
	}
}
