// Package sqs sends messages to queues of Amazon SQS, both standard and FIFO.
package sqs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

const (
	// maxBatch and maxBytes are the maximum numbers of messages and of their bytes that SQS accepts
	// in one call.
	maxBatch = 10
	maxBytes = catalog.MaxBody

	// maxTries is the maximum number of times that Send sends a message that SQS fails to accept.
	// The SDK retries calls that fail as a whole.
	maxTries = 3
)

// A Queue is a [catalog.Queue] of SQS.
type Queue struct {
	client *sqs.Client
	url    string
}

var _ catalog.Queue = Queue{}

// New returns the queue with this URL.
func New(c aws.Config, url string) Queue { return Queue{sqs.NewFromConfig(c), url} }

// Send implements [catalog.Queue]: one call takes ten messages.
func (q Queue) Send(ctx context.Context, messages []catalog.Message) error {
	if err := catalog.CheckBodies(messages); err != nil {
		return err
	}
	for len(messages) > 0 {
		n := batchSize(messages)
		if err := q.send(ctx, messages[:n]); err != nil {
			return err
		}
		messages = messages[n:]
	}
	return nil
}

// batchSize returns how many of the first messages fit into one call.
func batchSize(messages []catalog.Message) int {
	size := 0
	for n, m := range messages {
		if size += len(m.Body); n == maxBatch || n > 0 && size > maxBytes {
			return n
		}
	}
	return len(messages)
}

// send sends the messages of one call. It sends the messages again that SQS failed to accept.
func (q Queue) send(ctx context.Context, messages []catalog.Message) error {
	entries := make([]types.SendMessageBatchRequestEntry, len(messages))
	for i, m := range messages {
		entries[i] = types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(string(m.Body))}
		if m.Group != "" {
			entries[i].MessageGroupId, entries[i].MessageDeduplicationId = aws.String(m.Group), aws.String(m.DeduplicationID)
		}
	}
	for n := 1; ; n++ {
		out, err := q.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &q.url, Entries: entries})
		if err != nil {
			return fmt.Errorf("send to the queue: %w", err)
		}
		if len(out.Failed) == 0 {
			return nil
		}
		refused := map[string]bool{}
		var faults []error
		for _, f := range out.Failed {
			refused[aws.ToString(f.Id)] = true
			faults = append(faults, fmt.Errorf("send to the queue: %s: %s", aws.ToString(f.Code), aws.ToString(f.Message)))
		}
		if n == maxTries || slices.ContainsFunc(out.Failed, func(f types.BatchResultErrorEntry) bool { return f.SenderFault }) {
			return errors.Join(faults...)
		}
		entries = slices.DeleteFunc(entries, func(e types.SendMessageBatchRequestEntry) bool { return !refused[*e.Id] })
	}
}
