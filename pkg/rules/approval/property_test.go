package approval_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

var (
	hashes = []tool.Hash{"h1", "h2", "h3"}
	modes  = []approval.Mode{approval.Manual, approval.OnChange, approval.Off}
)

// A truth is the expected state of a tool. It is computed only from the tool's events: which hashes
// were approved or blocked, and whether a person disabled the tool.
type truth struct {
	blessed  map[tool.Hash]bool // hashes that a person or a baseline approved at this URL
	persons  map[tool.Hash]bool // hashes that a person approved
	blocked  map[tool.Hash]bool
	last     tool.Hash // the newest of the blessed hashes
	endorsed tool.Hash // the hash that a person approved last
	disabled bool
}

func (v truth) clone() truth {
	v.blessed, v.persons, v.blocked = maps.Clone(v.blessed), maps.Clone(v.persons), maps.Clone(v.blocked)
	return v
}

// A life has a tool's record and the expected state of the tool.
type life struct {
	truth
	record  *approval.Record
	current tool.Hash
	url     string
	trace   []string

	before  *approval.Record // the record before the last decision, while that decision can be undone
	beliefs truth            // the expected state before that decision
}

func newLife() *life {
	return &life{truth: truth{blessed: map[tool.Hash]bool{}, persons: map[tool.Hash]bool{}, blocked: map[tool.Hash]bool{}}}
}

func (l *life) did(format string, args ...any) {
	l.trace = append(l.trace, fmt.Sprintf(format, args...))
}

// keep stores r as a store does.
func (l *life) keep(r approval.Record, now time.Time) {
	r = r.Next(now)
	l.record = &r
}

// step performs one random event.
func (l *life) step(t *testing.T, rng *rand.Rand, now time.Time) {
	h := hashes[rng.IntN(len(hashes))]
	if l.record == nil || rng.IntN(2) == 0 {
		l.observe(rng, h, now)
		return
	}
	if rng.IntN(5) == 0 {
		l.undo(t, now)
		return
	}
	old, beliefs := *l.record, l.clone()
	if next, ok := l.decide(t, rng, h, now); ok {
		l.keep(next, now)
		l.before, l.beliefs = &old, beliefs
	}
}

func (l *life) decide(t *testing.T, rng *rand.Rand, h tool.Hash, now time.Time) (next approval.Record, ok bool) {
	ada := approval.Author{Actor: "ada", Note: fmt.Sprint(len(l.trace)), Tell: rng.IntN(2) == 0}
	var err, want error
	if h != l.current {
		want = approval.ErrStale
	}
	switch rng.IntN(7) {
	case 0, 1:
		l.did("approve %s", h)
		if next, _, err = approval.Approve(*l.record, h, ada, now); err == nil {
			l.blessed[h], l.persons[h], l.last, l.endorsed = true, true, h, h
			delete(l.blocked, h)
		}
	case 2, 3:
		l.did("block %s", h)
		if next, _, err = approval.Block(*l.record, h, ada, now); err == nil {
			l.block(h)
		}
	case 4:
		l.did("unblock %s", h)
		if want = nil; !l.blocked[h] {
			want = approval.ErrNotBlocked
		}
		if next, _, err = approval.Unblock(*l.record, h, ada, now); err == nil {
			delete(l.blocked, h)
		}
	case 5:
		l.did("disable")
		want, l.disabled = nil, true
		next, _, err = approval.Disable(*l.record, ada, now)
	default:
		l.did("enable")
		want, l.disabled = nil, false
		next, _, err = approval.Enable(*l.record, ada, now)
	}
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v, at current %s after %q", err, want, l.current, l.trace)
	}
	return next, err == nil
}

func (v *truth) block(h tool.Hash) {
	v.blocked[h] = true
	delete(v.blessed, h)
	delete(v.persons, h)
	if v.last == h {
		v.last = ""
	}
	if v.endorsed == h {
		v.endorsed = ""
	}
}

// undo undoes the last decision. If there is none, or if it is too late to undo it, undo checks
// that UndoDecision refuses.
func (l *life) undo(t *testing.T, now time.Time) {
	l.did("undo")
	next, e, err := approval.UndoDecision(*l.record, l.record.Rev, "bob", now)
	if l.before == nil || now.Sub(l.record.At) > approval.UndoTime {
		if !errors.Is(err, approval.ErrNoUndo) {
			t.Fatalf("undo = %v, want ErrNoUndo after %q", err, l.trace)
		}
		return
	}
	if err != nil || e.Action != approval.ActionUndo || e.Actor != "bob" || !next.DecidedAt.After(l.record.DecidedAt) {
		t.Fatalf("undo = %+v, %v after %q", e, err, l.trace)
	}
	want := *l.before
	want.DecidedAt, want.Rev, want.UpdatedAt, want.Format, want.Undo = next.DecidedAt, next.Rev, next.UpdatedAt, next.Format, nil
	if d := cmp.Diff(want, next); d != "" {
		t.Fatalf("undone (-want +got):\n%s\nafter %q", d, l.trace)
	}
	l.truth, l.before = l.beliefs, nil
	l.keep(next, now)
}

func (l *life) observe(rng *rand.Rand, h tool.Hash, now time.Time) {
	d := seen(h, modes[rng.IntN(len(modes))], rng.IntN(2) == 0, now)
	d.Remember = rng.IntN(2) == 0
	if rng.IntN(8) == 0 {
		d.URL = "https://other.example.com"
	}
	l.did("observe %s, mode %s, baseline %v, remember %v, at %s", h, d.Mode, d.Baseline, d.Remember, d.URL)
	if l.record == nil && d.Mode == approval.OnChange && d.Baseline {
		l.blessed[h], l.last = true, h
	}
	if l.record != nil && d.URL != l.url {
		clear(l.blessed)
		clear(l.persons)
		l.last, l.endorsed = "", ""
	}
	if d.Remember && l.persons[h] && l.last != h {
		l.last, l.endorsed = h, h
	}
	l.current, l.url = h, d.URL
	next, e, changed := approval.Observe(l.record, d)
	if changed || e != nil {
		l.keep(next, now)
		l.before = nil
	}
}

// check compares the record with the expected state.
func (l *life) check(t *testing.T) {
	t.Helper()
	for _, mode := range modes {
		for _, h := range hashes {
			disabled, approved := approval.Facts(l.record, mode, h)
			if (disabled == lock.Yes) != (l.disabled || l.blocked[h]) {
				t.Fatalf("%s: disabled = %v, want the opposite, after %q", h, disabled, l.trace)
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
	if got := l.record.Endorsement().Hash; got != l.endorsed {
		t.Fatalf("endorsed is %q, want %q after %q", got, l.endorsed, l.trace)
	}
	if isBlocked := l.record.State == approval.Blocked; isBlocked != l.blocked[l.current] {
		t.Fatalf("the state is %s after %q", l.record.State, l.trace)
	}
}

// soon returns a later time, often early enough to undo a decision.
func soon(rng *rand.Rand, now time.Time) time.Time {
	span := 30 * time.Hour
	if rng.IntN(2) == 0 {
		span = 5 * time.Minute
	}
	return now.Add(1 + time.Duration(rng.IntN(int(span))))
}

func TestTransitionsApproveNothingElse(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l, now := newLife(), noon
		for range 25 {
			now = soon(rng, now)
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
			l, now := newLife(), noon
			for range 25 {
				now = soon(rng, now)
				l.step(t, rng, now)
			}
			records[i] = *l.record
		}
		if d := cmp.Diff(records[0], records[1]); d != "" {
			t.Fatalf("the same events made two records:\n%s", d)
		}
	}
}

// A transition does not change its input record: a second try may start with that record.
func TestTransitionsLeaveTheirInput(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		l, now := newLife(), noon
		for range 25 {
			var given *approval.Record
			before := ""
			if l.record != nil {
				given, before = l.record, cmp.Diff(approval.Record{}, *l.record)
			}
			now = soon(rng, now)
			l.step(t, rng, now)
			if given != nil && cmp.Diff(approval.Record{}, *given) != before {
				t.Fatalf("a transition changed its input record after %q", l.trace)
			}
		}
	}
}

// inCatalog returns r as a catalog of an earlier program version stores it. Catalogs of this
// version also store which definitions are blocked.
func inCatalog(r approval.Record) approval.Record {
	r.Endorsed = r.Endorsement()
	r.Blocked, r.ApprovedBefore, r.Undo, r.Loss, r.Unknown, r.Format = nil, nil, nil, nil, nil, 0
	return r
}

// A definition that is blocked in the store or in the catalog is never callable. This is so for
// every loss of the store, every decision about the loss, and every later list of the server.
func TestBlocksOutliveLosses(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		l, now := newLife(), noon
		var versions []approval.Record
		for range 20 {
			now = soon(rng, now)
			l.step(t, rng, now)
			versions = append(versions, *l.record)
		}
		known := inCatalog(*l.record)
		if rng.IntN(2) == 0 {
			known.Blocked = l.record.Blocked
		}
		old := versions[rng.IntN(len(versions))]
		stored := &old
		if rng.IntN(4) == 0 {
			stored = nil
		}
		if !approval.IsLost(stored, &known) {
			continue
		}
		blocked := map[tool.Hash]bool{}
		if known.State == approval.Blocked {
			blocked[known.CurrentHash] = true
		}
		lists := known.Blocked
		if stored != nil {
			lists = slices.Concat(lists, stored.Blocked)
		}
		for _, m := range lists {
			blocked[m.Hash] = true
		}
		r, _ := approval.Recover(stored, &known, now)
		var err error
		switch rng.IntN(3) {
		case 0:
			r, _, err = approval.KeepRestored(r, "ada", now)
		case 1:
			r, _, err = approval.AcceptStore(r, "ada", now)
		}
		require.OK(t, err)
		after := life{truth: l.truth, record: &r, trace: l.trace}
		for range 4 {
			for h := range blocked {
				for _, mode := range modes {
					if disabled, approved := approval.Facts(after.record, mode, h); disabled != lock.Yes || mode != approval.Off && approved == lock.Yes {
						t.Fatalf("%s was blocked and is disabled %v, approved %v after %q", h, disabled, approved, after.trace)
					}
				}
			}
			after.observe(rng, hashes[rng.IntN(len(hashes))], now)
		}
		for _, m := range append(r.ApprovedBefore, r.Endorsement(), approval.Remembered{Hash: r.ApprovedHash}) {
			if blocked[m.Hash] {
				t.Fatalf("an approval of the blocked %s is left: %+v after %q", m.Hash, r, l.trace)
			}
		}
	}
}

// A rename makes no blocked definition callable, even if the server had the new name before.
func TestBlocksOutliveRenames(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var lives [2]*life
		now := noon
		for i := range lives {
			lives[i] = newLife()
			for range 12 {
				now = soon(rng, now)
				lives[i].step(t, rng, now)
			}
		}
		d := seen(hashes[rng.IntN(len(hashes))], approval.Off, false, now)
		d.From, d.ID.Server, d.Remember = lives[0].record, "renamed", rng.IntN(2) == 0
		blocked := maps.Clone(lives[0].blocked)
		var own *approval.Record
		if rng.IntN(2) == 0 {
			own = lives[1].record
			own.Server = "renamed"
			maps.Copy(blocked, lives[1].blocked)
		}
		next, _, changed := approval.Observe(own, d)
		if !changed {
			next = *own
		}
		for h := range blocked {
			if disabled, _ := approval.Facts(&next, approval.Off, h); disabled != lock.Yes {
				t.Fatalf("%s was blocked, but is open after\n%q\n%q", h, lives[0].trace, lives[1].trace)
			}
		}
		if slices.ContainsFunc(next.ApprovedBefore, func(m approval.Remembered) bool { return blocked[m.Hash] }) {
			t.Fatalf("ApprovedBefore has a blocked definition: %+v", next)
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
