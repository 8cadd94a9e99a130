package lambdatest

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A Mapping passes the messages of a queue to environments of a function, one message in each call,
// as an event source mapping of Lambda does. If the call succeeds, the Mapping deletes the message.
// Otherwise the queue delivers the message again after its visibility timeout.
type Mapping struct {
	t     testing.TB
	queue string // URL
	sqs   *sqs.Client
	start func() *Function
	stop  chan struct{}
	all   sync.WaitGroup

	mu       sync.Mutex
	busy     map[*Function]bool
	output   strings.Builder // of environments that ended
	running  map[*Function]bool
	bodies   []string
	outcomes Handled
	last     types.Message
}

// Handled counts messages by the result of their calls.
type Handled struct{ Done, Failed, Died int }

// Map passes the messages of a queue to functions until Stop or the end of the test. At most most
// messages are passed at the same time.
func (s *Stack) Map(t testing.TB, queue string, most int, start func() *Function) *Mapping {
	t.Helper()
	m := &Mapping{
		t: t, queue: queue, sqs: s.Queues(), start: start, stop: make(chan struct{}),
		busy: map[*Function]bool{}, running: map[*Function]bool{},
	}
	for range most {
		m.all.Go(m.poll)
	}
	t.Cleanup(m.Stop)
	return m
}

// Queues returns a client of the emulator's queues.
func (s *Stack) Queues() *sqs.Client { return sqs.NewFromConfig(emulator.Config(s.Endpoint)) }

// Waiting returns three counts of a queue's messages, with spaces between them: visible messages,
// messages that a function has received, and delayed messages.
func (s *Stack) Waiting(t testing.TB, queue string) string {
	t.Helper()
	names := []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible, types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	}
	out, err := s.Queues().GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &queue, AttributeNames: names})
	require.OK(t, err)
	var counts []string
	for _, name := range names {
		counts = append(counts, out.Attributes[string(name)])
	}
	return strings.Join(counts, " ")
}

// poll receives messages and passes them to one environment. If the environment ends, poll starts
// another for the next message.
func (m *Mapping) poll() {
	var f *Function
	for {
		select {
		case <-m.stop:
			m.retire(f)
			return
		default:
		}
		out, err := m.sqs.ReceiveMessage(m.t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &m.queue, MaxNumberOfMessages: 1, WaitTimeSeconds: 1,
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil || len(out.Messages) == 0 {
			continue // the emulator is busy, or there is nothing to do
		}
		if f == nil {
			f = m.begin()
		}
		if !m.hand(f, out.Messages[0]) {
			m.retire(f)
			f = nil
		}
	}
}

func (m *Mapping) begin() *Function {
	f := m.start()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running[f] = true
	return f
}

// hand passes a message to the function, and reports whether the function is still running.
func (m *Mapping) hand(f *Function, message types.Message) bool {
	m.mu.Lock()
	m.busy[f] = true
	m.bodies, m.last = append(m.bodies, aws.ToString(message.Body)), message
	m.mu.Unlock()
	a, err := f.Try(QueueEvent(message))
	if err == nil && !a.Failed {
		// The queue refuses this if it has delivered the message again, to another environment.
		_, _ = m.sqs.DeleteMessage(m.t.Context(), &sqs.DeleteMessageInput{QueueUrl: &m.queue, ReceiptHandle: message.ReceiptHandle})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.busy, f)
	switch {
	case err != nil:
		m.outcomes.Died++
	case a.Failed:
		m.outcomes.Failed++
	default:
		m.outcomes.Done++
	}
	return err == nil
}

// QueueEvent returns the event that Lambda sends to a function for messages of a queue.
func QueueEvent(messages ...types.Message) []byte {
	var records []any
	for _, m := range messages {
		records = append(records, map[string]any{
			"messageId": m.MessageId, "receiptHandle": m.ReceiptHandle, "body": m.Body, "attributes": m.Attributes, "md5OfBody": m.MD5OfBody,
			"messageAttributes": map[string]any{}, "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:queue", "awsRegion": "us-east-1",
		})
	}
	event, _ := json.Marshal(map[string]any{"Records": records}) // all values can be encoded
	return event
}

// retire ends an environment and stores its output.
func (m *Mapping) retire(f *Function) {
	if f == nil {
		return
	}
	f.Stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.output.WriteString(f.Output())
	delete(m.running, f)
}

// Kill waits until an environment works on a message, and ends the environment by SIGKILL.
func (m *Mapping) Kill() {
	m.t.Helper()
	local.Until(m.t, "a function works on a message", func() bool {
		m.mu.Lock()
		var victim *Function
		for f := range m.busy {
			victim = f
		}
		delete(m.busy, victim)
		m.mu.Unlock()
		if victim != nil {
			victim.Stop()
		}
		return victim != nil
	})
}

// Handled returns the results of the messages since its last call.
func (m *Mapping) Handled() Handled {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.outcomes
	m.outcomes = Handled{}
	return out
}

// Bodies returns the bodies of the messages that were passed to functions so far.
func (m *Mapping) Bodies() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.bodies...)
}

// Last returns the message that was passed to a function last.
func (m *Mapping) Last() types.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Output returns the output of all environments.
func (m *Mapping) Output() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.output.String()
	for f := range m.running {
		out += f.Output()
	}
	return out
}

// Stop ends each environment after its current message.
func (m *Mapping) Stop() {
	m.mu.Lock()
	select {
	case <-m.stop:
	default:
		close(m.stop)
	}
	m.mu.Unlock()
	m.all.Wait()
}
