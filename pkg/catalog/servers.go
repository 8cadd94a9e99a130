package catalog

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

// load asks the enabled servers of the units for their tools. It calls the function do with each
// unit whose servers have answered, while other servers still work. If the time ends
// before a server has answered, that server keeps its last items.
func (r *run) load(ctx context.Context, units []*unit, do func(*unit, context.Context) error) error {
	p := newPipeline(ctx, do)
	asked := r.askServers(ctx, p, units)
	return cmp.Or(p.end(), asked)
}

// askServers asks the servers of the units, and passes each unit to p when all its servers have
// answered.
func (r *run) askServers(ctx context.Context, p *pipeline, units []*unit) error {
	var targets []upstream.Target
	byName := map[string]*serverRun{}
	asked, failing := inOrder(r.queued())
	for _, l := range asked {
		target := Target(l.server, l.outcome)
		target.Once = failed(l) && failing > fewFailing
		if l.cached = r.cachedServer(l); l.cached != nil {
			target.Lists = l.cached.lists
		}
		targets = append(targets, target)
		byName[l.server.Name] = l
		l.counts.Unasked = true // until it answers
		l.unit.waits++
	}
	now := Progress{Total: len(targets)}
	progress := func() {
		if r.o.Progress != nil {
			r.o.Progress(now)
		}
	}
	progress()
	if !r.named {
		r.loader.Keep(targets)
	}
	loading, cancel := context.WithTimeout(p.ctx, r.loadTime(ctx))
	defer cancel()
	r.loader.LoadEach(loading, targets, func(o outcome.Outcome) {
		now.Outcome = o
		now.Done++
		progress()
		l := byName[o.ServerID]
		if l == nil || !l.counts.Unasked || !o.Recorded() {
			return
		}
		l.take(o)
		l.counts.Unasked = false
		if l.unit.waits--; l.unit.waits == 0 {
			p.add(l.unit)
			l.unit.waits = -1
		}
	})
	if ctx.Err() != nil { // an interrupted load says nothing about the servers
		return context.Cause(ctx)
	}
	for _, u := range units {
		if u.waits >= 0 {
			p.add(u)
		}
	}
	for _, l := range asked {
		if l.counts.Unasked {
			r.report.Unasked++
		}
	}
	if r.report.Unasked > 0 {
		r.o.Log.LogAttrs(ctx, slog.LevelWarn, "some servers were not asked, because the time was over; they come first in the next sync",
			slog.Int("servers", len(targets)), slog.Int("unasked", r.report.Unasked))
	}
	return nil
}

const (
	// loadTime is the time for loading all servers of one sync if the caller has no deadline. If it
	// has a deadline, a fifth of the time until the deadline is reserved for writing records.
	loadTime = 4 * time.Minute

	// writeTime is the maximum of the time that is reserved for writing records. Most records are
	// written while other servers still work.
	writeTime = 30 * time.Second

	// failurePenalty is added to the time of the last load of a failed server when servers are
	// ordered by that time. It is longer than the time between two syncs, so failing servers
	// usually come last; it is bounded, so each has its turn.
	failurePenalty = 15 * time.Minute

	// fewFailing is the largest number of failing servers that get a second attempt. A server that
	// starts with its first request needs the second attempt. If more servers fail, each has one
	// attempt.
	fewFailing = 16
)

func (r *run) loadTime(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		return left - min(left/5, writeTime)
	}
	return loadTime
}

// failed reports whether the server's last load failed.
func failed(l *serverRun) bool {
	return l.outcome.Status != "" && l.outcome.Status != outcome.Available
}

// inOrder returns the enabled servers in loading order, and how many of them failed last time.
// Required servers come first, then the server with the oldest load; failed servers come later.
func inOrder(all []*serverRun) (out []*serverRun, failing int) {
	due := func(l *serverRun) time.Time {
		if failed(l) {
			return l.outcome.CheckedAt.Add(failurePenalty)
		}
		return l.outcome.CheckedAt
	}
	for _, l := range all {
		if l.server.Enabled {
			out = append(out, l)
			if failed(l) {
				failing++
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *serverRun) int {
		if a.server.Required == b.server.Required {
			return due(a).Compare(due(b))
		}
		if a.server.Required {
			return -1
		}
		return 1
	})
	return out, failing
}

// Connected reports whether the gateway may have a sign-in at the server, according to the outcome
// of its last load.
func Connected(s *config.Server, last outcome.Outcome) bool {
	return s.SignsIn() && (last.Connected || last.Reason == outcome.ReasonSignInRequired)
}

// Target returns how the gateway reaches the server. last is the outcome of its last load.
func Target(s config.Server, last outcome.Outcome) upstream.Target {
	t := upstream.Target{
		Memory: last.Memory,
		ID:     s.Name, URL: s.URL, Headers: s.Headers.Plain(), Timeout: s.Timeout, BehindProxy: s.BehindProxy, Shared: s.Session == "shared",
		Handshake: s.Protocol == mcp.VersionLegacy, Asks: upstream.Asks(s.Elicitation),
	}
	if s.SignsIn() {
		t.SignIn = &oauth.Settings{
			ClientID: s.Auth.ClientID, Secret: s.Auth.ClientSecret, Auth: s.Auth.ClientAuth,
			Issuer: s.Auth.Issuer, Authorization: s.Auth.Authorization, Token: s.Auth.Token,
			Scopes: s.Auth.Scopes, Resource: s.Auth.Resource, NoRegister: s.Auth.NoRegister,
		}
		t.Connected = Connected(&s, last)
	}
	if c := s.Command; c != nil {
		t.Command = &upstream.Command{Path: c.Path, Args: c.Args, Env: c.Env.Plain(), Dir: c.Dir, Pass: c.Pass}
	}
	return t
}
