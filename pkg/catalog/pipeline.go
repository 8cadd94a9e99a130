package catalog

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
)

const (
	// maxUnits is how many units a group has, and maxGroups how many groups run at once. One more
	// group may wait, so that the sync does not load servers faster than it writes their records.
	maxUnits  = 12
	maxGroups = 2

	// All units of a group have to run at the same time: a unit that waits in [batchWriter.write]
	// waits for all other units. If maxWriters is too small for this, the next line does not
	// compile.
	_ = uint(maxWriters - maxUnits)
)

// A pipeline processes units while the sync asks other servers. The units of a group run at once
// and write together.
type pipeline struct {
	*errgroup.Group
	ctx     context.Context // context of the units; canceled when the first unit fails
	waiting []*unit
	do      func(*unit, context.Context) error
}

func newPipeline(ctx context.Context, do func(*unit, context.Context) error) *pipeline {
	p := &pipeline{do: do}
	p.Group, p.ctx = errgroup.WithContext(ctx)
	p.SetLimit(maxGroups)
	return p
}

// add queues a unit whose servers have all answered. It blocks while too many units wait.
func (p *pipeline) add(u *unit) {
	if p.waiting = append(p.waiting, u); len(p.waiting) == maxUnits {
		p.start()
	}
}

// start runs the waiting units as a group.
func (p *pipeline) start() {
	group := p.waiting
	p.waiting = nil
	p.Go(func() error {
		j := &batchWriter{units: len(group)}
		return each(p.ctx, slices.Values(group), func(ctx context.Context, u *unit) error {
			defer j.leave(ctx, u.run)
			u.batchWriter = j
			u.pause(ctx)
			return p.do(u, ctx)
		})
	})
}

// end runs the waiting units, waits for all groups, and returns the first error.
func (p *pipeline) end() error {
	if len(p.waiting) > 0 && p.ctx.Err() == nil {
		p.start()
	}
	return p.Wait()
}

// A batchWriter writes for all units of a group, once each unit waits for the write or has ended.
// This is fast, because a call with a hundred records takes little longer than a call with one
// record.
type batchWriter struct {
	mu        sync.Mutex
	units     int // number of units that have not ended
	due       []observation
	baselines []approval.Baseline
	heard     []chan<- error // one channel for each unit that waits; it gets the result of the write
}

// write writes the records and then the baselines of a unit, together with the writes of the
// group's other units. If one record of the group cannot be written, no baseline of the group is
// written: written records stay, and the next run writes the rest.
func (j *batchWriter) write(ctx context.Context, r *run, due []observation, baselines []approval.Baseline) error {
	if len(due) == 0 && len(baselines) == 0 {
		return nil
	}
	heard := make(chan error, 1)
	j.mu.Lock()
	j.due, j.baselines, j.heard = append(j.due, due...), append(j.baselines, baselines...), append(j.heard, heard)
	j.flush(ctx, r)
	j.mu.Unlock()
	return <-heard
}

// leave notes that a unit has ended.
func (j *batchWriter) leave(ctx context.Context, r *run) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.units--
	j.flush(ctx, r)
}

// flush writes if every unit that has not ended waits for the write. Then no other goroutine needs
// mu.
func (j *batchWriter) flush(ctx context.Context, r *run) {
	if len(j.heard) == 0 || len(j.heard) < j.units {
		return
	}
	err := r.recordAll(ctx, j.due)
	if err == nil {
		err = r.putBaselines(ctx, j.baselines)
	}
	for _, heard := range j.heard {
		heard <- err
	}
	j.due, j.baselines, j.heard = nil, nil, nil
}
