package search

import (
	"math/rand/v2"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/catalog/search/embedding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// partition splits a catalog into parts, some of them empty, and joins their indexes; sometimes it
// joins a few of them first.
func partition(t testing.TB, r *rand.Rand, catalog []Doc) *Index {
	t.Helper()
	var parts []*Index
	for len(catalog) > 0 || r.IntN(3) > 0 {
		n := min(r.IntN(12), len(catalog))
		parts = append(parts, indexOf(t, catalog[:n]))
		catalog = catalog[n:]
	}
	if len(parts) > 2 && r.IntN(2) == 0 {
		k := 1 + r.IntN(len(parts)-1)
		return Join(Join(parts[:k]...), Join(parts[k:]...))
	}
	return Join(parts...)
}

// randomView returns a random set of n documents: usually some of them, sometimes all or none.
func randomView(r *rand.Rand, n int) tool.Set {
	s := tool.NewSet(n)
	of := r.IntN(5)
	for i := range n {
		if of > 0 && r.IntN(of) == 0 {
			s.Add(i)
		}
	}
	return s
}

// TestJoin ranks random views of random catalogs with one index, and with the joined indexes of a
// random partition. All results are the same to the last bit.
func TestJoin(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	typist := newTypist()
	for round := range 100 {
		catalog := make([]Doc, r.IntN(60))
		for i := range catalog {
			catalog[i] = randomDoc(r)
		}
		one, joined := indexOf(t, catalog), partition(t, r, catalog)
		if joined.Len() != len(catalog) || !joined.Vectors() {
			t.Fatalf("joined: %d documents, vectors %v; want %d with vectors", joined.Len(), joined.Vectors(), len(catalog))
		}
		query := randomDoc(r).Description
		if round%2 == 0 {
			query = typist.spoil(typist.spoil(query))
		}
		if round%3 == 0 {
			query = randomRuling(r)
		}
		same(t, one, joined, query, randomView(r, len(catalog)), randomView(r, len(catalog)), Options{Lexical: round%5 == 0})
	}
}

// same fails the test if two indexes of the same documents answer differently.
func same(t *testing.T, one, joined *Index, query string, a, b tool.Set, o Options) {
	t.Helper()
	for _, limit := range []int{0, 1, 7, 1000} {
		for _, o.Matched = range []bool{false, true} {
			want, got := one.Rank(one.Query(query), a, limit, o), joined.Rank(joined.Query(query), a, limit, o)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("query %q, limit %d, %+v: (-one +joined)\n%s", query, limit, o, diff)
			}
		}
	}
	if diff := cmp.Diff(one.Outranking(one.Query(query), a, b, o), joined.Outranking(joined.Query(query), a, b, o)); diff != "" {
		t.Fatalf("query %q: Outranking (-one +joined)\n%s", query, diff)
	}
}

// TestJoinWithoutVectors checks the effect of one part without vectors on the joined index.
func TestJoinWithoutVectors(t *testing.T) {
	catalog := []Doc{{Name: "delete_file"}, {Name: "send_email"}, {Name: "delete_page"}}
	bare := func(docs []Doc) *Index {
		ix, err := Open(builtWith(docs, &embedding.Table{}, ""))
		require.OK(t, err)
		return ix
	}
	for _, tt := range []struct {
		name    string
		joined  *Index
		docs    int
		vectors bool
	}{
		{"nothing", Join(), 0, true},
		{"one part", Join(indexOf(t, catalog)), 3, true},
		{"a part without vectors", Join(indexOf(t, catalog[:1]), bare(catalog[1:2]), indexOf(t, catalog[2:])), 3, false},
		{"an empty part without vectors", Join(indexOf(t, catalog[:2]), bare(nil), indexOf(t, catalog[2:])), 3, true},
		{"no part with vectors", Join(bare(catalog[:1]), bare(catalog[1:])), 3, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.joined.Len() != tt.docs || tt.joined.Vectors() != tt.vectors {
				t.Fatalf("%d documents, vectors %v; want %d, %v", tt.joined.Len(), tt.joined.Vectors(), tt.docs, tt.vectors)
			}
			one := bare(catalog[:tt.docs])
			if tt.vectors {
				one = indexOf(t, catalog[:tt.docs])
			}
			same(t, one, tt.joined, "remove a document, delte a pgae", fullSet(tt.docs), viewOf(tt.docs), Options{})
		})
	}
}
