package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
)

// held is what a Loader read last, good or not, and what was made of it.
type held struct {
	source    *catalog.Source // nil: no config was ever read
	sourceErr error           // why there is none
	sourceAt  time.Time

	policy       *policy.Policy // nil: none that parses was ever read
	policyTag    string         // ETag of the object that was read last, good or not
	policyNumber string         // version of the policy in use
	policyFault  error          // why that object is not in use
	policyErr    error          // why it could not be read
	policyAt     time.Time

	snap    *catalog.Snapshot // nil: never read
	snapErr error
	snapAt  time.Time

	overlay      *overlay // nil: there was no catalog yet
	approvalsErr error
	approvalsAt  time.Time // last read that worked

	configDue    time.Time
	approvalsDue time.Time

	offer *offer
	bench *bench
	parts parts // what the state's world was made of
}

func (h *held) ready() bool { return h.source != nil && h.snap != nil }

// unread reports whether something could not be read, so that it is asked for
// again soon. A file that is there and wrong is not: it waits for a new one.
func (h *held) unread() bool {
	return h.source == nil || h.source.Unread != nil || h.policyErr != nil || h.snapErr != nil
}

func (h *held) readConfig(ctx context.Context, objects object.Store, now time.Time) {
	source, err := catalog.LoadSource(ctx, objects, h.source)
	if err != nil {
		h.sourceErr = err
		return
	}
	h.source, h.sourceErr = source, nil
	if source.Unread == nil {
		h.sourceAt = now
	}
}

// readPolicy reads policy.cedar. No file is the policy that forbids nothing;
// a file that cannot be read or does not parse is never that, and where none is held
// the last good one is used.
func (h *held) readPolicy(ctx context.Context, objects object.Store, now time.Time) {
	obj, err := objects.Get(ctx, policy.Key, h.policyTag)
	switch {
	case errors.Is(err, object.ErrNotModified):
		h.policyErr, h.policyAt = nil, now
		return
	case errors.Is(err, object.ErrNotFound):
		if h.policy == nil || h.policyNumber != "" {
			h.policy = policy.Empty()
		}
		h.policyTag, h.policyNumber, h.policyFault, h.policyErr, h.policyAt = "", "", nil, nil, now
		return
	case err != nil:
		h.policyErr = fmt.Errorf("read %s: %w", policy.Key, err)
		return
	}
	p, err := policy.Parse(obj.Data)
	if err != nil {
		h.policyFault = fmt.Errorf("parse %s: %w", policy.Key, err)
		if h.policy == nil {
			last, version, err := catalog.LastGoodPolicy(ctx, objects)
			if err != nil {
				h.policyErr = err // the tag stays, so that both are asked for again
				return
			}
			h.policy, h.policyNumber = last, version
		}
	} else {
		h.policy, h.policyFault, h.policyNumber = p, nil, config.Version(obj.Data)
	}
	h.policyTag, h.policyErr, h.policyAt = obj.ETag, nil, now
}

func (h *held) readCatalog(ctx context.Context, objects object.Store, now time.Time) {
	snap, err := catalog.Load(ctx, objects, h.snap)
	if err != nil {
		h.snapErr = err
		return
	}
	if snap != h.snap {
		h.overlay = h.overlay.rebase(snap)
	}
	h.snap, h.snapErr, h.snapAt = snap, nil, now
}

// expired reports whether people's decisions were last known too long ago. A
// catalog brings them as of the sync that made it.
func (h *held) expired(now time.Time, hold time.Duration) bool {
	return h.approvalsErr != nil && now.Sub(h.decidedAt()) > hold
}

func (h *held) decidedAt() time.Time {
	if h.snap != nil && h.snap.CreatedAt().After(h.approvalsAt) {
		return h.snap.CreatedAt()
	}
	return h.approvalsAt
}

// nextDue returns when something has to be looked at again.
func (h *held) nextDue(o Options) time.Time {
	due := h.configDue
	if h.snap == nil {
		return due
	}
	if h.approvalsDue.Before(due) {
		due = h.approvalsDue
	}
	if end := h.decidedAt().Add(o.ApprovalHold + 1); h.approvalsErr != nil && !h.parts.expired && end.Before(due) {
		due = end
	}
	return due
}

// build makes the state out of what is held, and takes over what still holds
// from the one before.
func (h *held) build(now time.Time, o Options, prev *State) *State {
	s := &State{Policy: h.policy, Catalog: h.snap, Health: h.health(now, o)}
	if h.source != nil {
		s.Config = h.source.Config
	}
	if !h.ready() {
		return s
	}
	if h.offer == nil || h.offer.cfg != s.Config || h.offer.snap.SHA256() != h.snap.SHA256() {
		h.offer = newOffer(s.Config, h.snap)
	}
	if h.bench == nil || h.bench.offer != h.offer || h.bench.policy != h.policy {
		h.bench = newBench(h.offer, h.policy)
	}
	next := parts{h.offer, h.bench, h.snap, h.overlay, h.expired(now, o.ApprovalHold)}
	s.world = newWorld(next, prev.world, h.parts)
	h.parts = next
	s.Health.Servers, s.Health.Selection = s.world.census, s.world.boundErr
	s.Health.Warnings = append(s.Health.Warnings, s.world.warnings()...)
	return s
}
