package upstream

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A clock is the context of a call whose caller can answer questions. The context ends when the
// call's time is up. The clock stops while a question is open, because a person's time does not
// count against the server.
type clock struct {
	context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	end   time.Time     // when the time is up, while it runs
	left  time.Duration // time that is left, while the clock is stopped
	holds int           // questions that are open
}

// newClock returns a clock. The caller must stop it. Even with an open question, the clock ends a
// margin before the caller's deadline. The margin leaves time to answer.
func (c *Client) newClock(ctx context.Context, limit time.Duration) (*clock, context.CancelFunc) {
	stop := func() {}
	if d, ok := ctx.Deadline(); ok {
		ctx, stop = context.WithDeadline(ctx, d.Add(-c.limits.margin))
	}
	k := &clock{end: time.Now().Add(limit)}
	k.Context, k.cancel = context.WithCancelCause(ctx)
	k.timer = time.AfterFunc(limit, func() { k.cancel(context.DeadlineExceeded) })
	return k, func() {
		k.mu.Lock()
		k.timer.Stop()
		k.holds++ // so that the end of a question does not start the clock again
		k.mu.Unlock()
		k.cancel(context.Canceled)
		stop()
	}
}

// Deadline returns when the time is up. While a question is open, only the context's own deadline
// counts.
func (k *clock) Deadline() (time.Time, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.holds > 0 {
		return k.Context.Deadline()
	}
	if d, ok := k.Context.Deadline(); ok && d.Before(k.end) {
		return d, true
	}
	return k.end, true
}

// Err returns [context.DeadlineExceeded] when the time is up, as other contexts do.
func (k *clock) Err() error {
	err := k.Context.Err()
	if err != nil && errors.Is(context.Cause(k.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}

// hold stops the clock until release is called once for each hold.
func (k *clock) hold() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.holds++; k.holds == 1 {
		k.timer.Stop()
		k.left = time.Until(k.end)
	}
}

func (k *clock) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.holds--; k.holds == 0 {
		k.end = time.Now().Add(k.left)
		k.timer.Reset(k.left)
	}
}
