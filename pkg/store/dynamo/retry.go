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

func newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.Backoff = retry.BackoffDelayerFunc(backoff)
		o.RateLimiter = ratelimit.None // the budget is the context's, not one that all requests share
		o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(cancelledByThrottle)}, o.Retryables...)
	})
}

// cancelledByThrottle makes the client repeat a transaction that was cancelled for throttling
// alone; by itself it repeats no cancelled one.
func cancelledByThrottle(err error) aws.Ternary {
	if hasReason(err, "ThrottlingError", "ProvisionedThroughputExceeded") && !hasReason(err, "ConditionalCheckFailed") {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

// backoff returns how long to wait after the given attempt, counted from 0.
func backoff(attempt int, _ error) (time.Duration, error) {
	return rand.N(min(firstBackoff<<min(attempt, 10), maxBackoff)), nil
}
