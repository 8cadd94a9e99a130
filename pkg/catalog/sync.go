package catalog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A Loader asks servers for their tools; *upstream.Client is one.
type Loader interface {
	// LoadAll asks every target and returns one outcome each, in their order.
	// each is called as each ends, one call at a time.
	LoadAll(ctx context.Context, targets []upstream.Target, each func(outcome.Outcome)) []outcome.Outcome
}

// Approvals is what a sync needs of an approval driver.
type Approvals interface {
	approval.Store
	approval.Baselines
}

// SyncOptions are the knobs of a [Syncer]. The zero value works.
type SyncOptions struct {
	Now      func() time.Time // nil: time.Now
	Log      *slog.Logger     // nil: none
	Progress func(Progress)   // called when loading begins and as each server's load ends, one call at a time; nil: none
}

// Progress is how far a sync's loading is.
type Progress struct {
	Outcome outcome.Outcome // of the server that just ended; zero at the start
	Done    int             // servers that have ended; 0 at the start
	Total   int             // servers to load
}

// ErrRequired says that a required server did not load: the old catalog stays.
var ErrRequired = errors.New("required server did not load")

// A Syncer makes the catalog from the servers. It runs one sync at a time.
type Syncer struct {
	objects   object.Store
	approvals Approvals
	loader    Loader
	o         SyncOptions

	slot      chan struct{} // held by the run; what follows slot in this struct is its alone
	held      *Snapshot
	built     string // SHA-256 of the catalog that this process built last
	from      object.Source[config.Config]
	rules     object.Source[policy.Policy]
	baselines map[string]*approval.Baseline

	mu   sync.Mutex
	next *ticket // of the run that has not begun yet; nil: nobody waits

	latest atomic.Pointer[Snapshot] // as the last sync that ended left it
}

// A ticket is the result of one run, for all who asked before it began.
type ticket struct {
	done   chan struct{} // closed at the end of the run
	report Report
	err    error
	gone   bool // the run ended because the one who ran it gave up
}

// NewSyncer returns a Syncer. It makes no call.
func NewSyncer(objects object.Store, approvals Approvals, loader Loader, o *SyncOptions) *Syncer {
	s := &Syncer{objects: objects, approvals: approvals, loader: loader, slot: make(chan struct{}, 1), baselines: map[string]*approval.Baseline{}}
	if o != nil {
		s.o = *o
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if s.o.Log == nil {
		s.o.Log = slog.New(slog.DiscardHandler)
	}
	return s
}

// Sync brings the catalog up to date. While a sync is running it waits, then
// runs again, so that what changed before the call is in the catalog after it;
// callers who wait together share one run. A [Report] comes with an error too.
func (s *Syncer) Sync(ctx context.Context) (Report, error) {
	for {
		t := s.ticket()
		select {
		case <-t.done:
		case <-ctx.Done():
			return Report{}, context.Cause(ctx)
		case s.slot <- struct{}{}:
			s.lead(ctx, t)
		}
		if !t.gone || ctx.Err() != nil {
			return t.report, t.err
		}
	}
}

func (s *Syncer) ticket() *ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &ticket{done: make(chan struct{})}
	}
	return s.next
}

// lead runs the sync of t, unless another who waited for it just did, and
// frees the slot. From here on, whoever asks gets a new ticket.
func (s *Syncer) lead(ctx context.Context, t *ticket) {
	defer func() { <-s.slot }()
	s.mu.Lock()
	if s.next != t {
		s.mu.Unlock()
		return
	}
	s.next = nil
	s.mu.Unlock()
	defer close(t.done)
	t.gone = true // also if run panics
	t.report, t.err = s.run(ctx)
	t.gone = ctx.Err() != nil
}
