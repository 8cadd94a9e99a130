package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/internal/demo"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
)

const (
	lookEvery = 2 * time.Second // how often to check config and policy for changes

	// If a server is starting up, the next sync comes sooner, at most this many times in a row. For
	// example, its program may have to be downloaded first.
	soon     = 10 * time.Second
	soonMost = 5
)

// syncLoop syncs at the start, every minute, and when config or policy change, which it checks at
// the given interval. A sync that only the clock started skips servers that have not changed for a
// long time. A server that reports changed lists is synced alone.
func syncLoop(
	ctx context.Context, p *boot.Program, servers *demo.Servers, b *banner, every time.Duration,
) {
	w := watcher{objects: p.Stores.Objects}
	w.changed(ctx)
	lists := newListChanges()
	watch := p.Upstream.WatchLists(lists.note)
	defer watch.Close()
	starting, failed := false, false
	syncNow := func(
		ctx context.Context, run func(context.Context) (catalog.Report, error),
	) catalog.Report {
		r, err := run(ctx) // the sync logs its own result and the result of each server
		var installing bool
		starting, installing = startingServers(r, err)
		failed = err != nil
		b.client.synced(installing)
		watch.Set(reporters(p.States.Load(ctx)))
		return r
	}
	syncNow(ctx, p.Sync)
	if servers != nil {
		if err := servers.Play(ctx, p.Stores.Approvals, func(ctx context.Context) { syncNow(ctx, p.Sync) }); err != nil && ctx.Err() == nil {
			p.Log.LogAttrs(ctx, slog.LevelError, "demo could not be set up", slog.Any("error", err))
		}
	}
	if ctx.Err() != nil {
		return
	}
	b.show(p.States.Load(ctx))
	look := time.NewTicker(every)
	defer look.Stop()
	last, early := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-lists.wake:
		case <-look.C:
			watch.Set(reporters(p.States.Load(ctx)))
		}
		if !failed { // otherwise each sync would load all servers
			lists.sync(func(names []string) bool {
				return syncNow(ctx, func(ctx context.Context) (catalog.Report, error) {
					return p.SyncServers(ctx, names)
				}).Built
			})
		}
		due := time.Since(last) >= folder.SyncEvery
		again := starting && early < soonMost && time.Since(last) >= soon
		if changed := w.changed(ctx); changed || due || again {
			if early++; due {
				early = 0
			}
			run := p.SyncDue
			if changed {
				run = p.Sync
			}
			syncNow(ctx, run)
			b.show(p.States.Load(ctx))
			last = time.Now()
		}
	}
}

// startingServers reports whether a server is starting up, and whether one is a program that may be
// installing.
func startingServers(r catalog.Report, err error) (starting, installing bool) {
	if err != nil {
		return false, false
	}
	for _, s := range r.Servers {
		starting = starting || s.Outcome.Status == outcome.Transient
		installing = installing || s.Outcome.Reason == outcome.ReasonStarting
	}
	return starting, installing
}

// keepTime is how long a program that ends waits for the last catalog.
const keepTime = 2 * time.Second

// keepDecisions writes the decisions since the last sync into the catalog, without asking a server,
// so that they are not only in approvals.db. It only logs a failure, because the audit files also
// have the decisions.
func keepDecisions(ctx context.Context, p *boot.Program) {
	if p.Syncer.Config() == nil { // without a sync there is no catalog to update
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	_, _ = p.Syncer.Assemble(ctx) // it logs its result
}

// A watcher detects changes of the operator's files.
type watcher struct {
	objects object.Store
	etags   [2]string
}

// changed reports whether a file was changed or removed. It ignores an unreadable file, because the
// sync reports that.
func (w *watcher) changed(ctx context.Context) bool {
	before := w.etags
	for i, key := range []string{config.Key, policy.Key} {
		o, err := w.objects.Get(ctx, key, w.etags[i])
		switch {
		case err == nil:
			w.etags[i] = o.ETag
		case errors.Is(err, object.ErrNotFound):
			w.etags[i] = ""
		}
	}
	return w.etags != before
}
