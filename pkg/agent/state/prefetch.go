package state

import (
	"context"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
)

// A Prefetch is what a [Loader] reads first, while there is no Loader yet: a program that has to
// open its approval store spends that time on config, policy and catalog.
type Prefetch struct {
	done  chan struct{}
	ready bool // what was read will do

	// Until a loader has taken it:
	read sources
	base *base
}

// StartPrefetch begins to read, until ctx ends. The Loader that [Options] hand it to goes on from
// there. o is as for [New].
func StartPrefetch(ctx context.Context, objects object.Store, o *Options) *Prefetch {
	a, knobs := &Prefetch{read: newSources(), done: make(chan struct{})}, o.withDefaults()
	go func() {
		defer close(a.done)
		a.read.readObjects(ctx, objects, knobs, knobs.Now(), knobs.Timeout*patience, nil)
		if a.ready = a.read.ready() && !a.read.unread(); a.ready {
			a.base = a.read.newBase()
		}
	}()
	return a
}

// Ready waits until everything was read, and reports whether requests can be served by it. A nil
// Prefetch has nothing.
func (a *Prefetch) Ready() bool {
	if a == nil {
		return false
	}
	<-a.done
	return a.ready
}

// takePrefetch waits for what was read before there was a Loader, until ctx ends. What will not do
// is read again, as if nobody had. The caller has its turn.
func (l *Loader) takePrefetch(ctx context.Context) {
	a := l.ahead
	if a == nil {
		return
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		return
	}
	if l.ahead = nil; !a.ready {
		return
	}
	loading := l.read.loading // which tells the loader of each fetch
	l.read, l.base = a.read, a.base
	l.read.loading = loading
	a.read, a.base = sources{}, nil // who still has a does not keep them
}
