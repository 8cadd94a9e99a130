package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
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
	w := worker{run: r, round: run}
	err := w.load(ctx, names)
	if err != nil {
		err = fmt.Errorf("load servers: %w", err)
	}
	for _, u := range w.units {
		for _, l := range u.lists {
			w.report.Servers = append(w.report.Servers, r.reportOf(l))
		}
	}
	slices.SortFunc(w.report.Servers, func(a, b ServerReport) int { return strings.Compare(a.Name, b.Name) })
	w.report.Unasked, w.report.Recovered = r.report.Unasked, r.report.Recovered
	return w.report, err
}

// A worker is what one of many callers does of a round.
type worker struct {
	*run
	round  Run
	units  []*unit
	report LoadReport
}

func (w *worker) load(ctx context.Context, names []string) error {
	if err := w.readCurrent(ctx); err != nil {
		return err
	}
	w.readOnly = true
	if err := w.readConfig(ctx); err != nil {
		return err
	}
	if err := w.choose(ctx, names); err != nil {
		return err
	}
	var lists []*list
	for _, u := range w.units {
		lists = append(lists, u.lists...)
	}
	if err := w.readTaken(ctx, lists); err != nil {
		return err
	}
	p := newPipeline(ctx, w.work)
	loaded := w.readServers(ctx, p, w.units)
	if err := p.end(); err != nil {
		return err
	}
	if loaded != nil {
		return loaded
	}
	return w.afterLoss(ctx)
}

// choose finds the units that have the named servers, without those that were asked in this round.
func (w *worker) choose(ctx context.Context, names []string) error {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	for _, u := range w.group() {
		var mine []string
		for _, l := range u.lists {
			if wanted[l.server.Name] {
				mine = append(mine, l.server.Name)
				delete(wanted, l.server.Name)
			}
		}
		if len(mine) == 0 {
			continue
		}
		if err := w.readLoadResults(ctx, u); err != nil {
			return err
		}
		if !slices.ContainsFunc(mine, func(name string) bool { return !u.isDone(name, w.round) }) {
			w.report.Skipped = append(w.report.Skipped, mine...)
			continue
		}
		w.units = append(w.units, u)
	}
	for _, name := range names {
		if wanted[name] {
			delete(wanted, name)
			w.report.Skipped = append(w.report.Skipped, name)
		}
	}
	return w.readMissing(ctx)
}

// isDone reports whether the server was asked in this round or a later one. What is of a time to come
// was found when a clock was ahead.
func (u *unit) isDone(name string, round Run) bool {
	f := u.loadResults[name].found
	return f != nil && !f.Began.Before(round.Began) && !f.Began.After(u.began)
}

// readLoadResults reads what was found of the unit's servers before: it is what the unit goes on
// from.
func (w *worker) readLoadResults(ctx context.Context, u *unit) error {
	u.loadResults, u.bases = map[string]previousLoad{}, map[string]*Snapshot{}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxWriters)
	for _, name := range u.names {
		g.Go(func() error {
			f, etag, err := w.readLoadResult(ctx, name)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			u.loadResults[name] = previousLoad{f, etag}
			if f != nil && w.isBase(f) {
				u.bases[name] = f.catalog
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, l := range u.lists {
		if f := u.loadResults[l.server.Name].found; f != nil && u.bases[f.Name] != nil && f.Identity == l.key {
			l.outcome, l.before, l.since = f.Outcome, f.Outcome.Status, f.Since
			w.mu.Lock()
			for _, key := range f.Baselines {
				w.taken[key] = true
			}
			w.mu.Unlock()
		}
	}
	return nil
}

// readMissing reads the catalog, if it knows a server of which nothing was found before.
func (w *worker) readMissing(ctx context.Context) error {
	for _, u := range w.units {
		for _, name := range u.names {
			if _, ok := w.known[name]; ok && u.bases[name] == nil {
				return w.readBase(ctx)
			}
		}
	}
	return nil
}

// work is what is done with a unit whose servers were heard.
func (w *worker) work(ctx context.Context, u *unit) error {
	if err := u.work(ctx); err != nil {
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
			w.mu.Lock()
			w.report.Put++
			w.mu.Unlock()
		}
	}
	return nil
}
