package state

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
)

// Options configure a [Loader]. The zero value of each field means its default.
type Options struct {
	Now          func() time.Time // time.Now
	Log          *slog.Logger     // none
	ConfigTTL    time.Duration    // 30 s: maximum age of config, policy and catalog
	ApprovalTTL  time.Duration    // 2 s: maximum age of approvals
	ApprovalHold time.Duration    // 60 s: how long old approvals are used if they cannot be read
	SyncEvery    time.Duration    // interval of syncs; 0: unknown, so a catalog never counts as old
	Memory       int              // MB of the function that runs this process; 0: it is no function
	SyncMemory   int              // MB of the function that syncs; 0: not known
	Retry        time.Duration    // 5 s: when to retry a failed read
	Prefetch     *Prefetch        // of the same objects; nil: the first request reads everything
	AwaitsSync   bool             // this process syncs soon, so a catalog may be missing until then
	Audit        func() error     // why audit lines cannot be written; nil: no call waits for them

	// Timeout is how long a request waits for objects, and for approvals: 2 s. The timeout is five
	// times as long before the first config and catalog, and after a read of the catalog without
	// progress.
	Timeout time.Duration

	// Full returns since when calls are refused because all server processes are in use, and the
	// number of processes. The time is zero if no call is refused for this reason. A nil Full means
	// zero.
	Full func() (since time.Time, processes int)

	AuditSize func() (bytes, limit int64) // of the audit's files; nil: unknown
	Capacity  func() capacity.Facts       // of the process; nil: no limits
}

// patience is the factor for timeouts of reads without which the gateway cannot serve.
const patience = 5

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	out.Log = cmp.Or(out.Log, slog.New(slog.DiscardHandler))
	out.ConfigTTL = cmp.Or(out.ConfigTTL, 30*time.Second)
	out.ApprovalTTL = cmp.Or(out.ApprovalTTL, 2*time.Second)
	out.ApprovalHold = cmp.Or(out.ApprovalHold, 60*time.Second)
	out.Retry = cmp.Or(out.Retry, 5*time.Second)
	out.Timeout = cmp.Or(out.Timeout, 2*time.Second)
	return out
}

// Approvals reads the decisions of people and the documents; one document has the stops.
type Approvals interface {
	approval.Store
	document.Reader
}

// A Loader keeps a [State] fresh. It is safe for concurrent use. One caller refreshes the State,
// and the other callers wait for that caller.
type Loader struct {
	objects   object.Store
	approvals Approvals
	o         Options

	turn  chan struct{}                 // a token while a caller refreshes
	long  atomic.Pointer[chan struct{}] // closed when the current or next refresh begins to read shards, which may take long
	state atomic.Pointer[State]
	due   atomic.Pointer[deadline] // when to read again; set before state

	failed atomic.Pointer[catalog.Failure]  // of the last sync here; nil: it succeeded, or there was none
	ended  atomic.Bool                      // a sync has ended here
	synced atomic.Pointer[catalog.Snapshot] // from a sync in this process; nil: none
	next   atomic.Pointer[chan struct{}]    // closed when another catalog is in use

	// The turn guards the fields below.
	read  sources
	ahead *Prefetch // nil: none, or taken
	base  *base     // of the first catalog; nil: none yet, or a state has it
}

// New returns a Loader that has read nothing. It makes no calls.
func New(objects object.Store, approvals Approvals, o *Options) *Loader {
	l := &Loader{objects: objects, approvals: approvals, o: o.withDefaults(), turn: make(chan struct{}, 1), read: newSources()}
	l.ahead = l.o.Prefetch
	l.read.loading.OnFetch = func() { close(*l.long.Load()) }
	l.long.Store(new(make(chan struct{})))
	l.next.Store(new(make(chan struct{})))
	return l
}

// CatalogChanged returns a channel that is closed when the Loader uses a catalog with other
// content. It makes no reads: somebody has to call Load or Refresh.
func (l *Loader) CatalogChanged() <-chan struct{} { return *l.next.Load() }

// Load returns the state for one request. It reads again all parts that are older than their TTL. A
// part that cannot be read stays as it was, flagged stale. Load never returns nil. If ctx ends
// first, it returns the last state.
func (l *Loader) Load(ctx context.Context) *State {
	if s := l.state.Load(); s != nil && !l.due.Load().hasPassed(l.o.Now()) {
		return s
	}
	return l.refresh(ctx, false)
}

// SyncEnded gives the loader the result of a sync in this process; a nil f means success. A failed
// sync may be unable to store its failure, for example on a full disk. If snap is the catalog in
// the store, the loader uses it, so that the process needs no second copy. snap may be nil.
func (l *Loader) SyncEnded(f *catalog.Failure, snap *catalog.Snapshot) {
	if last := l.failed.Load(); f != nil && last != nil {
		failure := *f
		failure.Since = last.Since
		f = &failure
	}
	l.ended.Store(true)
	l.failed.Store(f)
	l.synced.Store(snap)
}

// Refresh works like [Loader.Load], but reads all parts again, even recent parts.
func (l *Loader) Refresh(ctx context.Context) *State { return l.refresh(ctx, true) }

// refresh waits for its turn. Each caller reads with its own context, because Lambda would freeze a
// background goroutine. If a caller goes away, the next caller reads. During the read of a
// catalog's large shards, the other callers use the current state.
func (l *Loader) refresh(ctx context.Context, all bool) *State {
	if !l.takeTurn(ctx, all) {
		return l.Current()
	}
	defer l.endTurn()
	l.takePrefetch(ctx)
	now := l.o.Now()
	if s := l.state.Load(); s != nil && !all && !l.due.Load().hasPassed(now) {
		return s // another caller has refreshed it meanwhile
	}
	timeout := l.o.Timeout
	if !l.read.ready() {
		timeout *= patience
	}
	// Each store has its own timeout: a slow store must not make the other one fail.
	next := l.read
	if all || next.configDue.hasPassed(now) {
		next.readObjects(ctx, l.objects, l.o, now, timeout, l.synced.Swap(nil))
	}
	if all || next.approvalsDue.hasPassed(now) {
		readCtx, cancel := context.WithTimeout(ctx, timeout)
		var wg sync.WaitGroup
		wg.Go(func() { l.readApprovals(readCtx, &next, now) })
		if l.base == nil && l.Current().resolved == nil && next.ready() {
			l.base = next.newBase() // during the wait for the store
		}
		wg.Wait()
		cancel()
	}
	if ctx.Err() != nil {
		return l.Current() // the caller went away; the stores may work
	}
	prev := l.Current()
	s := next.build(now, l.o, prev, l.base)
	s.Health.Sync.First = l.o.AwaitsSync && !l.ended.Load()
	s.Health.Sync.Failed = s.Health.Sync.failure(l.failed.Load())
	if l.o.Audit != nil {
		s.Health.Audit = l.o.Audit()
	}
	if l.o.Full != nil {
		s.Health.FullSince, s.Health.Processes = l.o.Full()
	}
	if l.o.Capacity != nil {
		s.Health.Capacity = new(l.o.Capacity())
	}
	if l.o.AuditSize != nil {
		s.Health.AuditBytes, s.Health.AuditLimit = l.o.AuditSize()
	}
	s.Health.first = firstSeen(prev.Health, s.Health)
	l.logChanges(ctx, prev.Health, s.Health)
	l.read, l.base = next, nil
	due := next.nextDue(now, l.o)
	l.due.Store(&due)
	l.state.Store(s)
	if contentOf(s.Catalog) != contentOf(prev.Catalog) {
		close(*l.next.Swap(new(make(chan struct{}))))
	}
	return s
}

// contentOf returns the SHA-256 of a catalog; "": there is none.
func contentOf(snap *catalog.Snapshot) string {
	if snap == nil {
		return ""
	}
	return snap.Current().SHA256
}

// takeTurn waits for the turn to refresh, and reports whether the caller has the turn. While
// another caller reads shards, takeTurn stops waiting if the current state is sufficient.
func (l *Loader) takeTurn(ctx context.Context, all bool) bool {
	long := *l.long.Load()
	if s := l.state.Load(); all || s == nil || s.Catalog == nil {
		long = nil
	}
	select {
	case l.turn <- struct{}{}:
		return true
	default:
	}
	select {
	case l.turn <- struct{}{}:
		return true
	case <-long:
		return false
	case <-ctx.Done():
		return false
	}
}

func (l *Loader) endTurn() {
	select {
	case <-*l.long.Load():
		l.long.Store(new(make(chan struct{})))
	default:
	}
	<-l.turn
}

// Current returns the last state, or an empty State. It reads nothing.
func (l *Loader) Current() *State {
	if s := l.state.Load(); s != nil {
		return s
	}
	return &State{}
}

// readApprovals reads the stops, and the decisions since the catalog or the last read.
func (l *Loader) readApprovals(ctx context.Context, src *sources, now time.Time) {
	var wg sync.WaitGroup
	wg.Go(func() { src.stops.read(ctx, l.approvals, now) })
	due := after(now, l.o.ApprovalTTL)
	if src.snap != nil { // without a catalog there are no tools to decide about
		if src.unchecked {
			wg.Go(func() { src.checkStore(ctx, l.approvals) })
		}
		progress := src.feed.Read(ctx, l.approvals, now)
		switch {
		case src.feed.Err == nil:
			due = after(src.feed.Began, l.o.ApprovalTTL)
		case !progress: // with progress, the next request continues
			due = after(now, max(l.o.Retry, l.o.ApprovalTTL))
		}
	}
	wg.Wait()
	if src.stops.err != nil {
		due = after(now, max(l.o.Retry, l.o.ApprovalTTL))
	}
	src.approvalsDue = due
}
