package approval_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// pages is a store whose Changes always returns these pages.
type pages struct {
	approval.Store
	pages [][]approval.Decision
	since []time.Time // of each call
	fails int         // number of the page that cannot be read; 0: each can
}

func (p *pages) Changes(_ context.Context, since time.Time, after string) ([]approval.Decision, string, error) {
	p.since = append(p.since, since)
	n, _ := strconv.Atoi(after)
	switch {
	case n == p.fails && n > 0:
		return nil, "", errors.New("store is down")
	case n+1 < len(p.pages):
		return p.pages[n], strconv.Itoa(n + 1), nil
	case n < len(p.pages):
		return p.pages[n], "", nil
	}
	return nil, "", nil
}

func second(n int) time.Time { return time.Unix(1_800_000_000+int64(n), 0).UTC() }

func named(name string) tool.ID { return tool.ID{Server: "s", Name: name} }

// decided returns a decision about a tool, with a revision and a time in seconds.
func decided(name string, rev int64, at int) approval.Decision {
	return approval.Decision{ID: named(name), Rev: rev, DecidedAt: second(at)}
}

func nothing(tool.ID) (int64, bool) { return 0, false }

// revs returns the revisions of the tools a to d in the feed.
func revs(f *approval.Feed) map[string]int64 {
	out := map[string]int64{}
	for _, name := range []string{"a", "b", "c", "d"} {
		if r := f.Decisions.Record(named(name), nil); r != nil {
			out[name] = r.Rev
		}
	}
	return out
}

func TestFeed(t *testing.T) {
	t.Run("the latest revision counts, in any order and pages", func(t *testing.T) {
		all := []approval.Decision{
			decided("a", 1, 1), decided("a", 2, 5), decided("a", 3, 5), decided("b", 1, 2), decided("c", 7, 3), decided("c", 8, 9),
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			store := &pages{pages: slices.Collect(slices.Chunk(all, 1+rng.IntN(3)))}
			var f approval.Feed
			f.Rebase(time.Time{}, second(0), nothing)
			f.Read(t.Context(), store, second(0))
			if diff := cmp.Diff(map[string]int64{"a": 3, "b": 1, "c": 8}, revs(&f)); diff != "" || !f.Decisions.Newest.Equal(second(9)) {
				t.Fatalf("newest %v, decisions (-want +got):\n%s", f.Decisions.Newest, diff)
			}
			before := f.Decisions
			if f.Read(t.Context(), store, second(1)); f.Decisions != before {
				t.Fatal("reading the same decisions again changed them")
			}
		}
	})
	t.Run("a read continues at the page that failed", func(t *testing.T) {
		store := &pages{pages: [][]approval.Decision{{decided("a", 1, 1)}, {decided("b", 1, 2)}, {decided("c", 1, 3)}}, fails: 2}
		var f approval.Feed
		f.Rebase(second(0), second(100), nothing)
		if progress := f.Read(t.Context(), store, second(100)); !progress || f.Err == nil || f.Decisions.Len() != 2 || !f.ReadAt.IsZero() {
			t.Errorf("after two pages: progress %t, %v, %v", progress, f.Err, revs(&f))
		}
		if progress := f.Read(t.Context(), store, second(101)); progress || f.Err == nil {
			t.Errorf("after a page that cannot be read: progress %t, %v", progress, f.Err)
		}
		store.fails, store.since = 0, nil
		if progress := f.Read(t.Context(), store, second(200)); !progress || f.Err != nil || f.Decisions.Len() != 3 {
			t.Errorf("at the end: progress %t, %v, %v", progress, f.Err, revs(&f))
		}
		if want := []time.Time{second(-10)}; !slices.Equal(store.since, want) || !f.Began.Equal(second(100)) || !f.ReadAt.Equal(second(200)) {
			t.Errorf("read since %v, began %v, ended %v; want only one more page, of the read that began at 100", store.since, f.Began, f.ReadAt)
		}
	})
	t.Run("a decision replaces only an older record", func(t *testing.T) {
		var f approval.Feed
		f.Rebase(second(0), second(1), nothing)
		f.Read(t.Context(), &pages{pages: [][]approval.Decision{{decided("a", 5, 1)}}}, second(1))
		for rev, want := range map[int64]int64{4: 5, 5: 5, 6: 6} {
			known := &approval.Record{Server: "s", Tool: "a", Rev: rev}
			if got := f.Decisions.Record(named("a"), known); got.Rev != want || (got == known) != (rev >= 5) {
				t.Errorf("with a record of revision %d, the result has revision %d", rev, got.Rev)
			}
		}
	})
}

func TestFeedRebase(t *testing.T) {
	store := &pages{pages: [][]approval.Decision{{decided("a", 2, 101), decided("b", 1, 102), decided("c", 1, 103), decided("d", 1, 120)}}}
	var f approval.Feed
	f.Rebase(second(100), second(101), nothing)
	f.Read(t.Context(), store, second(121))
	if !store.since[0].Equal(second(90)) {
		t.Errorf("a cold start reads since %v, want 10 s before the catalog", store.since[0])
	}
	for _, tt := range []struct {
		name  string
		made  int
		has   map[string]int64 // revisions in the catalog
		want  map[string]int64
		since int
	}{
		// The catalog lacks c and d. It was made at 125, so it includes the decision about c, which
		// was made at 103, but perhaps not the decision about d, which was made at 120.
		{"later", 125, map[string]int64{"a": 3, "b": 1}, map[string]int64{"d": 1}, 115},
		{"with older revisions", 105, map[string]int64{"a": 1, "b": 0}, map[string]int64{"a": 2, "b": 1, "c": 1, "d": 1}, 111},
		{"from before the feed began", 50, nil, map[string]int64{}, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, next := f, &pages{}
			f.Rebase(second(tt.made), second(126), func(id tool.ID) (int64, bool) {
				rev, ok := tt.has[id.Name]
				return rev, ok
			})
			if diff := cmp.Diff(tt.want, revs(&f)); diff != "" {
				t.Error(diff)
			}
			f.Read(t.Context(), next, second(126))
			if !next.since[0].Equal(second(tt.since)) {
				t.Errorf("read since %v, want %v", next.since[0], second(tt.since))
			}
		})
	}
}

// A read covers every decision that was made after the last read, even if the clocks changed in
// between: the store of a laptop uses the same clocks.
func TestFeedClocks(t *testing.T) {
	for name, pass := range approvaltest.ThreeSeconds {
		for _, cold := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "", true: " before the first read"}[cold], func(t *testing.T) {
				c := &approvaltest.Clock{Begin: time.Now()}
				var f approval.Feed
				made := c.Now().Round(0).UTC()
				c.Wait(time.Second)
				f.Rebase(made, c.Now(), nothing)
				if !cold {
					c.Wait(time.Minute)
					f.Read(t.Context(), &pages{}, c.Now())
				}
				decided := []time.Time{c.Now().Round(0)}
				pass(c)
				decided = append(decided, c.Now().Round(0))
				c.Wait(time.Minute)
				var store pages
				f.Read(t.Context(), &store, c.Now())
				for i, at := range decided {
					if since := store.since[0]; at.Before(since) {
						t.Errorf("decision %d of %v is before %v, where the read starts", i, at, since)
					}
				}
			})
		}
	}
}

// A decision that is newer than the catalog has no note. Agents do not see the older note.
func TestDecisionOverARecord(t *testing.T) {
	known := decidedRecord(approval.Approved, "h1", "h1")
	known.Tell, known.Endorsed = true, approval.Remembered{Hash: "h1", By: "ada", At: noon}
	refused := blocked(t, known, noon)
	refused = observed(&refused, "h2").Next(noon)
	var f approval.Feed
	f.Rebase(noon, noon, func(tool.ID) (int64, bool) { return known.Rev, true })
	f.Read(t.Context(), &pages{pages: [][]approval.Decision{{refused.Decision()}}}, noon)
	got := f.Decisions.Record(known.ID(), &known)
	if got.Tell || got.Note != "" || got.By != "" || got.Endorsement().Hash != "" {
		t.Errorf("record = %+v, want no text of the earlier decision", got)
	}
	if user, _ := approval.Facts(got, approval.Off, "h1"); user != lock.Yes {
		t.Errorf("a blocked definition in the catalog: disabled is %v, want yes", user)
	}
}

func TestDecisionsSame(t *testing.T) {
	read := func(all ...approval.Decision) *approval.Decisions {
		var f approval.Feed
		f.Rebase(second(0), second(0), nothing)
		f.Read(t.Context(), &pages{pages: [][]approval.Decision{all}}, second(60))
		return f.Decisions
	}
	none, one := read(), read(decided("a", 1, 1))
	for name, c := range map[string]struct {
		a, b *approval.Decisions
		want bool
	}{
		"themselves":      {one, one, true},
		"none and none":   {none, read(), true},
		"none and one":    {none, one, false},
		"one and none":    {one, none, false},
		"one, read again": {one, read(decided("a", 1, 1)), false}, // not compared
		"not known":       {none, nil, false},
	} {
		if got := c.a.Same(c.b); got != c.want {
			t.Errorf("%s: Same = %t, want %t", name, got, c.want)
		}
	}
}
