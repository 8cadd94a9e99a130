package search

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParts ranks 40,000 tools in one part, and in two parts at the same time. The results are the
// same.
func TestParts(t *testing.T) {
	r, typist := rand.New(rand.NewPCG(31, 32)), newTypist()
	part := indexOf(t, realDocs(t))
	ix := Join(slices.Repeat([]*Index{part}, 40_000/part.Len()+1)...)
	processors := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(processors) })
	for _, text := range []string{benchQuery, "find a hotel", typist.spoil("convert a document"), "nothing of that kind"} {
		q, view := ix.Query(text), fullSet(ix.Len())
		some := randomView(r, ix.Len())
		found := func(n int) (out []any) {
			runtime.GOMAXPROCS(n)
			s := ix.scan(q, view, fusedMixing())
			other := ix.scan(q, view, fusedMixing())
			if s.parts != min(n, ix.Len()/partSize) || other.parts != 1 {
				t.Fatalf("%d processors: a scan of %d tools has %d parts, and a second scan during it has %d, want 1", n, ix.Len(), s.parts, other.parts)
			}
			other.end()
			s.end()
			return append(out, ix.Rank(q, view, 20, Options{Matched: true}), ix.Rank(q, some, ix.Len(), Options{}),
				ix.Rank(q, view, 0, Options{}), ix.Outranking(q, view.Without(some), some, Options{}))
		}
		if diff := cmp.Diff(found(1), found(2)); diff != "" {
			t.Errorf("%q: (-one part +two)\n%.2000s", text, diff)
		}
	}
}

// TestScansAtOnce ranks in indexes of different sizes at the same time. Each ranking has its own
// scores.
func TestScansAtOnce(t *testing.T) {
	part := indexOf(t, realDocs(t))
	small, large := part, Join(slices.Repeat([]*Index{part}, 70)...)
	var all sync.WaitGroup
	for _, ix := range []*Index{small, large, small, large} {
		q, view := ix.Query("find a hotel near the airport"), fullSet(ix.Len())
		want := ix.Rank(q, view, 10, Options{})
		all.Go(func() {
			for range 20 {
				if diff := cmp.Diff(want, ix.Rank(q, view, 10, Options{})); diff != "" {
					t.Errorf("%d tools: (-one ranking +several at the same time)\n%s", ix.Len(), diff)
				}
			}
		})
	}
	all.Wait()
}
