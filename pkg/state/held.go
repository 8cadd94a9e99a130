package state

import (
	"context"
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// held is what a Loader read last, good or not, and what was made of it.
type held struct {
	source    *catalog.Source[config.Config] // nil: no config was ever read
	sourceErr error                          // why there is none
	sourceAt  time.Time

	rules    *catalog.Source[policy.Policy] // nil: nothing is known of a policy
	rulesErr error                          // why nothing is
	rulesAt  time.Time

	snap    *catalog.Snapshot // nil: never read
	snapErr error
	snapAt  time.Time

	lost      bool // the approval store does not have what the catalog knows of it
	unchecked bool // that was not looked at since the catalog was

	overlay      *overlay // nil: there was no catalog yet
	approvalsErr error
	approvalsAt  time.Time // last read that worked
	readTo       time.Time // when it began, zero if the overlay began anew since
	pass         pass      // a read that is not at its end yet
	knownAt      time.Time // as of when people's decisions are known, by either way

	configDue    deadline
	approvalsDue deadline

	offer *offer
	bench *bench
	parts parts // what the state's world was made of
}

// A pass is a read of decisions, page by page.
type pass struct {
	began time.Time
	since time.Time
	after string // "": nothing is read yet
}

func (h *held) ready() bool { return h.source != nil && h.snap != nil }

// unread reports whether something could not be read, so that it is asked for
// again soon. A file that is there and wrong is not: it waits for a new one.
func (h *held) unread() bool {
	return h.source == nil || h.source.Unread != nil || h.rules == nil || h.rules.Unread != nil || h.snapErr != nil
}

func (h *held) readConfig(ctx context.Context, objects object.Store, now time.Time) {
	source, err := catalog.LoadConfig(ctx, objects, h.source)
	if err != nil {
		h.sourceErr = err
		return
	}
	h.source, h.sourceErr = source, nil
	if source.Unread == nil {
		h.sourceAt = now
	}
}

// readPolicy reads policy.cedar. If neither it nor the last good one can be read, what is
// held stays.
func (h *held) readPolicy(ctx context.Context, objects object.Store, now time.Time) {
	rules, err := catalog.LoadPolicy(ctx, objects, h.rules)
	if err != nil {
		h.rulesErr = err
		return
	}
	h.rules, h.rulesErr = rules, nil
	if rules.Unread == nil {
		h.rulesAt = now
	}
}

// policy returns the policy in use, nil if none that parses was ever read.
func (h *held) policy() *policy.Policy {
	if h.rules == nil {
		return nil
	}
	return h.rules.Value
}

// readCatalog reads the catalog. offered is one that another part of the process holds; nil: none.
func (h *held) readCatalog(ctx context.Context, objects object.Store, now time.Time, offered *catalog.Snapshot) {
	have := h.snap
	if offered != nil && (have == nil || offered.SHA256() != have.SHA256() && offered.CreatedAt().After(have.CreatedAt())) {
		have = offered
	}
	snap, err := catalog.Load(ctx, objects, have)
	if err != nil {
		h.snapErr = err
		return
	}
	if snap != h.snap {
		h.takeCatalog(snap, now)
	}
	h.snapErr, h.snapAt = nil, now
}

// takeCatalog goes on with snap, which brings people's decisions as of the sync that
// made it. One that is older than what was held begins the overlay anew.
func (h *held) takeCatalog(snap *catalog.Snapshot, now time.Time) {
	made := snap.CreatedAt()
	if h.overlay != nil && made.Before(h.overlay.from) {
		h.overlay, h.readTo, h.knownAt, h.pass = nil, time.Time{}, time.Time{}, pass{}
	}
	h.snap, h.overlay = snap, h.overlay.rebase(snap)
	if known := now.Add(-max(wall(now).Sub(made), 0)); known.After(h.knownAt) {
		h.knownAt = known
	}
}

// checkStore looks whether the approval store still has a record that was written lately, of
// those that the catalog knows. A store that was emptied or set back does not have it: then
// nothing is known of the others either, until a sync has put them back. Every request that
// reads a config may pay for it, so it is the cheap read that comes first.
func (h *held) checkStore(ctx context.Context, approvals approval.Store) {
	i, ok := h.snap.Witness()
	if !ok {
		h.lost, h.unchecked = false, false
		return
	}
	for _, read := range []func(context.Context, tool.ID) (approval.Record, error){approvals.Peek, approvals.Get} {
		r, err := read(ctx, h.snap.ID(i))
		switch {
		case err == nil:
			h.lost = h.snap.Lost(i, &r)
		case errors.Is(err, approval.ErrNotFound):
			h.lost = true
		default:
			return // it is asked again; calls ask for themselves
		}
		if h.unchecked = false; !h.lost {
			return // else the first may just be late
		}
	}
}

// since returns where the next read of decisions begins: a little before the catalog was
// made or the last read, whichever is later. A catalog that is made in the future does not
// count: one of the clocks is wrong, and it cannot be told which.
func (h *held) since(now time.Time) time.Time {
	var known time.Time
	if !h.readTo.IsZero() {
		known = asOf(now, h.readTo)
	}
	if made := h.snap.CreatedAt(); made.After(known) && !made.After(wall(now)) {
		known = made
	}
	if known.IsZero() {
		return known
	}
	return known.Add(-lag)
}

// expired reports whether people's decisions were last known too long ago.
func (h *held) expired(now time.Time, hold time.Duration) bool {
	return h.approvalsErr != nil && now.Sub(h.knownAt) > hold
}

// nextDue returns when something has to be looked at again.
func (h *held) nextDue(now time.Time, o Options) deadline {
	due := h.configDue
	if h.snap == nil {
		return due
	}
	due = due.earlier(now, h.approvalsDue.at)
	if h.approvalsErr != nil && !h.parts.unknown {
		due = due.earlier(now, h.knownAt.Add(o.ApprovalHold+1))
	}
	return due
}

// build makes the state out of what is held, and takes over what still holds
// from the one before.
func (h *held) build(now time.Time, o Options, prev *State) *State {
	s := &State{Policy: h.policy(), Catalog: h.snap, Health: h.health(now, o)}
	if h.source != nil {
		s.Config = h.source.Value
	}
	if !h.ready() {
		return s
	}
	if h.offer == nil || h.offer.cfg != s.Config || h.offer.snap.SHA256() != h.snap.SHA256() {
		h.offer = newOffer(s.Config, h.snap)
	}
	if h.bench == nil || h.bench.offer != h.offer || h.bench.policy != s.Policy {
		h.bench = newBench(h.offer, s.Policy)
	}
	next := parts{h.offer, h.bench, h.snap, h.overlay, h.lost || h.expired(now, o.ApprovalHold)}
	s.world = newWorld(next, prev.world, h.parts)
	h.parts = next
	s.Health.Servers, s.Health.Selection = s.world.census, s.world.boundErr
	s.Health.Warnings = append(s.Health.Warnings, s.world.warnings()...)
	return s
}
