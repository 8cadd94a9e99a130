package catalog

import (
	"context"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// storeAgain is the age at which a sync writes the object of an unchanged shard again. Otherwise a
// bucket rule that deletes old catalogs could delete the catalog in use.
const storeAgain = 24 * time.Hour

// publish builds the catalog, stores it, and writes current.json, which names it. It fails if
// another process has written current.json since this run read it. It returns the SHA-256 of the
// catalog that was built.
func (r *run) publish(ctx context.Context) (built string, err error) {
	next := r.base
	if r.report.Built = !r.unchanged(); r.report.Built {
		if next, err = Rebuild(r.base, r.input(ctx)); err != nil {
			return "", err
		}
	}
	cur := r.current()
	again := r.supersede(ctx, &cur, next)
	if r.base != nil {
		cur.Shards = r.base.stored(next, r.began.Add(-storeAgain))
	}
	saved, err := Save(ctx, r.objects, next, cur, r.ifMatch)
	if err == nil && len(again) > 0 {
		err = storeMissing(ctx, r.objects, again)
	}
	if err != nil {
		return next.sha256, err
	}
	r.report.Stored = len(cur.Shards) < len(next.shards)
	r.snap, r.built, r.words = saved, saved.sha256, r.config.Value.Words
	r.latest.Store(saved)
	r.cacheServers(saved)
	return next.sha256, nil
}

// goOnFromOther reads the catalog of another sync, and prepares the lists of this run for a
// comparison with it. It reports whether the other catalog stays in use. built is the SHA-256 of
// the catalog that this run could not publish.
func (r *run) goOnFromOther(ctx context.Context, built string) (stays bool, err error) {
	if r.found != nil {
		return false, errRestart
	}
	for _, l := range r.servers {
		if l.isQueued && l.loaded {
			if l.tools = l.input.Tools; l.input.Same {
				l.tools = r.base.inputs(l.server.Name)
			}
			l.tools = slices.DeleteFunc(l.tools, func(t ToolInput) bool {
				return !l.outcome.Read(t.Definition)
			})
			for i := range l.tools {
				l.tools[i].Record = nil
			}
		}
		// The lists still have to be compared with the new records.
		l.found, l.digest, l.toCache = false, "", nil
	}
	if err := r.readBase(ctx); err != nil {
		return false, err
	}
	if r.base != nil {
		switch cur := r.base.current; {
		case cur.StartedAt.Equal(r.began) && cur.SHA256 == built: // our own write, whose answer was lost
			return true, nil
		case cur.StartedAt.After(r.began):
			r.report.Superseded = true
			return true, nil
		}
	}
	if ConfigFile.Load(ctx, r.objects, r.config, r.began).Version != r.config.Version {
		return false, errRestart
	}
	// The other sync wrote records too, and this catalog must have the records that were lost in
	// the meantime.
	r.units, r.readAll = r.group(), true
	return false, nil
}

// input returns the input of the next catalog: the current lists of each server, or its last lists
// if it did not load.
func (r *run) input(ctx context.Context) Input {
	in := Input{Words: r.config.Value.Words, Yield: func() { r.pause(ctx) }}
	for _, l := range r.servers {
		in.Servers = append(in.Servers, l.input)
	}
	return in
}

func (r *run) current() Current {
	cur := Current{
		Config:    r.config.Version,
		StartedAt: r.began,
		SyncedAt:  r.o.Now().UTC().Round(0),
		Restored:  r.restoredRecords(),
		Forgotten: r.forgotten(),
		Rebuilt:   r.rebuilt(),
		Outcomes:  r.triedOutcomes(),
		Unknown:   r.prev.Unknown,
	}
	r.describe(&cur)
	return cur
}

// triedOutcomes returns the outcomes of the servers that a sync has ever tried to load.
func (r *run) triedOutcomes() []outcome.Outcome {
	out := []outcome.Outcome{}
	for _, l := range r.servers {
		if l.outcome.Status != "" {
			out = append(out, l.outcome)
		}
	}
	return out
}
