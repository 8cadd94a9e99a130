// Package queuetest tests drivers of a distributed sync: [Run] checks the promises of every
// catalog.Queue, and [Queue] is a queue in memory that fails on demand.
package queuetest

import (
	"context"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

// tries is how often a message is received before it becomes dead.
const tries = 3

// A Queue is a [catalog.Queue] in memory. The zero value is ready to use.
type Queue struct {
	// The queue calls OnSend before it adds a message. If OnSend returns an error, Send fails; with
	// true, the queue still adds the message. A nil OnSend never fails.
	OnSend func(ctx context.Context) (bool, error)

	mu       sync.Mutex
	messages []*message
	known    map[string]bool // deduplication ids
	dead     []string
	taken    int
}

type message struct {
	catalog.Message
	out   bool // a worker has received it
	times int  // how often it was received
}

// Send implements [catalog.Queue].
func (q *Queue) Send(ctx context.Context, messages []catalog.Message) error {
	if err := catalog.CheckBodies(messages); err != nil {
		return err
	}
	for _, m := range messages {
		if err := ctx.Err(); err != nil {
			return err
		}
		var failed error
		if q.OnSend != nil {
			kept, err := q.OnSend(ctx)
			if failed = err; err != nil && !kept {
				return err
			}
		}
		q.take(m)
		if failed != nil {
			return failed
		}
	}
	return nil
}

func (q *Queue) take(m catalog.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.DeduplicationID != "" {
		if q.known[m.DeduplicationID] {
			return
		}
		if q.known == nil {
			q.known = map[string]bool{}
		}
		q.known[m.DeduplicationID] = true
	}
	q.messages = append(q.messages, &message{Message: m})
	q.taken++
}

// Receive returns a message. done removes it from the queue; without done, [Queue.Again] makes it
// available again.
func (q *Queue) Receive() (body string, done func(), ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	groups := map[string]bool{}
	for _, m := range q.messages {
		if m.out && m.Group != "" {
			groups[m.Group] = true
		}
	}
	for _, m := range q.messages {
		if m.out || groups[m.Group] {
			continue
		}
		m.out = true
		m.times++
		return string(m.Body), func() { q.remove(m) }, true
	}
	return "", nil, false
}

func (q *Queue) remove(m *message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, held := range q.messages {
		if held == m {
			q.messages = append(q.messages[:i], q.messages[i+1:]...)
			return
		}
	}
}

// Again ends the wait for received messages that are not done: they can be received again, or
// become dead after the third time.
func (q *Queue) Again() {
	q.mu.Lock()
	defer q.mu.Unlock()
	var left []*message
	for _, m := range q.messages {
		if m.out && m.times >= tries {
			q.dead = append(q.dead, string(m.Body))
			continue
		}
		m.out = false
		left = append(left, m)
	}
	q.messages = left
}

// Dead returns the dead messages.
func (q *Queue) Dead() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dead
}

// Taken returns the total number of added messages.
func (q *Queue) Taken() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken
}
