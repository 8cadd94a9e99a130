package secret

import (
	"context"
	"sync"
	"time"
)

// A Refreshable is what was made of a secret that may be replaced at any time: it is kept, and read
// again when it is too old for whoever asks. While it cannot be read, what was had before goes on
// being used. It is safe for concurrent use.
type Refreshable[T any] struct {
	read func(context.Context) (T, error)
	now  func() time.Time

	mu      sync.Mutex
	running *reading[T] // nil: none runs
	has     bool
	value   T
	at      time.Time // at which the last read ended
	err     error     // of the last read; nil: it worked
}

// A reading is one read, for which several may wait.
type reading[T any] struct {
	done  chan struct{} // closed when it has ended
	value T             // that is held then
	err   error         // nil: one is
}

// NewRefreshable returns a Refreshable of what read returns. It makes no call. A nil now is
// time.Now.
func NewRefreshable[T any](read func(context.Context) (T, error), now func() time.Time) *Refreshable[T] {
	if now == nil {
		now = time.Now
	}
	return &Refreshable[T]{read: read, now: now}
}

// Get returns the value, read again if the last read is as old as age. An error says that none is
// held. Who finds that another has begun to read waits for that only if none is held.
func (h *Refreshable[T]) Get(ctx context.Context, age time.Duration) (T, error) {
	return h.get(ctx, age, false)
}

// Fresh is Get for who has found that the value may be too old: it waits for another's read.
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
		h.again(context.WithoutCancel(ctx), r) // others wait for it as well
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

// again reads the value. A read that fails counts as one: it is not tried again at once.
func (h *Refreshable[T]) again(ctx context.Context, r *reading[T]) {
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

// Err returns the error of the last read, after which an older value goes on being used; nil: it
// worked, or there was none.
func (h *Refreshable[T]) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}
