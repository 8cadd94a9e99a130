package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
)

// A search may show grants this late. A call reads them itself.
const grantsEvery = 2 * time.Second

// maxGrants is how many agents' grants are cached.
const maxGrants = 512

// grants are the cached grants of agents, and the agents' views with them.
type grants struct {
	mu  sync.Mutex
	all map[string]grantsOf
}

type grantsOf struct {
	granted    request.Granted
	at         time.Time
	base, view *state.View
}

// loadGrants makes the items that were granted to the session's agent callable.
func (s *Session) loadGrants(ctx context.Context) {
	key := s.requestsKey()
	if key == "" || s.down || s.seen {
		return
	}
	s.seen = true
	s.view, s.granted = s.g.withGrants(ctx, key, s.view)
}

// withGrants returns the view of an agent with its grants. If the grants cannot be read, the agent
// has none.
func (g *Gateway) withGrants(ctx context.Context, key string, base *state.View) (*state.View, request.Granted) {
	now := g.o.Now()
	g.grants.mu.Lock()
	of, known := g.grants.all[key]
	g.grants.mu.Unlock()
	if age := now.Sub(of.at); !known || age < 0 || age >= grantsEvery {
		ctx, cancel := context.WithTimeout(ctx, approvalTime)
		defer cancel()
		read, err := g.o.Requests.Granted(ctx, key)
		if err != nil {
			g.o.Log.LogAttrs(ctx, slog.LevelWarn, "grants of an agent cannot be read, its items stay locked", slog.Any("error", err))
			return base, request.Granted{}
		}
		of = grantsOf{granted: read, at: now}
	}
	if of.base == base {
		return of.view, of.granted
	}
	of.base, of.view = base, base.With(of.granted, now)
	g.grants.keep(key, of)
	return of.view, of.granted
}

func (x *grants) keep(key string, of grantsOf) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil || len(x.all) >= maxGrants {
		x.all = map[string]grantsOf{}
	}
	x.all[key] = of
}
