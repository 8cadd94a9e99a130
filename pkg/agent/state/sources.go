package state

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// sources is what a Loader read last, good or not.
type sources struct {
	config object.Source[config.Config]
	policy object.Source[policy.Policy]

	snap    *catalog.Snapshot // nil: never read
	snapErr error
	snapAt  time.Time
	loading *catalog.Loading // of the next one
	patient bool             // its last attempt brought nothing: the next has more time

	lost      bool // the approval store does not have what the catalog knows of it
	unchecked bool // that was not looked at since the catalog was

	feed  approval.Feed // what people decided since the catalog was made
	stops stopFeed      // what they stopped

	configDue    deadline
	approvalsDue deadline
}

func newSources() sources { return sources{loading: new(catalog.Loading)} }

func (src *sources) ready() bool { return src.config.Value != nil && src.snap != nil }

// unread reports whether something could not be read, so that it is asked for
// again soon. A file that is there and wrong is not: it waits for a new one.
func (src *sources) unread() bool {
	return src.config.Unread != nil || src.policy.Unread != nil || src.snapErr != nil
}

// readObjects reads config, policy and catalog side by side. synced is a catalog that a sync in
// this process has in memory; nil: none.
func (src *sources) readObjects(ctx context.Context, objects object.Store, o Options, now time.Time, timeout time.Duration, synced *catalog.Snapshot) {
	var wg sync.WaitGroup
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	wg.Go(func() { src.config = catalog.ConfigFile.Load(ctx, objects, src.config, now) })
	wg.Go(func() { src.policy = catalog.PolicyFile.Load(ctx, objects, src.policy, now) })
	wg.Go(func() { src.readCatalog(whole, objects, now, timeout, synced) })
	wg.Wait()
	src.unchecked = true
	src.configDue = after(now, o.ConfigTTL)
	if src.unread() {
		src.configDue = after(now, min(o.Retry, o.ConfigTTL))
	}
}

// newBase works out a base of what was read, which is ready.
func (src *sources) newBase() *base {
	return newBase(inputs{cfg: src.config.Value, policy: src.policy.Value, snap: src.snap}, &base{})
}

// readCatalog reads the catalog within timeout, or, if the last attempt has brought no shard of it, within
// five times that. What an attempt brings is kept for the next. synced is as for readObjects.
func (src *sources) readCatalog(ctx context.Context, objects object.Store, now time.Time, timeout time.Duration, synced *catalog.Snapshot) {
	if src.patient && src.ready() {
		timeout *= patience
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	have := src.snap
	switch {
	case synced == nil:
	case have == nil:
		have = synced
	case !synced.CreatedAt().After(have.CreatedAt()):
	case synced.SHA256() == have.SHA256():
		have = have.As(synced)
	default:
		have = synced
	}
	before := src.loading.Read()
	snap, err := src.loading.Load(ctx, objects, have)
	if err != nil {
		src.snapErr = err
		src.patient = src.loading.Missing() > 0 && src.loading.Read() == before
		return
	}
	if snap != src.snap {
		src.takeCatalog(snap, now)
	}
	src.snapErr, src.snapAt, src.patient = nil, now, false
}

// takeCatalog goes on with snap, which brings people's decisions as of the sync that made it.
func (src *sources) takeCatalog(snap *catalog.Snapshot, now time.Time) {
	src.snap = snap
	src.feed.Rebase(snap.CreatedAt(), now, func(id tool.ID) (rev int64, listed bool) {
		i, listed := snap.Find(id)
		if !listed {
			return 0, false
		}
		if r := snap.Tool(i).Approval; r != nil {
			rev = r.Rev
		}
		return rev, true
	})
}

// checkStore reports whether the approval store still has a record that was written lately, of
// those that the catalog knows. A store that was emptied or set back does not have it. Then the
// other records are not known either, until a sync has put them back. Each request that reads a
// config may pay for this, so the cheap read comes first. It may be late, so its no takes a second
// read. If one of the reads fails, nothing is known yet, and the next look at approvals asks again.
func (src *sources) checkStore(ctx context.Context, approvals approval.Store) {
	i, ok := src.snap.Witness()
	lost := false
	if ok {
		for _, read := range []func(context.Context, tool.ID) (approval.Record, error){approvals.Peek, approvals.Get} {
			r, err := read(ctx, src.snap.ID(i))
			if err != nil && !errors.Is(err, approval.ErrNotFound) {
				return
			}
			if lost = err != nil || src.snap.Lost(i, &r); !lost {
				break
			}
		}
	}
	src.lost, src.unchecked = lost, false
}

// expired reports whether people's decisions were last known too long ago.
func (src *sources) expired(now time.Time, hold time.Duration) bool {
	return src.feed.Err != nil && now.Sub(src.feed.KnownAt) > hold
}

// nextDue returns when something has to be looked at again.
func (src *sources) nextDue(now time.Time, o Options) deadline {
	due := src.configDue.earlier(now, src.approvalsDue.at)
	if src.stops.err != nil && !src.stops.expired(now, o.ApprovalHold) {
		due = due.earlier(now, src.stops.knownAt.Add(o.ApprovalHold+1))
	}
	if src.snap != nil && src.feed.Err != nil && !src.lost && !src.expired(now, o.ApprovalHold) {
		due = due.earlier(now, src.feed.KnownAt.Add(o.ApprovalHold+1))
	}
	return due
}

// build makes the state out of what was read, and takes over what still holds from prev, or, if that has
// nothing, from ahead, which may be nil.
func (src *sources) build(now time.Time, o Options, prev *State, ahead *base) *State {
	s := &State{Config: src.config.Value, Policy: src.policy.Value, Catalog: src.snap, Health: src.health(now, o)}
	s.stopped = src.stopped(now, o, prev.stopped)
	if !src.ready() {
		return s
	}
	unknown := src.lost || src.expired(now, o.ApprovalHold)
	before := prev.resolved
	if before == nil && ahead != nil {
		before = &derived{base: ahead}
	}
	s.resolved = derive(inputs{s.Config, s.Policy, src.snap, src.feed.Decisions, unknown, s.stopped}, before)
	s.Health.Servers = s.resolved.counts
	s.Health.Warnings = append(s.Health.Warnings, warnings(config.Key, s.resolved.bound.Warnings())...)
	return s
}
