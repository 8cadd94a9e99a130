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

// Options are the knobs of a [Loader]. The zero value of each field stands for its default.
type Options struct {
	Now          func() time.Time // time.Now
	Log          *slog.Logger     // none
	ConfigTTL    time.Duration    // 30 s: how long config, policy and catalog are not looked at again
	ApprovalTTL  time.Duration    // 2 s: the same for approvals
	ApprovalHold time.Duration    // 60 s: how long approvals that were read last are used when they cannot be read
	SyncEvery    time.Duration    // how often a sync is due; 0: not known, so a catalog is never called old
	Retry        time.Duration    // 5 s: when to ask again for what could not be read
	Prefetch     *Prefetch        // of the same objects; nil: the first request reads everything
	Audit        func() error     // says why lines of the audit cannot be written; nil: no call waits for that here
	Timeout      time.Duration    // 2 s: how long a request waits for objects, and for approvals; five times that before the first config and catalog, and for a catalog that makes no progress otherwise

	// Full returns since when calls are refused because all processes of servers are in use, and
	// how many processes that is; zero: no call is refused for that. A nil Full is one that returns
	// zero.
	Full func() (since time.Time, processes int)

	AuditSize func() (bytes, limit int64) // of the audit's files; nil: not known
	Capacity  func() capacity.Facts       // of the process; nil: nothing is bounded here
}

// patience is how much longer a read may take where the alternative is nothing.
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

// Approvals are what people decided, and the documents, of which one has what they stopped.
type Approvals interface {
	approval.Store
	document.Reader
}

// A Loader keeps a [State] fresh. It is safe for concurrent use; one caller
// refreshes, the others wait for it.
type Loader struct {
	objects   object.Store
	approvals Approvals
	o         Options

	turn  chan struct{}                 // holds one token while somebody refreshes
	long  atomic.Pointer[chan struct{}] // closed as the refresh that goes on, or is next, begins to read shards: that may take long
	state atomic.Pointer[State]
	due   atomic.Pointer[deadline] // when to look again; set before state

	failed atomic.Pointer[catalog.Failure]  // of the last sync in this process; nil: it worked, or there was none
	synced atomic.Pointer[catalog.Snapshot] // by a sync in this process; nil: nothing new

	// Guarded by turn:
	read  sources
	ahead *Prefetch // nil: there is none, or it was taken
	base  *base     // of the first catalog; nil: there is none yet, or a state has it
}

// New returns a Loader that has read nothing yet. It makes no call.
func New(objects object.Store, approvals Approvals, o *Options) *Loader {
	l := &Loader{objects: objects, approvals: approvals, o: o.withDefaults(), turn: make(chan struct{}, 1), read: newSources()}
	l.ahead = l.o.Prefetch
	l.read.loading.OnFetch = func() { close(*l.long.Load()) }
	l.long.Store(new(make(chan struct{})))
	return l
}

// Load returns the state for one request. It looks again at what is older than
// its TTL; what cannot be read stays as it was, flagged stale. It never
// returns nil. If ctx ends first it returns what was read last.
func (l *Loader) Load(ctx context.Context) *State {
	if s := l.state.Load(); s != nil && !l.due.Load().over(l.o.Now()) {
		return s
	}
	return l.refresh(ctx, false)
}

// SyncEnded tells the loader how a sync in this process ended. What could not be stored,
// because there is no space left for it, is known here alone; nil: it worked. The catalog that
// the sync has in memory, or nil, is used if it is the one in the store, so that the process
// needs no second copy.
func (l *Loader) SyncEnded(f *catalog.Failure, snap *catalog.Snapshot) {
	if last := l.failed.Load(); f != nil && last != nil {
		kept := *f
		kept.Since = last.Since
		f = &kept
	}
	l.failed.Store(f)
	l.synced.Store(snap)
}

// Refresh is [Loader.Load] that looks at everything again, whatever its age.
func (l *Loader) Refresh(ctx context.Context) *State { return l.refresh(ctx, true) }

// refresh takes its turn. The work is done by a caller and on its context, not
// by a goroutine that a frozen function would leave hanging; if that caller
// goes away the next one in line does it. While it reads shards of a catalog, which are large, the
// others go on with the state that there is.
func (l *Loader) refresh(ctx context.Context, all bool) *State {
	if !l.takeTurn(ctx, all) {
		return l.Current()
	}
	defer l.endTurn()
	l.takePrefetch(ctx)
	now := l.o.Now()
	if s := l.state.Load(); s != nil && !all && !l.due.Load().over(now) {
		return s // somebody else did it meanwhile
	}
	timeout := l.o.Timeout
	if !l.read.ready() {
		timeout *= patience
	}
	// Each store has its own time: a slow one must not make the other look gone.
	next := l.read
	if all || next.configDue.over(now) {
		next.readObjects(ctx, l.objects, l.o, now, timeout, l.synced.Swap(nil))
	}
	if all || next.approvalsDue.over(now) {
		readCtx, cancel := context.WithTimeout(ctx, timeout)
		var wg sync.WaitGroup
		wg.Go(func() { l.readApprovals(readCtx, &next, now) })
		if l.base == nil && l.Current().resolved == nil && next.ready() {
			l.base = next.newBase() // while the store takes its time
		}
		wg.Wait()
		cancel()
	}
	if ctx.Err() != nil {
		return l.Current() // the caller went away: that says nothing about the stores
	}
	prev := l.Current()
	s := next.build(now, l.o, prev, l.base)
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
	return s
}

// takeTurn waits for the turn to refresh, and reports whether it has come. It gives up on one who reads
// shards, unless the state that there is will not do.
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

// Current returns the state that was built last, or else a State with nothing in it. It looks at nothing.
func (l *Loader) Current() *State {
	if s := l.state.Load(); s != nil {
		return s
	}
	return &State{}
}

// readApprovals reads what people stopped, and what they decided since the catalog was made, or the
// last read.
func (l *Loader) readApprovals(ctx context.Context, src *sources, now time.Time) {
	var wg sync.WaitGroup
	wg.Go(func() { src.stops.read(ctx, l.approvals, now) })
	due := after(now, l.o.ApprovalTTL)
	if src.snap != nil { // else there are no tools to decide about
		if src.unchecked {
			wg.Go(func() { src.checkStore(ctx, l.approvals) })
		}
		progress := src.feed.Read(ctx, l.approvals, now)
		switch {
		case src.feed.Err == nil:
			due = after(src.feed.Began, l.o.ApprovalTTL)
		case !progress: // else the next request goes on
			due = after(now, max(l.o.Retry, l.o.ApprovalTTL))
		}
	}
	wg.Wait()
	if src.stops.err != nil {
		due = after(now, max(l.o.Retry, l.o.ApprovalTTL))
	}
	src.approvalsDue = due
}
