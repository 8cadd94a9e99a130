package state

import (
	"context"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
)

// A Prefetch reads the objects of a [Loader] before the Loader exists. A program that opens its
// approval store can read config, policy and catalog at the same time.
type Prefetch struct {
	done  chan struct{}
	ready bool // the objects are sufficient

	// Fields before a loader takes them:
	read sources
	base *base
}

// StartPrefetch begins to read; it stops when ctx ends. A Loader with this Prefetch in its
// [Options] continues from there. o is the same as for [New].
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

// Ready waits until everything was read, and reports whether that is sufficient for requests. A nil
// Prefetch is not ready.
func (a *Prefetch) Ready() bool {
	if a == nil {
		return false
	}
	<-a.done
	return a.ready
}

// takePrefetch waits for the Prefetch until ctx ends. The loader reads insufficient parts again.
// The caller has the turn.
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
	loading := l.read.loading // loading has the loader's callback for each fetch
	l.read, l.base = a.read, a.base
	l.read.loading = loading
	a.read, a.base = sources{}, nil // so that the Prefetch keeps no memory
}
