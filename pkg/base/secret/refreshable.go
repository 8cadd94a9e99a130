package secret

import (
	"context"
	"sync"
	"time"
)

// A Refreshable is a cached value made from a secret that may be replaced at any time. It reads the
// value again when the caller needs a newer one. While reads fail, it keeps the last value. It is
// safe for concurrent use.
type Refreshable[T any] struct {
	read func(context.Context) (T, error)
	now  func() time.Time

	mu      sync.Mutex
	running *reading[T] // nil: no read runs
	has     bool
	value   T
	at      time.Time // end of the last read
	err     error     // of the last read; nil: it succeeded
}

// A reading is one read, for which several callers may wait.
type reading[T any] struct {
	done  chan struct{} // closed when it has ended
	value T             // the cached value at the end of the read
	err   error         // nil: there is a value
}

// NewRefreshable returns a Refreshable of the value that read returns. It reads nothing yet. If now
// is nil, it uses time.Now.
func NewRefreshable[T any](read func(context.Context) (T, error), now func() time.Time) *Refreshable[T] {
	if now == nil {
		now = time.Now
	}
	return &Refreshable[T]{read: read, now: now}
}

// Get returns the value. It first reads the value again if the last read is at least as old as age.
// It returns an error if there is no value. If another caller's read is running, Get waits for it
// only if there is no value yet.
func (h *Refreshable[T]) Get(ctx context.Context, age time.Duration) (T, error) {
	return h.get(ctx, age, false)
}

// Fresh is Get for a caller that cannot use the cached value: Fresh also waits for a read that
// another caller started.
func (h *Refreshable[T]) Fresh(ctx context.Context, age time.Duration) (T, error) {
	return h.get(ctx, age, true)
}

func (h *Refreshable[T]) get(ctx context.Context, age time.Duration, wait bool) (v T, err error) {
	h.mu.Lock()
	r := h.running
	if h.has && (h.now().Sub(h.at) < age || r != nil && !wait) {
		defer h.mu.Unlock()
		return h.value, nil
	}
	if r == nil {
		r = &reading[T]{done: make(chan struct{})}
		h.running = r
		h.mu.Unlock()
		h.reread(context.WithoutCancel(ctx), r) // other callers wait for it, too
		return r.value, r.err
	}
	h.mu.Unlock()
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		return v, ctx.Err()
	}
}

// reread reads the value. It does not repeat a failed read before age has passed again.
func (h *Refreshable[T]) reread(ctx context.Context, r *reading[T]) {
	v, err := h.read(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.value, h.has = v, true
	}
	h.at, h.err, h.running = h.now(), err, nil
	if r.value = h.value; !h.has {
		r.err = err
	}
	close(r.done)
}

// Err returns the error of the last read, or nil if it succeeded or there was none. After a failed
// read, the older value stays in use.
func (h *Refreshable[T]) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}
