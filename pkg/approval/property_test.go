package approval_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

var (
	hashes = []tool.Hash{"h1", "h2", "h3"}
	modes  = []approval.Mode{approval.Manual, approval.OnChange, approval.Off}
)

// A life is what should be true of a tool, told by its events alone: who said
// yes to what, and whether someone said no.
type life struct {
	record   *approval.Record
	blessed  map[tool.Hash]bool // hashes that a person or a baseline approved at this URL
	last     tool.Hash          // the newest of them
	current  tool.Hash
	disabled bool
	url      string
	trace    []string
}

func (l *life) did(format string, args ...any) {
	l.trace = append(l.trace, fmt.Sprintf(format, args...))
}

// step lets one random thing happen.
func (l *life) step(t *testing.T, rng *rand.Rand, now time.Time) {
	h := hashes[rng.IntN(len(hashes))]
	if l.record == nil || rng.IntN(2) == 0 {
		l.observe(rng, h, now)
		return
	}
	var next approval.Record
	var err error
	switch rng.IntN(4) {
	case 0, 1:
		l.did("approve %s", h)
		next, _, err = approval.Approve(*l.record, h, "ada", "", now)
		if stale := errors.Is(err, approval.ErrStale); stale != (h != l.current) {
			t.Fatalf("Approve(%s) at current %s = %v after %q", h, l.current, err, l.trace)
		}
		if err != nil {
			return
		}
		l.blessed[h], l.last = true, h
	case 2:
		l.did("disable")
		l.disabled = true
		next, _, err = approval.Disable(*l.record, "ada", "", now)
	default:
		l.did("enable")
		l.disabled = false
		next, _, err = approval.Enable(*l.record, "ada", "", now)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.record = &next
}

func (l *life) observe(rng *rand.Rand, h tool.Hash, now time.Time) {
	d := seen(h, modes[rng.IntN(len(modes))], rng.IntN(2) == 0, now)
	if rng.IntN(8) == 0 {
		d.URL = "https://other.example.com"
	}
	l.did("observe %s, mode %s, baseline %v, at %s", h, d.Mode, d.Baseline, d.URL)
	if l.record == nil && d.Mode == approval.OnChange && d.Baseline {
		l.blessed[h], l.last = true, h
	}
	if l.record != nil && d.URL != l.url {
		clear(l.blessed)
		l.last = ""
	}
	l.current, l.url = h, d.URL
	next, e, changed := approval.Observe(l.record, d)
	if changed || e != nil {
		l.record = &next
	}
}

// check holds the record against what should be true.
func (l *life) check(t *testing.T) {
	t.Helper()
	for _, mode := range modes {
		for _, h := range hashes {
			disabled, approved := approval.Facts(l.record, mode, h)
			if (disabled == lock.Yes) != l.disabled {
				t.Fatalf("disabled is %v after %q", disabled, l.trace)
			}
			if mode == approval.Off {
				continue
			}
			if approved == lock.Yes && !l.blessed[h] {
				t.Fatalf("%s counts as approved, but nobody approved it: %q", h, l.trace)
			}
			stands := h == l.last
			if h != l.current {
				stands = false
			}
			if (approved == lock.Yes) != stands {
				t.Fatalf("approved(%s) is %v in mode %s, want %v after %q", h, approved, mode, stands, l.trace)
			}
		}
	}
}

func TestTransitionsApproveNothingElse(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l := life{blessed: map[tool.Hash]bool{}}
		now := noon
		for range 25 {
			now = now.Add(time.Duration(rng.IntN(int(30 * time.Hour))))
			l.step(t, rng, now)
			l.check(t)
		}
	}
}

func TestTransitionsArePure(t *testing.T) {
	for seed := range uint64(50) {
		var records [2]approval.Record
		for i := range records {
			rng := rand.New(rand.NewPCG(seed, 2))
			l := life{blessed: map[tool.Hash]bool{}}
			now := noon
			for range 25 {
				now = now.Add(time.Hour)
				l.step(t, rng, now)
			}
			records[i] = *l.record
		}
		if !slices.Equal(records[0].Current, records[1].Current) || records[0].State != records[1].State || records[0].At != records[1].At {
			t.Fatalf("the same events made %+v and %+v", records[0], records[1])
		}
	}
}

func TestObserveUnchanged(t *testing.T) {
	r, _, _ := approval.Observe(nil, seen("h1", approval.OnChange, true, noon))
	for day := range 400 {
		if _, e, changed := approval.Observe(&r, seen("h1", approval.OnChange, false, noon.AddDate(0, 0, day))); changed || e != nil {
			t.Fatalf("day %d: changed %v, audit line %+v", day, changed, e)
		}
	}
}
