package upstream

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A clock is the context of a call whose caller can be asked something. It ends when the call's time is
// up, and that time stands still while a question is open: what a person needs to answer is not
// the server's.
type clock struct {
	context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	end   time.Time     // when the time is up, while it runs
	left  time.Duration // what is left of it, while it stands still
	holds int           // questions that are open
}

// newClock returns a clock that is to be stopped. Whatever is asked, it ends before the caller's own
// deadline by a margin that leaves time to answer.
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
		k.holds++ // so that no question starts it again
		k.mu.Unlock()
		k.cancel(context.Canceled)
		stop()
	}
}

// Deadline returns when the time is up, unless a question is open then.
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

// Err says that the time is up as any context does.
func (k *clock) Err() error {
	err := k.Context.Err()
	if err != nil && errors.Is(context.Cause(k.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}

// hold lets the time stand still until release is called as often.
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
