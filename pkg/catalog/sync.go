package catalog

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A Loader asks servers for their tools and other items; *upstream.Client is one.
type Loader interface {
	// LoadEach asks every target, and calls the function each with every outcome as soon as it
	// comes, one call at a time; it keeps no outcome. While each runs, LoadEach collects no answers
	// beyond the requests in flight. If there was no time for a server's answer, its outcome is not
	// [outcome.Outcome.Recorded].
	LoadEach(ctx context.Context, targets []upstream.Target, each func(outcome.Outcome))

	// Keep ends what the Loader holds for servers that are not among targets. A sync calls it
	// before LoadEach, unless the sync loads only named servers.
	Keep(targets []upstream.Target)
}

// Approvals has the methods of an approval driver that a sync needs.
type Approvals interface {
	approval.Store
	document.Store
}

// SyncOptions configure a [Syncer]. The zero value works.
type SyncOptions struct {
	Now      func() time.Time // nil: time.Now
	Log      *slog.Logger     // nil: none
	Progress func(Progress)   // called at the start, and when the load of a server ends, one call at a time; nil: none

	// Rest is the initial time between two loads of an unchanged server by [Syncer.SyncDue]; 0:
	// five minutes. The time grows to twelve times Rest.
	Rest time.Duration

	// The Syncer calls Yield between small parts of the work, from several goroutines. In a process
	// that also answers requests, Yield may wait for those requests, for a bounded time. nil: no
	// wait.
	Yield func(context.Context)
}

// Progress is how many servers a sync has loaded.
type Progress struct {
	Outcome outcome.Outcome // of the server whose load just ended; zero at the start
	Done    int             // servers whose load has ended; 0 at the start
	Total   int             // servers to load
}

// ErrRequired says that a required server did not load: the old catalog stays.
var ErrRequired = errors.New("required server did not load")

// A Syncer makes the catalog from the servers. It runs one sync at a time.
type Syncer struct {
	objects   object.Store
	approvals Approvals
	firsts    *approval.Baselines
	loader    Loader
	o         SyncOptions

	begun  atomic.Int64                  // how many runs have begun
	latest atomic.Pointer[Snapshot]      // of the last sync that ended
	using  atomic.Pointer[config.Config] // of the newest run; nil: none yet

	slot      chan struct{} // has a token during a run; only the run uses the fields below
	last      result
	snap      *Snapshot    // the catalog that was last read or written
	built     string       // SHA-256 of the catalog that this process built last
	words     config.Words // the operator's search words for the tools of built
	config    object.Source[config.Config]
	rules     object.Source[policy.Policy]
	baselines map[string]bool // [approval.BaselineKey] of baselines in the store
	cache     unchangedCache
}

// A result is the result of a run that ended before its caller went away.
type result struct {
	number int64 // of the run, from 1
	all    bool  // the run loaded all servers
	report Report
	err    error
}

// NewSyncer returns a Syncer. It makes no call.
func NewSyncer(objects object.Store, approvals Approvals, loader Loader, o *SyncOptions) *Syncer {
	s := &Syncer{objects: objects, approvals: approvals, firsts: approval.NewBaselines(approvals), loader: loader, slot: make(chan struct{}, 1), baselines: map[string]bool{}}
	if o != nil {
		s.o = *o
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if s.o.Rest <= 0 {
		s.o.Rest = pollLeast
	}
	s.o.Log = cmp.Or(s.o.Log, slog.New(slog.DiscardHandler))
	return s
}

// Config returns the config that was used last; nil: none yet. It reads nothing.
func (s *Syncer) Config() *config.Config { return s.using.Load() }

// Sync brings the catalog up to date. While another sync is running, Sync waits and then runs
// again, so that the catalog has all changes from before the call. Callers that wait together share
// one run. Sync returns a [Report] even with an error.
func (s *Syncer) Sync(ctx context.Context) (Report, error) { return s.sync(ctx, true, nil) }

// SyncDue works like Sync, but for a schedule: it skips servers that were loaded recently and have
// not changed for long. If people have decided about a skipped server since its last load, SyncDue
// reads its records.
func (s *Syncer) SyncDue(ctx context.Context) (Report, error) { return s.sync(ctx, false, nil) }

// SyncServers works like Sync, but loads only the named servers, and the servers whose records
// depend on theirs. If the last catalog cannot be the basis of the next one, for example because
// the last sync failed, SyncServers loads all servers. Names of unknown servers have no effect.
func (s *Syncer) SyncServers(ctx context.Context, names []string) (Report, error) {
	return s.sync(ctx, false, names)
}

// sync loads all servers, the named servers or, if names is nil, the servers that are due.
func (s *Syncer) sync(ctx context.Context, all bool, names []string) (Report, error) {
	asked := s.begun.Load()
	if err := s.enter(ctx); err != nil {
		return Report{}, err
	}
	defer s.leave()
	// after this call, a run began and has ended
	if s.last.number > asked && (s.last.all || !all && names == nil) {
		return s.last.report, s.last.err
	}
	number := s.begun.Add(1)
	report, err := s.run(ctx, "sync", func(r *run, ctx context.Context) error {
		return r.loadDue(ctx, all, names)
	})
	if ctx.Err() == nil && names == nil {
		s.last = result{number, all, report, err}
	}
	return report, err
}

// enter waits until no other run is active, and takes the slot.
func (s *Syncer) enter(ctx context.Context) error {
	select {
	case s.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Syncer) leave() { <-s.slot }
