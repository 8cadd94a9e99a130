package state

import (
	"context"

	"github.com/portcullis-mcp/portcullis/pkg/object"
)

// An Ahead is what a [Loader] reads first, while there is no Loader yet: a program that has to open its
// approval store spends that time on config, policy and catalog.
type Ahead struct {
	read sources
	base *base // nil: what was read will not do
	done chan struct{}
}

// ReadAhead begins to read, until ctx ends. The Loader that [Options] hand it to goes on from there. o is as
// for [New].
func ReadAhead(ctx context.Context, objects object.Store, o *Options) *Ahead {
	a, knobs := &Ahead{read: newSources(), done: make(chan struct{})}, o.withDefaults()
	go func() {
		defer close(a.done)
		a.read.readObjects(ctx, objects, knobs, knobs.Now(), knobs.Timeout*patience, nil)
		if a.read.ready() && !a.read.unread() {
			a.base = newBase(inputs{cfg: a.read.config.Value, policy: a.read.policy.Value, snap: a.read.snap}, &base{})
		}
	}()
	return a
}

// takeAhead waits for what was read before there was a Loader, until ctx ends. What will not do is read
// again, as if nobody had. The caller has its turn.
func (l *Loader) takeAhead(ctx context.Context) {
	a := l.ahead
	if a == nil {
		return
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		return
	}
	if l.ahead = nil; a.base == nil {
		return
	}
	loading := l.read.loading // which tells the loader of each fetch
	l.read = a.read
	l.read.loading = loading
	l.base = a.base
}
