package approval

import (
	"context"
	"maps"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// overlap is how far a read goes back before the start of the last read. The reason is that the
// index of a distributed store can show writes late, and that each function has its own clock.
const overlap = 10 * time.Second

// Decisions are the decisions of people since a catalog was made. They are immutable.
type Decisions struct {
	Newest time.Time // time of the newest decision or, if there is none, of the catalog

	from time.Time // the decisions are complete from this time on
	byID map[tool.ID]Decision
}

// Len returns how many tools the decisions are about.
func (d *Decisions) Len() int { return len(d.byID) }

// Same reports whether the decisions are the same as in other. Empty decisions are the same, even
// if they belong to two catalogs.
func (d *Decisions) Same(other *Decisions) bool {
	return d == other || d != nil && other != nil && len(d.byID) == 0 && len(other.byID) == 0
}

// Record returns the tool's record with the decisions applied. known is the catalog's record; nil:
// none.
func (d *Decisions) Record(id tool.ID, known *Record) *Record {
	rev := int64(-1)
	if known != nil {
		rev = known.Rev
	}
	decision, ok := d.After(id, rev)
	if !ok {
		return known
	}
	r := decision.applyTo(known)
	r.UpdatedAt = time.Time{} // the record has the time of the older revision
	return r
}

// After returns the decision about the tool if the revision that the decision made is later than
// rev.
func (d *Decisions) After(id tool.ID, rev int64) (Decision, bool) {
	decision, ok := d.byID[id]
	return decision, ok && decision.Rev > rev
}

// apply returns d with page added, or d itself if page has nothing new. It skips a decision if d
// has a decision with the same or a later revision.
func (d *Decisions) apply(page []Decision) *Decisions {
	next := *d
	copied := false
	for _, p := range page {
		if p.DecidedAt.After(next.Newest) {
			next.Newest = p.DecidedAt
		}
		if held, ok := next.byID[p.ID]; ok && held.Rev >= p.Rev {
			continue
		}
		if !copied {
			next.byID = make(map[tool.ID]Decision, len(d.byID)+len(page))
			maps.Copy(next.byID, d.byID)
			copied = true
		}
		next.byID[p.ID] = p
	}
	if !copied && next.Newest.Equal(d.Newest) {
		return d
	}
	return &next
}

// A Feed follows the decisions since a catalog was made. Copies are independent. A Feed measures
// ages by the monotonic clock and by the wall clock, and uses the greater age.
type Feed struct {
	Decisions *Decisions // replaced after each change; nil: there was no catalog yet
	Err       error      // why the last read failed; nil: it succeeded
	ReadAt    time.Time  // when the last complete read ended
	Began     time.Time  // when that read began; zero if the feed restarted after it
	KnownAt   time.Time  // all decisions before this time are known, from a read or the catalog

	made   time.Time // when the catalog was made
	before mark      // position of the read that is not complete yet
}

// A mark is the position of a read of several pages.
type mark struct {
	began, since time.Time
	after        string // "": no page was read
}

// Rebase continues from a catalog that was made at the given time. revision returns the revision of
// the catalog's record of a tool, 0 for none, and whether the catalog has the tool. Rebase drops
// the decisions that the catalog includes. If the catalog was made before the feed began, the feed
// restarts.
func (f *Feed) Rebase(made, now time.Time, revision func(tool.ID) (rev int64, listed bool)) {
	if f.Decisions != nil && made.Before(f.Decisions.from) {
		*f = Feed{Err: f.Err, ReadAt: f.ReadAt}
	}
	next := &Decisions{from: made, Newest: made, byID: map[tool.ID]Decision{}}
	if held := f.Decisions; held != nil {
		next.from = held.from
		if held.Newest.After(made) {
			next.Newest = held.Newest
		}
		for id, d := range held.byID {
			// If the catalog lacks the tool, only a recent decision is kept: the catalog that will
			// have the tool has all earlier decisions in the tool's record.
			if rev, listed := revision(id); listed && rev < d.Rev || !listed && !d.DecidedAt.Before(made.Add(-overlap)) {
				next.byID[id] = d
			}
		}
	}
	f.Decisions, f.made = next, made
	if known := now.Add(-max(now.Round(0).Sub(made), 0)); known.After(f.KnownAt) {
		f.KnownAt = known
	}
}

// Read reads more pages, and reports whether it read any. If ctx ends before all pages are read,
// the next Read continues there. Otherwise a feed whose requests are too short for all pages would
// never be complete.
func (f *Feed) Read(ctx context.Context, s Store, now time.Time) (progress bool) {
	if f.before.after == "" {
		f.before = mark{began: now, since: f.since(now)}
	}
	for {
		page, next, err := s.Changes(ctx, f.before.since, f.before.after)
		if f.Err = err; err != nil {
			return progress
		}
		f.Decisions, f.before.after, progress = f.Decisions.apply(page), next, true
		if next == "" {
			break
		}
	}
	f.ReadAt, f.Began = now, f.before.began
	if f.Began.After(f.KnownAt) {
		f.KnownAt = f.Began
	}
	return true
}

// since returns where a read begins: a little before the later of two times, when the catalog was
// made and when the last read began. A catalog that was made in the future does not count: one of
// the clocks is wrong, and the feed cannot know which one.
func (f *Feed) since(now time.Time) time.Time {
	var known time.Time
	if age := now.Sub(f.Began); !f.Began.IsZero() && age >= 0 {
		known = now.Round(0).Add(-age)
		if began := f.Began.Round(0); began.Before(known) { // otherwise the clock was set back after that read
			known = began
		}
	}
	if f.made.After(known) && !f.made.After(now.Round(0)) {
		known = f.made
	}
	if known.IsZero() {
		return known
	}
	return known.Add(-overlap)
}
