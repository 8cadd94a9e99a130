package dynamo

import (
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// The first retry waits up to 25 ms. Each further retry doubles this limit, up to a second. The
// limit of the SDK's first retry is a second, but a request waits only a few seconds for the store.
// The context can end the wait earlier.
const (
	attempts     = 12
	firstBackoff = 25 * time.Millisecond
	maxBackoff   = time.Second
)

func newRetryer(more ...retry.IsErrorRetryable) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.Backoff = retry.BackoffDelayerFunc(backoff)
		// the context limits retries; one request must not use up the retries of other requests
		o.RateLimiter = ratelimit.None
		more = append(more, retry.IsErrorRetryableFunc(cancelledByThrottle))
		o.Retryables = append(more, o.Retryables...)
	})
}

// newDocRetryer returns a retryer that also repeats a write while another transaction writes the
// same item. Callers understand a conflict as a changed revision. But until the other transaction
// ends, nobody knows whether it changes the revision.
func newDocRetryer() aws.Retryer {
	return newRetryer(retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
		if isContended(err) && !hasReason(err, conditionFailed) {
			return aws.TrueTernary
		}
		return aws.UnknownTernary
	}))
}

// cancelledByThrottle makes the client repeat a transaction that DynamoDB cancelled because of
// throttling, unless a condition failed too. The SDK itself repeats no cancelled transaction.
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
