package catalog

import (
	"context"
	"fmt"
	"slices"
)

// A LoadReport says what [Syncer.LoadServers] found and did.
type LoadReport struct {
	Servers   []ServerReport // of those that were asked, by name; without totals of the catalog
	Skipped   []string       // were asked in this round already, or are not configured
	Unasked   int            // servers that there was no time to ask, or to hear out; nothing was stored of them
	Put       int            // objects that were stored
	Recovered int            // records that the store had lost, and that are back
}

// previousLoad is what was found of a server before.
type previousLoad struct {
	found *loadResult // nil: nothing that can be used
	etag  string
}

// LoadServers asks servers for their lists, as one of many callers that share a round, writes their records
// and stores what it found of each for [Syncer.Assemble]. A server whose records say something of
// others (another name of one URL) is asked together with those, so that the rules for them hold as in
// one sync. It needs no catalog, but where nothing was found of a server before.
//
// A call that is repeated, comes late or is interrupted does no harm: what was asked in this round or
// a later one is skipped, records are written under conditions, and what was not stored is still due. A server that fails
// is no error; an error means that a store failed or that ctx ended, and that the call is to be
// repeated, as it is with servers Unasked.
func (s *Syncer) LoadServers(ctx context.Context, run Run, names []string) (LoadReport, error) {
	if err := s.enter(ctx); err != nil {
		return LoadReport{}, err
	}
	defer s.leave()
	r := s.newRun()
	r.readOnly = true
	err := r.loadNamed(ctx, run, names)
	if err != nil {
		err = fmt.Errorf("load servers: %w", err)
	}
	report := LoadReport{Unasked: r.report.Unasked, Put: r.put, Recovered: r.report.Recovered}
	isAsked := map[string]bool{}
	for _, l := range r.queued() {
		isAsked[l.server.Name] = true
		report.Servers = append(report.Servers, r.reportOf(l))
	}
	report.Skipped = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return isAsked[name] })
	return report, err
}

// loadNamed loads the units that have the named servers, without those that were loaded in this round.
func (r *run) loadNamed(ctx context.Context, round Run, names []string) error {
	if err := r.readCurrent(ctx); err != nil {
		return err
	}
	if err := r.readConfig(ctx); err != nil {
		return err
	}
	units, missing := r.unitsOf(names), false
	for _, u := range units {
		if err := u.readLoadResults(ctx); err != nil {
			return err
		}
		if !slices.ContainsFunc(u.lists, func(l *list) bool {
			return slices.Contains(names, l.server.Name) && !u.isLoaded(l.server.Name, round)
		}) {
			u.done = true
			for _, l := range u.lists {
				l.isQueued = false
			}
			continue
		}
		for _, name := range u.names {
			_, ok := r.known[name]
			missing = missing || ok && u.bases[name] == nil
		}
	}
	if missing {
		if err := r.readBase(ctx); err != nil {
			return err
		}
	}
	if err := r.readTaken(ctx, r.queued()); err != nil {
		return err
	}
	units = slices.DeleteFunc(units, func(u *unit) bool { return u.done })
	if err := r.load(ctx, units, (*unit).loadAndStore); err != nil {
		return err
	}
	return r.afterLoss(ctx)
}

// isLoaded reports whether the server was loaded in this round or a later one. What is of a time to come
// was found when a clock was ahead.
func (u *unit) isLoaded(name string, round Run) bool {
	f := u.loadResults[name].found
	return f != nil && !f.Began.Before(round.Began) && !f.Began.After(u.began)
}

// readLoadResults reads what was found of the unit's servers before: the unit goes on from that.
func (u *unit) readLoadResults(ctx context.Context) error {
	u.loadResults, u.bases = map[string]previousLoad{}, map[string]*Snapshot{}
	err := u.each(ctx, slices.Values(u.names), func(ctx context.Context, name string) error {
		f, etag, err := u.readLoadResult(ctx, name)
		if err != nil {
			return err
		}
		u.mine.Lock()
		defer u.mine.Unlock()
		u.loadResults[name] = previousLoad{f, etag}
		if f != nil && u.isBase(f) {
			u.bases[name] = f.catalog
		}
		return nil
	})
	for _, l := range u.lists {
		if f := u.loadResults[l.server.Name].found; f != nil && u.bases[f.Name] != nil && f.Identity == l.key {
			l.outcome, l.before, l.since = f.Outcome, f.Outcome.Status, f.Since
			u.noteBaselines(f)
		}
	}
	return err
}

// loadAndStore is load, and stores what was found of the servers that have answered.
func (u *unit) loadAndStore(ctx context.Context) error {
	if err := u.load(ctx); err != nil {
		return err
	}
	for _, l := range u.lists {
		if l.counts.Unasked {
			continue
		}
		put, err := u.put(ctx, l)
		if err != nil {
			return err
		}
		if l.input = (ServerInput{}); put {
			u.mu.Lock()
			u.run.put++
			u.mu.Unlock()
		}
	}
	return nil
}
