package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
)

// grantsEvery is the maximum age of grants in a search. A call always reads the grants itself.
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

// loadGrants makes the items callable for which the session's agent has a grant.
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
	cached, ok := g.grants.all[key]
	g.grants.mu.Unlock()
	if age := now.Sub(cached.at); !ok || age < 0 || age >= grantsEvery {
		ctx, cancel := context.WithTimeout(ctx, approvalTime)
		defer cancel()
		read, err := g.o.Requests.Granted(ctx, key)
		if err != nil {
			g.o.Log.LogAttrs(ctx, slog.LevelWarn, "grants of an agent cannot be read, its items stay locked", slog.Any("error", err))
			return base, request.Granted{}
		}
		cached = grantsOf{granted: read, at: now}
	}
	if cached.base == base {
		return cached.view, cached.granted
	}
	cached.base, cached.view = base, base.With(cached.granted, now)
	g.grants.keep(key, cached)
	return cached.view, cached.granted
}

func (x *grants) keep(key string, entry grantsOf) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil || len(x.all) >= maxGrants {
		x.all = map[string]grantsOf{}
	}
	x.all[key] = entry
}
