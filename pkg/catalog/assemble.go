package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// overlap is how far before the last catalog decisions are looked for: an index of a distributed store
// shows late what was written early, and functions have clocks of their own.
const overlap = 10 * time.Second

// Assemble makes the catalog of what callers of [Syncer.LoadServers] have found, and moves
// current.json to it. It reads what has changed since the last catalog alone; of the other servers the
// catalog stays as it is, but for what people have decided since. If nothing has changed nothing is
// written, but every four minutes the time in current.json. It asks no server, and may run twice at once: the one that ends last goes on from what the other has
// made. A required server that failed when it was last asked keeps the old catalog, with
// [ErrRequired].
func (s *Syncer) Assemble(ctx context.Context) (Report, error) {
	if err := s.enter(ctx); err != nil {
		return Report{}, err
	}
	defer s.leave()
	a, err := document.Retry(ctx, object.ErrConflict, func() (*assembly, error) {
		a := &assembly{run: s.newRun()}
		return a, a.assemble(ctx)
	})
	if err != nil {
		err = fmt.Errorf("assemble catalog: %w", err)
	}
	a.finish(ctx, err)
	return a.report, err
}

// An assembly is a run that asks no server.
type assembly struct {
	*run
	etags   map[string]string // of what was found, by key
	since   time.Time
	decided map[string]time.Time // when people decided about servers since then
	lost    bool                 // the store lost something, so every record is read
	news    bool                 // something has changed
}

func (a *assembly) assemble(ctx context.Context) error {
	for _, step := range []func(context.Context) error{a.readBase, a.readConfig, a.readNews, a.workAll, a.checkRequired} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if !a.news && !a.isOld() && a.prev.Failed == nil && a.base != nil && a.prev.Config == a.config.Version && a.report.Recovered == 0 &&
		len(a.base.servers) == len(a.lists) && !slices.ContainsFunc(a.lists, func(l *list) bool { return !l.same }) {
		return nil
	}
	if _, err := a.move(ctx); err != nil {
		return err
	}
	a.removeLeft(ctx)
	return nil
}

// readNews reads which objects there are, and what people have decided since the last catalog.
func (a *assembly) readNews(ctx context.Context) (err error) {
	if a.etags, err = a.objects.List(ctx, loadResultFolder); err != nil {
		return err
	}
	if !a.prev.StartedAt.IsZero() && !a.isAhead() {
		a.since = a.prev.StartedAt.Add(-inQueue)
	}
	if a.decided, err = a.run.decided(ctx, a.since); err != nil {
		return err
	}
	a.lost, err = a.storeLost(ctx)
	return err
}

// workAll takes what was found, one server after the other, many at once.
func (a *assembly) workAll(ctx context.Context) error {
	if err := a.readTaken(ctx, a.lists); err != nil {
		return err
	}
	p := newPipeline(ctx, a.work)
	for _, u := range a.group() {
		p.add(u)
	}
	if err := p.end(); err != nil {
		return err
	}
	a.reportLoss(ctx)
	return nil
}

// work finds out what the next catalog has of a unit's servers.
func (a *assembly) work(ctx context.Context, u *unit) error {
	// Of one that the last catalog does not have, the records say what it lists.
	read := a.lost || a.isAhead() || slices.ContainsFunc(u.lists, func(l *list) bool { return a.baseFor(l.server.Name) == nil })
	for _, name := range u.names {
		if !slices.ContainsFunc(u.lists, func(l *list) bool { return l.server.Name == name }) {
			read = true // it leaves the config: what the store lost of it is recovered now or never
		}
	}
	for _, l := range u.lists {
		f, err := a.find(ctx, l)
		if err != nil {
			return err
		}
		began := a.prev.StartedAt
		if f != nil {
			began = f.Began
			a.take(l, f)
			read = read || a.lacks(l)
		} else {
			a.keep(l)
		}
		// What was decided after the records were read is in the next catalog, or readers do not
		// learn of it: they ask for what was decided since.
		if at, ok := a.decided[l.server.Name]; ok && at.Add(overlap).After(began) || began.Before(a.since) {
			read = true
		}
	}
	if read {
		if err := u.readApprovals(ctx); err != nil {
			return err
		}
		if err := u.recoverLost(ctx); err != nil {
			return err
		}
	}
	for _, l := range u.lists {
		u.join(l, read)
	}
	u.records = nil
	return nil
}

// find returns what was found of l and the last catalog does not have; nil: nothing.
func (a *assembly) find(ctx context.Context, l *list) (*loadResult, error) {
	name := l.server.Name
	etag, ok := a.etags[loadResultKey(name)]
	held := a.baseFor(name) != nil
	if !ok || held && etag == a.known[name].Found {
		return nil, nil
	}
	f, _, err := a.readLoadResult(ctx, name)
	if err != nil || f == nil || f.Identity != l.key || held && !a.isNews(l, f) {
		return nil, err
	}
	return f, nil
}

// take goes on with what was found of l.
func (a *assembly) take(l *list, f *loadResult) {
	l.outcome, l.loaded, l.listed = f.Outcome, f.Outcome.Status == outcome.Available, f.Listed
	l.restored, l.forgot, l.rebuilt, l.since, l.etag = f.Restored, f.Forgotten, f.Rebuilt, f.Since, f.etag
	s, _ := f.catalog.Server(l.server.Name)
	l.tools = f.catalog.inputs(s)
	l.found = true
	a.mu.Lock()
	defer a.mu.Unlock()
	a.news = true
	for _, key := range f.Baselines {
		a.taken[key] = true
	}
}

// lacks reports whether the records that were found with l's tools are older than those of the last
// catalog, or gone: who found them goes on from what it found before, so it does not know that a store was set
// back to a time between that and the catalog.
func (a *assembly) lacks(l *list) bool {
	base := a.baseFor(l.server.Name)
	if base == nil {
		return false
	}
	found := make(map[tool.ID]*approval.Record, len(l.tools))
	for _, t := range l.tools {
		found[t.Definition.ID(l.server.Name)] = t.Record
	}
	s, _ := base.Server(l.server.Name)
	for i := range s.Numbers() {
		if base.Lost(i, found[base.ID(i)]) {
			return true
		}
	}
	return false
}

// keep leaves l as the last catalog has it. How a server answered at another URL says nothing of this one.
func (a *assembly) keep(l *list) {
	k := a.known[l.server.Name]
	if k.Identity != "" && k.Identity != l.key {
		l.outcome, k.Since = outcome.Outcome{}, time.Time{}
	}
	l.loaded = l.outcome.Status == outcome.Available
	l.restored, l.forgot, l.since, l.etag = k.Restored, k.Forgotten, k.Since, k.Found
	l.rebuilt = slices.Contains(a.prev.Rebuilt, l.server.Name)
}

// join settles what the next catalog has of l. With read the unit's records are as the store has
// them now; else they are as they were found.
func (u *unit) join(l *list, read bool) {
	name := l.server.Name
	base := u.baseFor(name)
	if !l.found {
		switch {
		case base != nil:
			s, _ := base.Server(name)
			l.tools = base.inputs(s)
		default:
			l.loaded = false
			l.tools = u.fromRecords(l)
			l.rebuilt = l.server.Enabled && len(l.tools) > 0
		}
	}
	if read {
		for i, t := range l.tools {
			l.tools[i].Record = u.records[t.Definition.ID(name)]
		}
		l.restored = u.restored(name)
		unknown, all := u.unknown(name)
		l.forgot = l.forgot && (unknown > 0 || all == 0)
	}
	l.input = ServerInput{Name: name, Enabled: l.server.Enabled, Tools: l.tools}
	l.tools = nil
	if base == nil {
		return
	}
	s, ok := base.Server(name)
	l.same = ok && s.Enabled == l.server.Enabled && base.hasAll(s, l.input.Tools)
	if !l.same && l.found {
		l.counts.Gone, l.counts.GoneItems = base.gone(s, l.input.Tools)
	}
	if l.same {
		l.input = ServerInput{}
	}
}

// hasAll reports whether the catalog has these tools and other items of s, with these records, and
// no others.
func (s *Snapshot) hasAll(of Server, tools []ToolInput) bool {
	if of.Tools+of.Items != len(tools) {
		return false
	}
	for _, t := range tools {
		n, ok := s.Find(t.Definition.ID(of.Name))
		if !ok || !s.same(n, t.Definition) || !s.recorded(n, t.Record) {
			return false
		}
	}
	return true
}

// gone counts the tools, and the other items, that the catalog has of s and that are not among these.
func (s *Snapshot) gone(of Server, tools []ToolInput) (gone, goneItems int) {
	now := make(map[tool.ID]bool, len(tools))
	for _, t := range tools {
		now[t.Definition.ID(of.Name)] = true
	}
	for i := range of.Numbers() {
		switch id := s.ID(i); {
		case now[id]:
		case id.Kind == tool.Tool:
			gone++
		default:
			goneItems++
		}
	}
	return gone, goneItems
}

// removeLeft removes what was found of servers that left the config. What was decided about them is
// in their records. If that fails the next assembly tries again.
func (a *assembly) removeLeft(ctx context.Context) {
	wanted := map[string]bool{}
	for _, l := range a.lists {
		wanted[loadResultKey(l.server.Name)], wanted[loadResultKey(l.from)] = true, true
	}
	for key := range a.etags {
		if isLoadResultKey(key) && !wanted[key] {
			_ = a.objects.Delete(ctx, key)
		}
	}
}
