package upstream

import (
	"context"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

const (
	firstPause = 250 * time.Millisecond
	maxPause   = 2 * time.Second

	// longestPause is the longest Retry-After that the gateway waits for. Even a call that may take
	// minutes does not wait longer, because its caller can decide when to call again.
	longestPause = 20 * time.Second
)

// retry makes attempts until an outcome needs no retry, and returns the last outcome. again reports
// whether an outcome needs a retry.
func (o *operation) retry(ctx context.Context, again func(outcome.Outcome) bool, attempt func() (outcome.Outcome, error)) (outcome.Outcome, error) {
	for n := 1; ; n++ {
		out, err := attempt()
		if n < o.c.limits.attempts && again(out) && o.c.pause(ctx, n, out.RetryAfter) {
			continue
		}
		if out.Attempts = n; o.nothingSent(out) {
			out.Attempts = 0
		}
		if err != nil {
			out.Error = o.text(err)
		}
		return out, err
	}
}

// pause waits after the n-th attempt: exponential backoff with jitter, up to a limit, and at least
// floor, the server's Retry-After. It reports whether there is time for another attempt.
func (c *Client) pause(ctx context.Context, n int, floor time.Duration) bool {
	wait := max(min(firstPause<<(n-1)+c.o.Jitter(firstPause), maxPause), floor)
	if end, ok := ctx.Deadline(); wait > longestPause || ok && wait >= time.Until(end) {
		return false
	}
	sleep(ctx, wait)
	return ctx.Err() == nil
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
