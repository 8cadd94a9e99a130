package dynamo

import (
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// A call is asked again after up to 25 ms, then twice that, …, at most a second. The
// SDK starts at a second, which is a request's whole budget. The context ends it earlier.
const (
	attempts     = 12
	firstBackoff = 25 * time.Millisecond
	maxBackoff   = time.Second
)

func newRetryer(more ...retry.IsErrorRetryable) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.Backoff = retry.BackoffDelayerFunc(backoff)
		o.RateLimiter = ratelimit.None // the budget is the context's, not one that all requests share
		more = append(more, retry.IsErrorRetryableFunc(cancelledByThrottle))
		o.Retryables = append(more, o.Retryables...)
	})
}

// newDocRetryer returns a retryer that also repeats a write while another transaction writes the
// same item. Whether the revision changed is known when that has ended, and a caller takes a
// conflict for a changed revision.
func newDocRetryer() aws.Retryer {
	return newRetryer(retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
		if races(err) && !hasReason(err, conditionFailed) {
			return aws.TrueTernary
		}
		return aws.UnknownTernary
	}))
}

// cancelledByThrottle makes the client repeat a transaction that was cancelled for throttling
// alone; by itself it repeats no cancelled one.
func cancelledByThrottle(err error) aws.Ternary {
	if hasReason(err, "ThrottlingError", "ProvisionedThroughputExceeded") && !hasReason(err, conditionFailed) {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

// backoff returns how long to wait after the given attempt, counted from 0.
func backoff(attempt int, _ error) (time.Duration, error) {
	return rand.N(min(firstBackoff<<min(attempt, 10), maxBackoff)), nil
}
