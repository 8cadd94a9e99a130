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
	// pollLeast and pollMost are how long a server is left alone after it was asked, by a sync that
	// nobody asked for: at first the one, then twice as long in steps, up to the other. One that
	// has been the same for an hour is asked every ten minutes, and after eight hours every hour.
	pollLeast = 5 * time.Minute
	pollMost  = time.Hour

	// pollShare says how steep that is: a change is seen after at most a sixth of the time that
	// the server has stayed the same, or an hour.
	pollShare = 6

	// early is how much sooner than that a server may be asked: schedules are not exact.
	early = 30 * time.Second

	// inQueue is how long a server counts as being asked, after that was planned and as long as
	// nothing is heard of it.
	inQueue = 15 * time.Minute

	// confirmAge is how old a catalog may be, where many share a sync, until an assembly says of it
	// that it is still what the servers list, though nothing has changed.
	confirmAge = 4 * time.Minute
)

// pollInterval returns how long a server is left alone that has been unchanged for so long, and
// whose lists stay fresh for ttl, as it says. least is how long any is.
func pollInterval(least, unchanged, ttl time.Duration) time.Duration {
	d, most := least, least*(pollMost/pollLeast)
	for d < most && 2*d*pollShare <= unchanged {
		d *= 2
	}
	return min(max(d, ttl), most)
}

// isDue reports whether a sync that nobody asked for loads the server. planned says when servers
// were handed out to others; nil: this run loads them itself.
func (r *run) isDue(l *serverRun, planned map[string]time.Time) bool {
	at, ok := planned[l.server.Name]
	switch {
	case !l.server.Enabled:
		return r.began.Sub(at).Abs() >= pollMost
	case ok && !at.After(r.began) && r.began.Sub(at) < inQueue && l.outcome.CheckedAt.Before(at):
		return false // it is being asked
	case l.outcome.Status == "", r.prev.Config != r.config.Version,
		l.outcome.CheckedAt.After(r.began):
		return true
	case failed(l):
		return planned == nil || !r.isFresh(l, r.o.Rest) // who plans may do so each minute
	}
	return r.isForced(l) || !r.isFresh(l, r.restOf(l))
}

// isForced reports whether a server that answered is loaded however long it has been the same:
// people have decided about it, its tools are not what it listed or cannot be read, or it is a
// program, which would be ended if it were not asked.
func (r *run) isForced(l *serverRun) bool {
	_, decided := r.decided[l.server.Name]
	return decided || l.server.Command != nil || slices.Contains(r.prev.Rebuilt, l.server.Name) ||
		r.base != nil && r.base.misses(l.server.Name)
}

// restOf returns how long the server is left alone after it was asked.
func (r *run) restOf(l *serverRun) time.Duration {
	k := r.known[l.server.Name]
	if k.Since.IsZero() || k.Identity != l.key || k.From != "" || len(l.outcome.Unread) > 0 {
		return r.o.Rest
	}
	return pollInterval(r.o.Rest, l.outcome.CheckedAt.Sub(k.Since), l.outcome.ListTTL)
}

// isFresh reports whether it is less than wait since the server was asked, as schedules keep to that.
func (r *run) isFresh(l *serverRun, wait time.Duration) bool {
	return r.began.Before(l.outcome.CheckedAt.Add(wait - min(early, wait/10)))
}

// due returns the servers that are due, with all of every one, in the order in which they are
// asked, and behind them the disabled ones, for their records.
func (r *run) due(all bool, planned map[string]time.Time) (names []string) {
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

// loadDue loads the servers that are due, with all of every one. The others stay as they are.
func (r *run) loadDue(ctx context.Context, all bool) (err error) {
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
	units := r.unitsOf(r.due(all, nil))
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

// unitsOf returns the units that have the named servers. Their servers are loaded together.
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

// storeLost reports whether the store lost the record by which that is found out at once; see [Snapshot.Witness].
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
	return r.base.Lost(i, &held), nil
}

// isAhead reports whether the last catalog is of a time to come: a clock was ahead. Decisions that were
// made since that catalog, or before it, cannot be told apart then.
func (r *run) isAhead() bool { return r.prev.StartedAt.After(r.began) }

// needsCatalog reports whether the catalog is to be assembled even if no server has changed.
func (r *run) needsCatalog() bool {
	return r.prev.Failed != nil || r.prev.Config != r.config.Version ||
		r.began.Sub(r.prev.SyncedAt) >= confirmAge
}

// decidedSince returns when people last decided about each server, of those about which somebody
// has since the last catalog, or shortly before.
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
