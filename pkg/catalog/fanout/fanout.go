package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

const (
	// gather is within how long one assembly is asked for, however many workers end. The queue of
	// assemblies delays its messages by longer, so that each sees what was found in that time.
	gather = 20 * time.Second

	// group is that of all assemblies: two at once would do the same work.
	group = "catalog"
)

// An Assemblies is the queue that assemblies are asked for on.
type Assemblies struct {
	Queue  Queue
	Gather time.Duration    // 0: 20 s
	Now    func() time.Time // nil: time.Now
}

// ask asks for an assembly that begins after what was stored before the call.
func (a Assemblies) ask(ctx context.Context, run catalog.Run) error {
	body, err := Job{Run: run}.Encode()
	if err != nil {
		return err
	}
	now, gather := time.Now, gather
	if a.Now != nil {
		now = a.Now
	}
	if a.Gather > 0 {
		gather = a.Gather
	}
	// All that ask within one slot have one message, which is handed out after the slot has ended.
	slot := strconv.FormatInt(now().UnixNano()/int64(gather), 10)
	if err := a.Queue.Send(ctx, []Message{{Body: body, Group: group, DeduplicationID: run.ID() + "-" + slot}}); err != nil {
		return fmt.Errorf("ask for an assembly: %w", err)
	}
	return nil
}

// A Planner begins rounds.
type Planner struct {
	Syncer     *catalog.Syncer
	Work       Queue
	Assemblies Assemblies
}

// A Plan is a round that was begun.
type Plan struct {
	Run      catalog.Run
	Servers  int  // that are to be asked
	Messages int  // by which they are
	Confirm  bool // an assembly was asked for, whatever workers find
}

// Plan begins a round: it sends the names of the servers that are due, with all of every server. If it
// fails or is ended, what was sent is worked off, and what was not is due in the next round; a server
// that was sent and not noted is sent twice, which does no harm. A round that cannot be planned
// is still assembled, which finds the same fault and tells of it where people look.
func (p *Planner) Plan(ctx context.Context, all bool) (Plan, error) {
	run, names, err := p.Syncer.Due(ctx, all)
	if err != nil {
		return Plan{Run: run, Confirm: true}, errors.Join(err, p.Assemblies.ask(ctx, run))
	}
	plan := Plan{Run: run, Servers: len(names), Confirm: run.Confirm}
	var messages []Message
	for batch := range slices.Chunk(names, maxServers) {
		body, err := Job{run, batch}.Encode()
		if err != nil {
			return plan, err
		}
		messages = append(messages, Message{Body: body})
	}
	if len(messages) > 0 {
		if err := p.Work.Send(ctx, messages); err != nil {
			return plan, fmt.Errorf("send servers to workers: %w", err)
		}
		plan.Messages = len(messages)
		if err := p.Syncer.Sent(ctx, run, names); err != nil {
			return plan, err
		}
	}
	if !plan.Confirm {
		return plan, nil
	}
	return plan, p.Assemblies.ask(ctx, run)
}

// ErrUnasked says that there was no time for all servers of a message: it has to come again.
var ErrUnasked = errors.New("there was no time to ask all servers")

// A Worker asks the servers of a message.
type Worker struct {
	// Load is [catalog.Syncer.LoadServers] or a function around it.
	Load       func(ctx context.Context, run catalog.Run, servers []string) (catalog.LoadReport, error)
	Assemblies Assemblies
}

// Work does what the message asks for. An error means that it has to come again, which does no
// harm: servers that were asked are skipped then. A server that fails is no error.
func (w *Worker) Work(ctx context.Context, j Job) (catalog.LoadReport, error) {
	if len(j.Servers) == 0 {
		return catalog.LoadReport{}, fmt.Errorf("%w: it names no server", ErrJob)
	}
	report, err := w.Load(ctx, j.Run, j.Servers)
	if err == nil && report.Unasked > 0 {
		err = fmt.Errorf("%w: %d of %d were not", ErrUnasked, report.Unasked, len(j.Servers))
	}
	if err != nil && report.Put == 0 {
		return report, err
	}
	// It is asked for after a repeated message too: the worker before may have ended before it did.
	return report, errors.Join(err, w.Assemblies.ask(ctx, j.Run))
}
