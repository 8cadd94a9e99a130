package catalog

import (
	"context"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// overlap is how far before the last catalog a sync looks for decisions. The index of a distributed
// store can be late, and each function has its own clock.
const overlap = 10 * time.Second

// Assemble makes the catalog from the load results of [Syncer.Work], and moves current.json to it.
// It reads only results and decisions that are newer than the last catalog; the other servers stay
// as they are. If nothing has changed, Assemble writes only the time in current.json, every four
// minutes. Assemble calls no server. Two assemblies may run at the same time: the assembly that
// ends last continues from the catalog of the other assembly. If the last load of a required server
// failed, Assemble keeps the old catalog and returns [ErrRequired].
func (s *Syncer) Assemble(ctx context.Context) (Report, error) {
	if err := s.enter(ctx); err != nil {
		return Report{}, err
	}
	defer s.leave()
	return s.run(ctx, "assemble catalog", (*run).readFound)
}

// readFound lists the stored load results, and reads the decisions of people since the last
// catalog.
func (r *run) readFound(ctx context.Context) (err error) {
	if r.found, err = r.objects.List(ctx, loadResultFolder); err != nil {
		return err
	}
	if r.decided, err = r.decidedSince(ctx, inQueue); err != nil {
		return err
	}
	if r.readAll, err = r.storeLost(ctx); err != nil {
		return err
	}
	return r.readTaken(ctx, r.servers)
}

// assemble makes the catalog from the load results, stores it and moves current.json to it. If
// another sync has moved current.json, assemble continues from the new catalog, unless the other
// sync began later.
func (r *run) assemble(ctx context.Context) error {
	built := ""
	_, err := document.Retry(ctx, object.ErrConflict, func() (_ string, err error) {
		if built != "" {
			if stays, err := r.goOnFromOther(ctx, built); stays || err != nil {
				return "", err
			}
		}
		if err := r.compareAll(ctx); err != nil {
			return "", err
		}
		if err := r.checkRequired(); err != nil || r.found != nil && !r.hasNews() {
			return "", err
		}
		if built, err = r.publish(ctx); err == nil && r.found != nil {
			r.removeLeft(ctx)
		}
		return "", err
	})
	return err
}

// compareAll compares the units that this run has not loaded, including servers that left the
// config.
func (r *run) compareAll(ctx context.Context) error {
	p := newPipeline(ctx, (*unit).assemble)
	for _, u := range r.units {
		if !u.done {
			p.add(u)
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	return r.afterLoss(ctx)
}

// hasNews reports whether an assembly must write: because something has changed, or because the
// time in current.json is due for an update.
func (r *run) hasNews() bool {
	return r.base == nil || r.needsCatalog() || r.report.Recovered > 0 ||
		len(r.base.servers) != len(r.servers) ||
		slices.ContainsFunc(r.servers, func(l *serverRun) bool {
			return !l.input.Same || l.etag != r.known[l.server.Name].Found
		})
}

// assemble compares the unit's servers with the last catalog.
func (u *unit) assemble(ctx context.Context) error {
	read := u.readAll || u.isAhead()
	for _, name := range u.names {
		// A server that left the config is not in the next catalog, so its lost records are
		// recovered now.
		isOf := func(l *serverRun) bool { return l.server.Name == name }
		read = read || !slices.ContainsFunc(u.servers, isOf)
	}
	for _, l := range u.servers {
		at, err := u.take(ctx, l)
		if err != nil {
			return err
		}
		// Readers read only decisions that are newer than the catalog. So the next catalog must
		// have the decisions that people made after the worker read the records. For a server that
		// the last catalog does not have, the records say what it lists.
		decided, ok := u.decided[l.server.Name]
		read = read || ok && decided.Add(overlap).After(at) ||
			at.Before(u.prev.StartedAt.Add(-inQueue)) ||
			u.baseFor(l.server.Name) == nil || l.found && u.lostSince(l)
	}
	if read {
		if err := u.readApprovals(ctx); err != nil {
			return err
		}
		if err := u.recoverLost(ctx); err != nil {
			return err
		}
	}
	for _, l := range u.servers {
		u.compare(l, read)
	}
	u.records = nil
	return nil
}

// take fills l from its stored load result or, without news, from the last catalog. It returns the
// time at which its records were read.
func (u *unit) take(ctx context.Context, l *serverRun) (time.Time, error) {
	name := l.server.Name
	if l.isQueued { // this run has loaded it, and another sync has moved the catalog since
		u.complete(l)
		return u.prev.StartedAt, nil
	}
	f, err := u.readNews(ctx, l)
	if err != nil || f.catalog == nil {
		u.keep(l)
		return u.prev.StartedAt, err
	}
	l.outcome, l.loaded, l.listed = f.Outcome, f.Outcome.Status == outcome.Available, f.Listed
	l.restored, l.forgot, l.rebuilt, l.since, l.etag = f.Restored, f.Forgotten, f.Rebuilt, f.Since, f.etag
	l.tools, l.found = f.catalog.inputs(name), true
	u.noteBaselines(f)
	return f.Began, nil
}

// readNews returns the load result of l if the last catalog does not have it. A result without a
// catalog means that there is no news.
func (r *run) readNews(ctx context.Context, l *serverRun) (f loadResult, err error) {
	if r.found == nil {
		return f, nil
	}
	name := l.server.Name
	known, etag := r.known[name], r.found[loadResultKey(name)]
	isNew := r.baseFor(name) == nil
	if etag == "" || !isNew && etag == known.Found {
		return f, nil
	}
	if f, err = r.readLoadResult(ctx, name); err != nil {
		return f, err
	}
	if known.Found != "" {
		isNew = isNew || f.etag != known.Found
	} else {
		// If a sync in one process made the catalog, an earlier load result is older than the
		// catalog. But an assembly may have made the catalog without f. Then f began after the
		// catalog, or a failed assembly noted f's outcome, so that both outcomes have the same
		// time.
		isNew = isNew || f.Began.After(r.prev.StartedAt) ||
			!f.Outcome.CheckedAt.Before(l.outcome.CheckedAt)
	}
	if f.Identity != l.key || !isNew {
		return loadResult{}, nil
	}
	return f, nil
}

// keep gives l its state in the last catalog. An outcome at another URL does not count for this
// URL.
func (r *run) keep(l *serverRun) {
	k := r.known[l.server.Name]
	l.outcome = r.outcomes[l.server.Name]
	if k.Identity != "" && k.Identity != l.key {
		l.outcome, k.Since = outcome.Outcome{}, time.Time{}
	}
	l.loaded = l.outcome.Status == outcome.Available
	l.restored, l.forgot, l.since, l.etag = k.Restored, k.Forgotten, k.Since, k.Found
	l.rebuilt = slices.Contains(r.prev.Rebuilt, l.server.Name)
}

// lostSince reports whether the records in l's load result are older than the records in the last
// catalog, or missing. A worker starts from its earlier load result, so it cannot see that the
// store was set back after that load.
func (u *unit) lostSince(l *serverRun) bool {
	base := u.baseFor(l.server.Name)
	s, _ := base.Server(l.server.Name)
	found := recordsOf(l.server.Name, l.tools)
	for i := range s.Numbers() {
		if base.IsLost(i, found[base.ID(i)]) {
			return true
		}
	}
	return false
}

// compare sets l.input, and checks whether the last catalog has the same input. If read is set,
// compare uses the records that the unit read from the store, otherwise the records of the load
// result.
func (u *unit) compare(l *serverRun, read bool) {
	name, base, records := l.server.Name, u.baseOf(l.server.Name), u.records
	if !l.found && base == nil {
		l.loaded = false
		l.tools, l.found = u.fromRecords(l), true
		l.rebuilt = l.server.Enabled && len(l.tools) > 0
	}
	switch {
	case read:
		restored, unknown, all := u.countLost(name)
		l.restored, l.forgot = restored, l.forgot && (unknown > 0 || all == 0)
	case l.found:
		records = recordsOf(name, l.tools)
	}
	l.counts.Gone, l.counts.GoneItems = 0, 0
	l.input = ServerInput{Name: name, Enabled: l.server.Enabled, Tools: l.tools}
	l.tools = nil
	if base != nil {
		s, ok := base.Server(name)
		l.input.Same = ok && s.Enabled == l.server.Enabled &&
			(!l.found || base.lists(name, l.input.Tools, 0)) &&
			(!read && !l.found || base.hasRecords(name, records))
		switch {
		case l.input.Same:
			l.input.Tools = nil
			u.cacheServer(l)
			return
		case l.found:
			l.counts.Gone, l.counts.GoneItems = base.countGone(s, l.input.Tools)
		default:
			l.input.Tools = base.inputs(name)
		}
	}
	for i, t := range l.input.Tools {
		if read {
			l.input.Tools[i].Record = records[t.Definition.ID(name)]
		}
	}
}

// recordsOf returns the records of a server's tools and other items.
func recordsOf(server string, tools []ToolInput) map[tool.ID]*approval.Record {
	of := make(map[tool.ID]*approval.Record, len(tools))
	for _, t := range tools {
		of[t.Definition.ID(server)] = t.Record
	}
	return of
}

// countGone counts the tools and the other items of s in the catalog that are missing in tools.
func (s *Snapshot) countGone(of Server, tools []ToolInput) (gone, goneItems int) {
	now := recordsOf(of.Name, tools)
	for i := range of.Numbers() {
		id := s.ID(i)
		if _, ok := now[id]; ok {
			continue
		}
		if id.Kind == tool.Tool {
			gone++
		} else {
			goneItems++
		}
	}
	return gone, goneItems
}

// removeLeft removes the load results of servers that left the config. The decisions about these
// servers are in their records. If a removal fails, the next assembly tries again.
func (r *run) removeLeft(ctx context.Context) {
	wanted := map[string]bool{}
	for _, l := range r.servers {
		wanted[loadResultKey(l.server.Name)], wanted[loadResultKey(l.from)] = true, true
	}
	for key := range r.found {
		if isLoadResultKey(key) && !wanted[key] {
			_ = r.objects.Delete(ctx, key)
		}
	}
}
