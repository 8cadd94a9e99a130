package boot

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

// The parts of a distributed sync.
const (
	RolePlan     = "plan"     // finds out which servers are due, and sends notices
	RoleWork     = "work"     // asks servers
	RoleAssemble = "assemble" // builds the catalog
)

// maxGather is the longest delay that SQS allows, in seconds.
const maxGather = 900

// Fanout says which part of a sync a function does. The zero value is a whole sync.
type Fanout struct {
	Role string // PORTCULLIS_SYNC_ROLE: plan, work, assemble; "": a whole sync
	Work string // PORTCULLIS_WORK_QUEUE: URL of the workers' queue; the planner needs it
	// PORTCULLIS_ASSEMBLE_QUEUE: URL of the FIFO queue of assemblies; planner and workers need it
	Assemble string
	// PORTCULLIS_GATHER_SECONDS: requests for an assembly within this time become one request; it
	// must be less than the delay of that queue; 0: 20 s
	Gather time.Duration
}

func (r *reader) fanout() Fanout {
	s := Fanout{
		Role: r.getenv("PORTCULLIS_SYNC_ROLE"), Work: r.getenv("PORTCULLIS_WORK_QUEUE"), Assemble: r.getenv("PORTCULLIS_ASSEMBLE_QUEUE"),
		Gather: time.Second * time.Duration(r.number("PORTCULLIS_GATHER_SECONDS", 1, maxGather, "want a number of seconds from %d to %d")),
	}
	if !slices.Contains([]string{"", RolePlan, RoleWork, RoleAssemble}, s.Role) {
		r.fault("PORTCULLIS_SYNC_ROLE %q: want plan, work, assemble, or nothing for a sync in "+
			"one function", s.Role)
	}
	r.queue("PORTCULLIS_WORK_QUEUE", s.Work, s.Role == RolePlan)
	r.queue("PORTCULLIS_ASSEMBLE_QUEUE", s.Assemble, s.Role == RolePlan || s.Role == RoleWork)
	return s
}

// queue checks the URL of a queue.
func (r *reader) queue(setting, value string, needed bool) {
	if needed && value == "" {
		r.fault("%s is not set: the URL of the SQS queue, which PORTCULLIS_SYNC_ROLE needs", setting)
	}
	if u, err := url.Parse(value); value != "" && (err != nil || u.Host == "") {
		r.fault("%s %q: want the URL of an SQS queue", setting, value)
	}
}

// Sends reports whether the function sends notices.
func (s Fanout) Sends() bool { return s.Role == "" || s.Role == RolePlan }

// Reads reports whether the function needs the catalog from its start, as requests do.
func (s Fanout) Reads() bool { return s.Role == "" }

// Function returns a function's name in the metrics. The planner has the name of the sync function.
func (s Fanout) Function(name string) string {
	if s.Role == RoleWork || s.Role == RoleAssemble {
		return s.Role
	}
	return name
}

// Work calls [catalog.Syncer.Work] in a span, and sends notices about the result.
func (p *Program) Work(ctx context.Context, q catalog.Queues, j catalog.Job) (catalog.LoadReport, error) {
	span := p.Tracer.Start(ctx, observe.Sync)
	defer p.Tracer.Flush(ctx)
	defer span.End()
	r, err := p.Syncer.Work(span.Context, q, j)
	if span.Count("servers", len(r.Servers)); err != nil {
		span.Fail("servers not loaded")
	}
	p.notifySync(ctx, r.Servers)
	return r, err
}

// Assemble builds the catalog from the workers' results, counts it as a sync and makes it visible
// to requests.
func (p *Program) Assemble(ctx context.Context) (catalog.Report, error) {
	// The worker that asked a server has sent the notices about it.
	return p.sync(ctx, p.Syncer.Assemble, func(context.Context, []catalog.ServerReport) {})
}
