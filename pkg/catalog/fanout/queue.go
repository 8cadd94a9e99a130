package fanout

import (
	"context"
	"errors"
)

// MaxBody is how many bytes a body has at most, which is what SQS took from the beginning.
const MaxBody = 256 << 10

// ErrTooLarge says that a body is larger than [MaxBody]. Nothing was sent.
var ErrTooLarge = errors.New("message is too large")

// A Message is what a queue carries: the text of a [Job].
type Message struct {
	Body []byte

	// Group and DeduplicationID are for a queue that keeps the order. Of a group no message is handed
	// out while another is; of those with one DeduplicationID the first alone is taken, for five minutes.
	Group, DeduplicationID string
}

// A Queue takes messages and hands each out at least once, later, to another process.
type Queue interface {
	// Send hands the messages over. After an error some may have been taken and some not; sending all of
	// them again does no harm but that work is looked at twice.
	Send(ctx context.Context, messages []Message) error
}

// CheckBodies returns [ErrTooLarge] if a message cannot be sent.
func CheckBodies(messages []Message) error {
	for _, m := range messages {
		if len(m.Body) > MaxBody {
			return ErrTooLarge
		}
	}
	return nil
}
