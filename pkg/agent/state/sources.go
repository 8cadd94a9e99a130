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

// sources contains the results of a Loader's last reads, even of failed reads.
type sources struct {
	config object.Source[config.Config]
	policy object.Source[policy.Policy]

	snap    *catalog.Snapshot // nil: never read
	snapErr error
	snapAt  time.Time
	loading *catalog.Loading // of the next catalog
	patient bool             // the last attempt loaded nothing, so the next attempt has more time

	lost      bool // the approval store lacks records that the catalog has
	unchecked bool // checkStore has no result for the catalog that was read last

	feed  approval.Feed // decisions since the catalog was made
	stops stopFeed      // the emergency stops

	configDue    deadline
	approvalsDue deadline
}

func newSources() sources { return sources{loading: new(catalog.Loading)} }

func (src *sources) ready() bool { return src.config.Value != nil && src.snap != nil }

// unread reports whether a read failed, so that the loader retries soon. An invalid file is no
// failed read, because the loader waits for a new version of the file.
func (src *sources) unread() bool {
	return src.config.Unread != nil || src.policy.Unread != nil || src.snapErr != nil
}

// readObjects reads config, policy and catalog concurrently. synced is the catalog of a sync in
// this process, or nil.
func (src *sources) readObjects(ctx context.Context, objects object.Store, o Options, now time.Time, timeout time.Duration, synced *catalog.Snapshot) {
	catalogTime := timeout
	if src.patient && src.ready() { // the last attempt loaded no shard
		catalogTime *= patience
	}
	var wg sync.WaitGroup
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	wg.Go(func() { src.config = catalog.ConfigFile.Load(ctx, objects, src.config, now) })
	wg.Go(func() { src.policy = catalog.PolicyFile.Load(ctx, objects, src.policy, now) })
	wg.Go(func() { src.readCatalog(whole, objects, now, catalogTime, synced) })
	wg.Wait()
	src.unchecked = true
	src.configDue = after(now, o.ConfigTTL)
	if src.unread() {
		src.configDue = after(now, min(o.Retry, o.ConfigTTL))
	}
}

// newBase computes a base from the sources. The sources must be ready.
func (src *sources) newBase() *base {
	return newBase(inputs{cfg: src.config.Value, policy: src.policy.Value, snap: src.snap}, &base{})
}

// readCatalog reads the catalog within timeout. The next attempt reuses the loaded shards. synced
// is the same as for readObjects.
func (src *sources) readCatalog(ctx context.Context, objects object.Store, now time.Time, timeout time.Duration, synced *catalog.Snapshot) {
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

// takeCatalog starts to use snap, which contains the decisions that people made before its sync.
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

// checkStore checks that the approval store still has a recent record of the catalog. A store that
// was emptied or restored to an older state lacks the record. Then the other records are also
// unknown, until a sync has restored them. Each request that reads a config may pay for this check,
// so the cheap read comes first. The cheap read may be outdated, so checkStore reads again after a
// miss. If a read fails, the result stays unknown, and the next read of approvals checks again.
func (src *sources) checkStore(ctx context.Context, approvals approval.Store) {
	i, ok := src.snap.Witness()
	isLost := false
	if ok {
		for _, read := range []func(context.Context, tool.ID) (approval.Record, error){approvals.Peek, approvals.Get} {
			r, err := read(ctx, src.snap.ID(i))
			if err != nil && !errors.Is(err, approval.ErrNotFound) {
				return
			}
			if isLost = err != nil || src.snap.IsLost(i, &r); !isLost {
				break
			}
		}
	}
	src.lost, src.unchecked = isLost, false
}

// expired reports whether the last read of decisions is too old.
func (src *sources) expired(now time.Time, hold time.Duration) bool {
	return src.feed.Err != nil && now.Sub(src.feed.KnownAt) > hold
}

// nextDue returns the time of the next read.
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

// build builds the state from the sources. It reuses the unchanged parts of prev. If prev has no
// such parts, it reuses ahead, the base of a [Prefetch], which may be nil.
func (src *sources) build(now time.Time, o Options, prev *State, ahead *base) *State {
	s := &State{Config: src.config.Value, Policy: src.policy.Value, Catalog: src.snap, Health: src.health(now, o)}
	s.Files = map[string]FileBytes{
		config.Key: {src.config.Data, src.config.Before, src.config.Bad},
		policy.Key: {src.policy.Data, src.policy.Before, src.policy.Bad},
	}
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
