package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	firstPause = 250 * time.Millisecond
	maxPause   = 2 * time.Second
)

var errTryAgain = errors.New("try again")

// retry makes attempts until one is not worth another, and returns the last one's
// verdict and how many were made. again says whether a verdict is worth another attempt.
func (c *Client) retry(ctx context.Context, again func(Verdict) bool, attempt func() Verdict) (Verdict, int) {
	var v Verdict
	n := 0
	p := &pauses{jitter: c.o.Jitter, left: func() time.Duration { return timeLeft(ctx) }}
	// The error only steers the library; the verdict says what happened.
	_, _ = backoff.Retry(ctx, func() (struct{}, error) {
		n++
		v = attempt()
		p.floor = v.RetryAfter
		if !again(v) {
			return struct{}{}, nil
		}
		return struct{}{}, errTryAgain
	}, backoff.WithBackOff(p), backoff.WithMaxTries(uint(c.limits.attempts)), backoff.WithMaxElapsedTime(0))
	return v, n
}

// Pauses are the waits between attempts: doubling, with jitter, up to a cap; never
// shorter than the server asked for, and none that leaves no time for an attempt.
type pauses struct {
	jitter func(limit time.Duration) time.Duration
	left   func() time.Duration
	n      int
	floor  time.Duration
}

func (p *pauses) Reset() { p.n = 0 }

func (p *pauses) NextBackOff() time.Duration {
	wait := max(min(firstPause<<p.n+p.jitter(firstPause), maxPause), p.floor)
	p.n++
	if wait >= p.left() {
		return backoff.Stop
	}
	return wait
}

// timeLeft returns the time to ctx's deadline.
func timeLeft(ctx context.Context) time.Duration {
	d, ok := ctx.Deadline()
	if !ok {
		return time.Duration(1<<63 - 1)
	}
	return time.Until(d)
}

// sleep waits for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
