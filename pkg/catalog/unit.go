package catalog

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A unit is a group of servers that a run loads and compares together, usually one server. Servers
// whose records depend on each other are in one unit: the names of one URL, the two names of a
// renamed server, and servers at a URL that had another name. The order of units does not matter.
type unit struct {
	*run
	servers []*serverRun // the configured servers, in the order of the config
	names   []string     // of servers whose records count here, even outside the config
	waits   int          // loads that have not ended
	done    bool         // its lists were compared with the last catalog

	batchWriter *batchWriter // writes for the unit, while it is loaded

	bases       map[string]*Snapshot  // by name, from load results; see [unit.baseOf]
	loadResults map[string]loadResult // all of them, even if not in bases

	records     map[tool.ID]*approval.Record // newest version; nil: not read
	recordsMark string                       // mark of the records read last: see [approval.Store]
	mine        sync.Mutex                   // guards records, their mark, and the counts of lists
}

// group returns the units of the run, those with configured servers first, in the order
// of the config.
func (r *run) group() []*unit {
	r.linkNames()
	units := map[string]*unit{} // by name
	unitOf := func(name string) *unit {
		if units[name] == nil {
			units[name] = &unit{run: r, names: []string{name}}
		}
		return units[name]
	}
	first := map[string]string{} // the first name of each place
	for _, l := range r.servers {
		first[l.place] = cmp.Or(first[l.place], l.server.Name)
		u := unitOf(first[l.place])
		for _, name := range append(slices.Clip(l.others), l.server.Name) {
			if other := unitOf(name); other != u {
				u.names = append(u.names, other.names...)
				for _, name := range other.names {
					units[name] = u
				}
			}
		}
	}
	var all []*unit
	for _, l := range r.servers {
		l.unit = units[l.server.Name]
		if l.unit.servers == nil {
			all = append(all, l.unit)
		}
		l.unit.servers = append(l.unit.servers, l)
	}
	// A server that left the config is not in the next catalog, so its lost records are recovered
	// now.
	if r.base != nil {
		for _, s := range r.base.servers {
			if units[s.Name] == nil {
				all = append(all, unitOf(s.Name))
			}
		}
	}
	return all
}

// load updates the records of the unit with the answers of its servers, and compares the servers
// with the last catalog.
func (u *unit) load(ctx context.Context) error {
	u.done = true
	if same, err := u.isUnchanged(ctx); same || err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{u.readApprovals, u.recoverLost, u.observe} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	for _, l := range u.servers {
		u.complete(l)
		u.compare(l, true)
	}
	u.records = nil
	return nil
}

// readApprovals reads the records of the unit's names. It does not use the catalog's copy, which
// differs if the store was restored from a backup.
func (u *unit) readApprovals(ctx context.Context) error {
	if u.records != nil { // isUnchanged has read them
		return nil
	}
	u.records = map[tool.ID]*approval.Record{}
	return u.each(ctx, slices.Values(u.names), func(ctx context.Context, name string) error {
		return u.readRecords(ctx, name, "")
	})
}

// each works like the function [each]. In addition it obeys the limit of the whole run for calls at
// the same time.
func (r *run) each(ctx context.Context, n iter.Seq[string], do func(context.Context, string) error) error {
	return each(ctx, n, func(ctx context.Context, s string) error { return r.inTurn(ctx, func() error { return do(ctx, s) }) })
}

// inTurn waits until the run makes fewer calls to the store than the maximum, and then calls the
// function do.
func (r *run) inTurn(ctx context.Context, do func() error) error {
	r.pause(ctx)
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
		return do()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pause lets requests run first, if the process answers requests.
func (s *Syncer) pause(ctx context.Context) {
	if s.o.Yield != nil {
		s.o.Yield(ctx)
	}
}

// recoverLost restores the records of the unit that the last catalog has and the store lost.
func (u *unit) recoverLost(ctx context.Context) error {
	type lost struct {
		base *Snapshot
		item int
		held *approval.Record // the store's record
	}
	var due []lost
	for _, name := range u.names {
		base := u.baseOf(name)
		if base == nil {
			continue
		}
		s, _ := base.Server(name)
		for i := range s.Numbers() {
			if held := u.records[base.ID(i)]; base.IsLost(i, held) {
				due = append(due, lost{base, i, held})
			}
		}
	}
	if len(due) == 0 {
		return nil
	}
	err := each(ctx, slices.Values(due), func(ctx context.Context, l lost) error {
		return u.inTurn(ctx, func() error {
			after, err := Recover(ctx, u.approvals, l.base, l.item, l.held, u.o.Now)
			if err == nil {
				u.wrote(after)
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.baselines) // the store may have lost the baselines too
	u.report.Recovered += len(due)
	return nil
}

// baseOf returns the catalog with the server's last known state; nil: none is usable.
func (u *unit) baseOf(name string) *Snapshot {
	if base := u.bases[name]; base != nil {
		return base
	}
	return u.baseFor(name)
}

// complete adds to l's tools the last known items of lists that could not be read. If the last
// catalog has the same items, l uses the catalog's items.
func (u *unit) complete(l *serverRun) {
	l.rebuilt = l.server.Enabled && !l.loaded && slices.Contains(u.prev.Rebuilt, l.server.Name)
	if l.since.IsZero() {
		l.since = u.began
	}
	if !l.loaded {
		return
	}
	name, base := l.server.Name, u.baseOf(l.server.Name)
	l.listed = len(l.tools) > 0
	if base != nil && base.lists(name, l.tools, l.unread(base)) {
		l.tools, l.found = nil, false
		return
	}
	l.since, l.found = u.began, true
	if len(l.outcome.Unread) == 0 {
		return
	}
	before := u.fromRecords(l)
	if base != nil {
		before = base.inputs(name)
	}
	listed := recordsOf(name, l.tools)
	for _, t := range before {
		if _, ok := listed[t.Definition.ID(name)]; !ok && !l.outcome.Read(t.Definition) {
			l.tools = append(l.tools, t)
		}
	}
}

// afterLoss stores the baselines of the loaded servers again, if the run has found that the store
// lost records. The store may have lost baselines too.
func (r *run) afterLoss(ctx context.Context) error {
	if names := r.forgotten(); r.damaged && len(names) > 0 {
		r.o.Log.LogAttrs(ctx, slog.LevelError, "store and catalog lost what was decided; items are locked until a person decides", slog.Any("servers", names))
	}
	if r.report.Recovered == 0 {
		return nil
	}
	r.o.Log.LogAttrs(ctx, slog.LevelError,
		"the approval store had lost records; "+
			"they are back from the catalog, the stricter of two versions each",
		slog.Int("records", r.report.Recovered))
	var due []approval.Baseline
	for _, l := range r.servers {
		if !l.loaded {
			continue
		}
		_, more, err := r.firstLists(ctx, l, l.kinds, true)
		if err != nil {
			return err
		}
		due = append(due, more...)
	}
	return r.putBaselines(ctx, due)
}
