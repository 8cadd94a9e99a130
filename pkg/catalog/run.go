package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// errRestart says that another sync has moved the catalog, and that this run must begin again: the
// config has changed as well, or the run reads load results from the object store.
var errRestart = errors.New("config or catalog changed during the sync")

// A run makes one catalog, or a part of it: it loads units from a queue, then assembles the
// catalog. In one process the queue is a slice, and the load results stay in memory. Many processes
// share a run by [Syncer.Work] and [Syncer.Assemble].
type run struct {
	*Syncer
	began    time.Time
	base     *Snapshot                  // the last catalog; nil: none that can be used
	prev     Current                    // its current.json, even if its shards cannot be used
	ifMatch  string                     // its ETag
	damaged  bool                       // the last catalog, or a part of it, cannot be used
	servers  []*serverRun               // one for each server of the config
	known    map[string]ServerState     // of prev, by name
	outcomes map[string]outcome.Outcome // of prev, by server
	units    []*unit                    // of the config and of base; see [run.group]
	readAll  bool                       // the records of every server are read
	decided  map[string]time.Time       // when people last decided about servers
	found    map[string]string          // ETags of the stored load results, by key; nil: the run loads servers
	readOnly bool                       // another process keeps the last good config
	named    bool                       // the run loads only named servers
	turns    chan struct{}              // holds a token for each call to the approval store
	report   Report
	put      int // load results that were stored

	mu    sync.Mutex      // guards put, taken, the Syncer's baselines and report.Recovered while units are loaded
	taken map[string]bool // first lists that servers had, by [approval.BaselineKey]
}

// A serverRun holds the data of a run about one server.
type serverRun struct {
	server   config.Server
	key      string          // [approval.BaselineKey] of its tools, from [approval.Identity]; decisions belong to it
	identity string          // [approval.BaselineIdentity]; first lists belong to it
	place    string          // [approval.BaselineKey] of its tools, from identity
	from     string          // its name before it was renamed, if it was: see [run.linkNames]
	others   []string        // all names of servers that had this place, including its own
	outcome  outcome.Outcome // without Tools and Items; of the last run that asked the server
	before   outcome.Status  // of the run before
	isQueued bool            // this run asks the server, or looks at its records
	loaded   bool            // the server answered
	found    bool            // tools has its newest items, which may differ from the last catalog
	tools    []ToolInput     // and other items. nil once they are compared with the last catalog
	nested   []ToolInput     // too deeply nested items; those with a record are moved to tools
	counts   ServerReport    // New, Changed, Gone and News
	unit     *unit
	kinds    map[approval.Kind]bool // of what it listed

	digest        string            // [outcome.Outcome.Lists]; "": not known, or not loaded
	omitted       bool              // tools is left out, because it is the same as in the catalog
	refusedBefore []outcome.Refusal // of the run before
	refused       bool              // an item that it lists is refused because of its record
	cached        *unchangedServer  // its cache entry from the last run; nil: none
	toCache       *unchangedServer  // its cache entry for the next run; nil: none

	input    ServerInput // its part of the next catalog
	listed   bool        // it has listed something
	restored int         // restored records that wait for a person
	rebuilt  bool        // its tools come from its records
	forgot   bool        // see [unit.findForgotten]
	since    time.Time   // since when its lists are unchanged, as far as is known
	etag     string      // of the stored load result that it comes from; "": of none
}

// run makes the catalog. collect loads servers, or lists the stored load results. run reads the
// catalog's version before the config. If another sync moves the catalog in between, the last step
// fails. So a catalog never replaces a catalog that was made from a newer config. run writes
// records before the catalog: a tool in the catalog without a record would be locked for a reason
// that no person can remove. It also writes records before it checks required servers: a changed
// tool of another server is locked by its record even if the old catalog stays.
func (s *Syncer) run(ctx context.Context, name string, collect func(*run, context.Context) error) (Report, error) {
	r, err := document.Retry(ctx, errRestart, func() (*run, error) {
		r := s.newRun()
		for _, step := range []func(*run, context.Context) error{
			(*run).readBase, (*run).readConfig, collect, (*run).assemble,
		} {
			if err := step(r, ctx); err != nil {
				return r, err
			}
		}
		return r, nil
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	r.finish(ctx, err)
	return r.report, err
}

func (s *Syncer) newRun() *run {
	return &run{Syncer: s, began: s.o.Now().UTC().Round(0), turns: make(chan struct{}, maxWriters), taken: map[string]bool{}}
}

// readBase reads the last catalog. If the catalog cannot be used, the run builds a new one, and
// replaces exactly the unusable version.
func (r *run) readBase(ctx context.Context) error {
	base, prev, match, err := load(ctx, r.objects, r.snap, new(Loading), decodeBase)
	switch {
	case errors.Is(err, object.ErrNotFound):
		match = object.IfAbsent
	case errors.Is(err, ErrUnusable):
		r.damaged = true
		r.o.Log.LogAttrs(ctx, slog.LevelError, "stored catalog is replaced", slog.Any("error", err))
	case err != nil:
		return err
	}
	r.base, r.ifMatch, r.snap = base, match, base
	r.goOn(prev)
	return nil
}

// readCurrent reads the last current.json, without the catalog's shards.
func (r *run) readCurrent(ctx context.Context) error {
	o, _, err := getCurrent(ctx, r.objects, "")
	if errors.Is(err, object.ErrNotFound) {
		r.goOn(Current{})
		return nil
	}
	if err != nil {
		return err
	}
	cur, err := parseCurrent(o.Data)
	if r.damaged = errors.Is(err, ErrUnusable); err != nil && !r.damaged {
		return err
	}
	r.goOn(cur)
	return nil
}

// goOn notes the servers and outcomes of prev.
func (r *run) goOn(prev Current) {
	r.prev, r.known, r.outcomes = prev, map[string]ServerState{}, map[string]outcome.Outcome{}
	for _, k := range prev.Servers {
		r.known[k.Name] = k
	}
	for _, o := range prev.Outcomes {
		r.outcomes[o.ServerID] = o
	}
}

// baseFor returns the last catalog, or nil if the catalog or the shard of the server cannot be
// used.
func (r *run) baseFor(server string) *Snapshot {
	if r.base == nil || r.base.misses(server) {
		return nil
	}
	return r.base
}

func (r *run) readConfig(ctx context.Context) error {
	// A sync does not apply the policy. It reads the policy only to keep the last good copy.
	r.rules = readFile(ctx, r, PolicyFile, r.rules)
	r.config = readFile(ctx, r, ConfigFile, r.config)
	r.report.Config, r.report.ConfigErr, r.report.PolicyErr = r.config.Version, r.config.Err(), r.rules.Err()
	if r.config.Value == nil {
		return r.config.Err()
	}
	r.using.Store(r.config.Value)
	r.servers = make([]*serverRun, len(r.config.Value.Servers))
	for i, server := range r.config.Value.Servers {
		identity, exact := approval.BaselineIdentity(server.URL), approval.Identity(server.URL)
		l := &serverRun{
			server: server, identity: identity,
			key: approval.BaselineKey(exact, approval.Tools), place: approval.BaselineKey(identity, approval.Tools),
		}
		r.servers[i] = l
		l.outcome = r.outcomes[server.Name]
		l.before, l.refusedBefore = l.outcome.Status, l.outcome.Refused
		if k := r.known[server.Name]; k.Identity == l.key {
			l.since = k.Since
		}
	}
	r.units = r.group()
	return nil
}

// readFile reads one of the operator's files, and writes its last good copy if it is good.
func readFile[T any](ctx context.Context, r *run, f object.File[T], held object.Source[T]) object.Source[T] {
	if r.readOnly {
		return f.Load(ctx, r.objects, held, r.began)
	}
	s, err := f.Keep(ctx, r.objects, held, r.began)
	if err != nil {
		r.o.Log.LogAttrs(ctx, slog.LevelWarn, "last good file not kept", slog.String("file", f.Key), slog.Any("error", err))
	}
	return s
}

func (r *run) checkRequired() error {
	var errs []error
	for _, l := range r.servers {
		if l.server.Required && l.server.Enabled && !l.loaded {
			errs = append(errs, fmt.Errorf("%w: %q is %s (%s)", ErrRequired, l.server.Name, l.outcome.Status, l.outcome.Reason))
		}
	}
	return errors.Join(errs...)
}

// reportOf returns the report of l, except the totals of the catalog.
func (r *run) reportOf(l *serverRun) ServerReport {
	c := l.counts
	c.Name, c.Enabled, c.Required, c.Outcome, c.Before, c.Kept = l.server.Name, l.server.Enabled, l.server.Required, l.outcome, l.before, !l.loaded
	slices.SortFunc(c.News, func(a, b News) int { return a.ID.Compare(b.ID) })
	return c
}

// rate sets the tier and the findings of the items that the catalog has.
func (r *run) rate(l *serverRun, news []News) {
	for n, item := range news {
		i, ok := r.snap.Find(item.ID)
		if !ok {
			continue
		}
		tier := tool.Read
		if item.ID.Kind == tool.Tool {
			tier = l.server.Override(item.ID.Name, r.snap.Annotations(i)).Tier()
		}
		_, rev, _, _ := r.snap.ApprovalState(i)
		news[n].IsRated, news[n].Tier, news[n].Findings = rev >= item.Rev, tier, len(r.snap.Findings(i))
	}
}

// logRefused logs the refused definitions of a server, if they are not the same as before.
func (r *run) logRefused(ctx context.Context, l *serverRun) {
	refused := l.outcome.Refused
	if len(refused) == 0 || slices.Equal(refused, l.refusedBefore) {
		return
	}
	const most = 10
	names := make([]string, 0, most)
	for _, x := range refused[:min(most, len(refused))] {
		names = append(names, x.Name+": "+x.Reason)
	}
	r.o.Log.LogAttrs(ctx, slog.LevelWarn, "definitions refused",
		slog.String("server", l.server.Name), slog.Int("refused", len(refused)), slog.Any("first", names))
}

// finish completes the report, even if the run failed.
func (r *run) finish(ctx context.Context, err error) {
	rep := &r.report
	rep.StartedAt, rep.Duration = r.began, r.o.Now().Sub(r.began)
	for _, l := range r.servers {
		r.logRefused(ctx, l)
		c := r.reportOf(l)
		if r.snap != nil {
			s, _ := r.snap.Server(c.Name)
			c.Tools, c.Items = s.Tools, s.Items
			r.rate(l, c.News)
		}
		rep.Servers = append(rep.Servers, c)
		rep.New += c.New
		rep.Changed += c.Changed
		rep.NewItems += c.NewItems
		rep.ChangedItems += c.ChangedItems
	}
	if r.snap != nil {
		rep.Tools, rep.Items, rep.Snapshot, rep.Size = r.snap.Len(), r.snap.Items()-r.snap.Len(), r.snap.sha256, r.snap.Size()
	}
	if err != nil {
		r.keepFailure(ctx, rep.Failure(err))
		level := slog.LevelError
		if errors.Is(err, context.Canceled) { // the caller went away: the program ends
			level = slog.LevelInfo
		}
		r.o.Log.LogAttrs(ctx, level, "catalog not synced", text.Ms("duration", rep.Duration), slog.Any("error", err))
		return
	}
	level := slog.LevelInfo
	if r.named && !rep.Built { // servers may start many such runs
		level = slog.LevelDebug
	}
	r.o.Log.LogAttrs(ctx, level, "catalog synced",
		slog.Int("servers", len(rep.Servers)), slog.Int("tools", rep.Tools), slog.Int("new", rep.New), slog.Int("changed", rep.Changed),
		slog.Int("resting", rep.Resting), slog.Int("items", rep.Items), slog.Int("new_items", rep.NewItems), slog.Int("changed_items", rep.ChangedItems),
		slog.Bool("stored", rep.Stored), slog.Bool("superseded", rep.Superseded),
		slog.String("snapshot", rep.Snapshot), text.Ms("duration", rep.Duration))
}
