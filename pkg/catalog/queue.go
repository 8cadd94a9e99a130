package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

// MaxBody is the largest size of a message in bytes: the limit that SQS had first.
const MaxBody = 256 << 10

const (
	// jobFormat is the format number of messages. A process refuses messages of another format.
	jobFormat = 1

	// maxServers is how many servers a message names at most: a worker has time for them even if
	// each of them hangs.
	maxServers = 10

	// gather is the time slot in which all workers together request one assembly. The queue of
	// assemblies delays its messages by more than a slot, so that each assembly sees all results of
	// its slot.
	gather = 20 * time.Second

	// assemblyGroup is the group of all assemblies: two assemblies at the same time would do the
	// same work.
	assemblyGroup = "catalog"
)

var (
	// ErrTooLarge says that a message is larger than [MaxBody]. Nothing was sent.
	ErrTooLarge = errors.New("message is too large")

	// ErrJob says that a message contains no job that this program can read.
	ErrJob = errors.New("message cannot be read")
)

// A Message is a queue message: the text of a [Job].
type Message struct {
	Body []byte

	// Group and DeduplicationID are for a queue that keeps the order. While a receiver has one
	// message of a group, the queue delivers no other message of the group. For five minutes it
	// accepts only the first message with a DeduplicationID.
	Group, DeduplicationID string
}

// A Queue accepts messages, and later delivers each message at least once to another process.
type Queue interface {
	// Send adds the messages to the queue. After an error the queue may have some of the messages.
	// If the caller sends all of them again, workers may load servers twice, which does no other
	// harm.
	Send(ctx context.Context, messages []Message) error
}

// Queues connect the processes that share a sync: [Syncer.Plan] sends servers to workers. Plan and
// the workers request assemblies.
type Queues struct {
	Work     Queue         // for [Syncer.Work]; only the planner needs it
	Assemble Queue         // for [Syncer.Assemble]; it keeps the order
	Gather   time.Duration // time slot with one assembly; 0: 20 s
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

// A Round is one round of a sync that many processes share. Their messages contain it.
type Round struct {
	Began  time.Time `json:"began"`
	Config string    `json:"config,omitempty"` // version of the config; only for the log
	All    bool      `json:"all,omitempty"`    // all servers are loaded
}

// ID returns a short text that no other round has.
func (r Round) ID() string { return r.Began.UTC().Format("20060102T150405.000000000Z") }

// A Job asks for a part of a round: to load these servers or, without servers, to assemble the
// catalog.
type Job struct {
	Round   Round    `json:"run"`
	Servers []string `json:"servers,omitempty"`
}

// A jobMessage is a [Job] as it is sent.
type jobMessage struct {
	Format int `json:"format"`
	Job
}

// Encode returns the message as it is sent, as JSON.
func (j Job) Encode() ([]byte, error) { return json.Marshal(jobMessage{jobFormat, j}) }

// ParseJob reads what [Job.Encode] returns; its error is an [ErrJob].
func ParseJob(data []byte) (Job, error) {
	var m jobMessage
	if err := json.Unmarshal(data, &struct {
		Format *int `json:"format"`
	}{&m.Format}); err != nil {
		return Job{}, fmt.Errorf("%w: %w", ErrJob, err)
	}
	if m.Format != jobFormat {
		return Job{}, fmt.Errorf("%w: it has format %d, this program reads %d",
			ErrJob, m.Format, jobFormat)
	}
	if err := json.Unmarshal(data, &m, json.RejectUnknownMembers(true)); err != nil {
		return Job{}, fmt.Errorf("%w: %w", ErrJob, err)
	}
	switch {
	case m.Round.Began.IsZero():
		return Job{}, fmt.Errorf("%w: run.began is missing", ErrJob)
	case len(m.Servers) > maxServers:
		return Job{}, fmt.Errorf("%w: it names %d servers, want at most %d",
			ErrJob, len(m.Servers), maxServers)
	}
	for _, name := range m.Servers {
		if name == "" {
			return Job{}, fmt.Errorf("%w: servers: a name is empty", ErrJob)
		}
	}
	return m.Job, nil
}

// askAssembly requests an assembly. The assembly begins after the call, so it sees everything that
// was stored before.
func (s *Syncer) askAssembly(ctx context.Context, q Queues, round Round) error {
	body, err := Job{Round: round}.Encode()
	if err != nil {
		return err
	}
	// All requests in one slot have one message, which the queue delivers after the slot has ended.
	slot := s.o.Now().UnixNano() / int64(cmp.Or(q.Gather, gather))
	id := round.ID() + "-" + strconv.FormatInt(slot, 10)
	m := Message{Body: body, Group: assemblyGroup, DeduplicationID: id}
	if err := q.Assemble.Send(ctx, []Message{m}); err != nil {
		return fmt.Errorf("ask for an assembly: %w", err)
	}
	return nil
}
