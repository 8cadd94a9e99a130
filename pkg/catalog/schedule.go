package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
)

const (
	// pollLeast and pollMost are the shortest and the longest time between two loads of a server by
	// scheduled syncs. The time doubles in steps: a server without changes for an hour is loaded
	// every ten minutes, and after eight hours every hour.
	pollLeast = 5 * time.Minute
	pollMost  = time.Hour

	// pollShare sets the steps: a sync sees a change after at most a sixth of the time for which
	// the server was unchanged, or an hour.
	pollShare = 6

	// early is how much earlier a sync may load a server: schedules are not exact.
	early = 30 * time.Second

	// inQueue is how long a server counts as queued after a plan sent it, if no worker stores a
	// result.
	inQueue = 15 * time.Minute

	// confirmAge is the age at which an assembly confirms an unchanged catalog: it writes the time
	// into current.json.
	confirmAge = 4 * time.Minute
)

// pollInterval returns the time between two loads of a server that was unchanged for this long. ttl
// is the TTL that the server gives for its lists, and least the shortest interval.
func pollInterval(least, unchanged, ttl time.Duration) time.Duration {
	d, most := least, least*(pollMost/pollLeast)
	for d < most && 2*d*pollShare <= unchanged {
		d *= 2
	}
	return min(max(d, ttl), most)
}

// isDue reports whether a scheduled sync loads the server. planned has the times at which servers
// were sent to workers; nil: this run loads them.
func (r *run) isDue(l *serverRun, planned map[string]time.Time) bool {
	at, ok := planned[l.server.Name]
	switch {
	case !l.server.Enabled:
		return r.began.Sub(at).Abs() >= pollMost
	case ok && !at.After(r.began) && r.began.Sub(at) < inQueue && l.outcome.CheckedAt.Before(at):
		return false // a worker is loading the server
	case l.outcome.Status == "", r.prev.Config != r.config.Version,
		l.outcome.CheckedAt.After(r.began):
		return true
	case failed(l):
		return planned == nil || !r.isFresh(l, r.o.Rest) // a planner may run more often than Rest
	}
	return r.isForced(l) || !r.isFresh(l, r.restOf(l))
}

// isForced reports whether a server is loaded regardless of how long it was unchanged: people have
// decided about it, its tools come from records or cannot be read, or it is a program, which would
// end if no sync used it.
func (r *run) isForced(l *serverRun) bool {
	_, decided := r.decided[l.server.Name]
	return decided || l.server.Command != nil || slices.Contains(r.prev.Rebuilt, l.server.Name) ||
		r.base != nil && r.base.misses(l.server.Name)
}

// restOf returns the time until the next load of the server.
func (r *run) restOf(l *serverRun) time.Duration {
	k := r.known[l.server.Name]
	if k.Since.IsZero() || k.Identity != l.key || k.From != "" || len(l.outcome.Unread) > 0 {
		return r.o.Rest
	}
	return pollInterval(r.o.Rest, l.outcome.CheckedAt.Sub(k.Since), l.outcome.ListTTL)
}

// isFresh reports whether the last load of the server was less than wait ago, minus the tolerance
// of schedules.
func (r *run) isFresh(l *serverRun, wait time.Duration) bool {
	return r.began.Before(l.outcome.CheckedAt.Add(wait - min(early, wait/10)))
}

// dueServers returns the names of the servers that are due, or of all servers if all is set, in
// loading order. Disabled servers come last; only their records are read.
func (r *run) dueServers(all bool, planned map[string]time.Time) (names []string) {
	asked, _ := inOrder(r.servers)
	for _, l := range r.servers {
		if !l.server.Enabled {
			asked = append(asked, l)
		}
	}
	for _, l := range asked {
		if all || r.isDue(l, planned) {
			names = append(names, l.server.Name)
		}
	}
	return names
}

// loadDue loads all servers if all is set, the named servers or, if names is nil, the servers that
// are due. The others stay as they are.
func (r *run) loadDue(ctx context.Context, all bool, names []string) (err error) {
	all = all || r.base == nil || r.base.index == nil || r.prev.Failed != nil || r.isAhead()
	if !all {
		if all, err = r.storeLost(ctx); err != nil {
			return err
		}
	}
	if !all {
		if r.decided, err = r.decidedSince(ctx, overlap); err != nil {
			return err
		}
	}
	if err := r.readTaken(ctx, r.servers); err != nil {
		return err
	}
	if r.named = !all && names != nil; !r.named {
		names = r.dueServers(all, nil)
	}
	units := r.unitsOf(names)
	for _, l := range r.servers {
		if !l.isQueued {
			l.counts.Resting = true
			l.toCache = r.cachedServer(l)
			r.report.Resting++
		}
	}
	return r.load(ctx, units, (*unit).load)
}

// queued returns the servers that this run loads, by name.
func (r *run) queued() []*serverRun {
	return slices.DeleteFunc(slices.Clone(r.servers), func(l *serverRun) bool { return !l.isQueued })
}

// unitsOf returns the units of the named servers, and queues all servers of these units.
func (r *run) unitsOf(names []string) (units []*unit) {
	named := map[string]bool{}
	for _, name := range names {
		named[name] = true
	}
	isNamed := func(l *serverRun) bool { return named[l.server.Name] }
	for _, u := range r.units {
		if !slices.ContainsFunc(u.servers, isNamed) {
			continue
		}
		units = append(units, u)
		for _, l := range u.servers {
			l.isQueued = true
		}
	}
	return units
}

// storeLost reports whether the store lost the record of [Snapshot.Witness].
func (r *run) storeLost(ctx context.Context) (bool, error) {
	if r.base == nil {
		return false, nil
	}
	i, ok := r.base.Witness()
	if !ok {
		return false, nil
	}
	held, err := r.approvals.Peek(ctx, r.base.ID(i))
	switch {
	case errors.Is(err, approval.ErrNotFound):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read approvals: %w", err)
	}
	return r.base.IsLost(i, &held), nil
}

// isAhead reports whether the last catalog has a time in the future: a clock was ahead. Then a run
// cannot distinguish decisions from before and after that catalog.
func (r *run) isAhead() bool { return r.prev.StartedAt.After(r.began) }

// needsCatalog reports whether the catalog must be assembled even if no server has changed.
func (r *run) needsCatalog() bool {
	return r.prev.Failed != nil || r.prev.Config != r.config.Version ||
		r.began.Sub(r.prev.SyncedAt) >= confirmAge
}

// decidedSince returns the time of the last decision about each server that people have decided
// about since the last catalog. It starts at the time of that catalog minus before.
func (r *run) decidedSince(ctx context.Context, before time.Duration) (map[string]time.Time, error) {
	var since time.Time
	if !r.prev.StartedAt.IsZero() && !r.isAhead() {
		since = r.prev.StartedAt.Add(-before)
	}
	last := map[string]time.Time{}
	for after := ""; ; {
		page, next, err := r.approvals.Changes(ctx, since, after)
		if err != nil {
			return nil, fmt.Errorf("read decisions: %w", err)
		}
		for _, d := range page {
			if d.DecidedAt.After(last[d.ID.Server]) {
				last[d.ID.Server] = d.DecidedAt
			}
		}
		if next == "" {
			return last, nil
		}
		after = next
	}
}
