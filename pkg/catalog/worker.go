package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// A LoadReport says what [Syncer.Work] found and did.
type LoadReport struct {
	Servers   []ServerReport // loaded servers, by name; without totals of the catalog
	Skipped   []string       // servers already loaded in this round, or not configured
	Unasked   int            // servers that had no time to answer; no result of them was stored
	Put       int            // objects that were stored
	Recovered int            // restored records that the store had lost
}

// ErrUnasked says that there was no time for all servers of a message. The queue has to deliver the
// message again.
var ErrUnasked = errors.New("there was no time to ask all servers")

// Work loads the servers that a message names, as one of many processes that share a round: it
// requests their lists, writes their records, stores a load result of each server for
// [Syncer.Assemble], and requests an assembly. Servers of one unit, such as two names of one URL,
// are loaded together, so that the same rules hold as in one process. Work reads the catalog only
// if a server has no earlier load result.
//
// An error means that the queue has to deliver the message again. A repeated, late or interrupted
// message does no harm: Work skips servers that were loaded in this round or a later one, and
// writes records conditionally. A server without a stored result is still due. A server that fails
// is no error.
func (s *Syncer) Work(ctx context.Context, q Queues, j Job) (LoadReport, error) {
	if len(j.Servers) == 0 {
		return LoadReport{}, fmt.Errorf("%w: it names no server", ErrJob)
	}
	report, err := s.loadServers(ctx, j.Round, j.Servers)
	if err == nil && report.Unasked > 0 {
		err = fmt.Errorf("%w: %d of %d were not", ErrUnasked, report.Unasked, len(j.Servers))
	}
	if err != nil && report.Put == 0 {
		return report, err
	}
	// A repeated message requests an assembly, too: the earlier process may have ended before its
	// request.
	return report, errors.Join(err, s.askAssembly(ctx, q, j.Round))
}

func (s *Syncer) loadServers(ctx context.Context, round Round, names []string) (LoadReport, error) {
	if err := s.enter(ctx); err != nil {
		return LoadReport{}, err
	}
	defer s.leave()
	r := s.newRun()
	r.readOnly = true
	err := r.loadNamed(ctx, round, names)
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

// loadNamed loads the units that have the named servers, without those that were loaded in this
// round.
func (r *run) loadNamed(ctx context.Context, round Round, names []string) error {
	if err := r.readCurrent(ctx); err != nil {
		return err
	}
	if err := r.readConfig(ctx); err != nil {
		return err
	}
	r.named = true
	units, missing := r.unitsOf(names), false
	for _, u := range units {
		if err := u.readLoadResults(ctx); err != nil {
			return err
		}
		if !slices.ContainsFunc(u.servers, func(l *serverRun) bool {
			return slices.Contains(names, l.server.Name) && !u.isLoaded(l.server.Name, round)
		}) {
			u.done = true
			for _, l := range u.servers {
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

// isLoaded reports whether the server was loaded in this round or a later one. A result with a time
// in the future comes from a clock that was ahead, and does not count.
func (u *unit) isLoaded(name string, round Round) bool {
	f := u.loadResults[name]
	return f.catalog != nil && !f.Began.Before(round.Began) && !f.Began.After(u.began)
}

// readLoadResults reads the earlier load results of the unit's servers. The unit compares the new
// lists with these results.
func (u *unit) readLoadResults(ctx context.Context) error {
	u.loadResults, u.bases = map[string]loadResult{}, map[string]*Snapshot{}
	err := u.each(ctx, slices.Values(u.names), func(ctx context.Context, name string) error {
		f, err := u.readLoadResult(ctx, name)
		if err != nil {
			return err
		}
		u.mine.Lock()
		defer u.mine.Unlock()
		u.loadResults[name] = f
		if f.catalog != nil && u.isBase(f) {
			u.bases[name] = f.catalog
		}
		return nil
	})
	for _, l := range u.servers {
		if f := u.loadResults[l.server.Name]; u.bases[f.Name] != nil && f.Identity == l.key {
			l.outcome, l.before, l.since = f.Outcome, f.Outcome.Status, f.Since
			u.noteBaselines(f)
		}
	}
	return err
}

// loadAndStore loads the unit, and stores the load results of the servers that answered.
func (u *unit) loadAndStore(ctx context.Context) error {
	if err := u.load(ctx); err != nil {
		return err
	}
	for _, l := range u.servers {
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
