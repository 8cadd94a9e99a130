package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
)

// What an agent finds as callable may be this much behind what was granted to it. A call looks for
// itself.
const grantsEvery = 2 * time.Second

// maxGrants is of how many agents it is kept what was granted to them.
const maxGrants = 512

// grants are what was granted to agents as it was read last, and what they may see by that.
type grants struct {
	mu  sync.Mutex
	all map[string]grantsOf
}

type grantsOf struct {
	granted    request.Granted
	at         time.Time
	base, view *state.View
}

// loadGrants has the session find what was granted to its agent as callable.
func (s *Session) loadGrants(ctx context.Context) {
	key := s.requestsKey()
	if key == "" || s.down || s.seen {
		return
	}
	s.seen = true
	s.view, s.granted = s.g.granted(ctx, key, s.view)
}

// granted returns the view of an agent with what was granted to it. What cannot be read is granted to
// nobody.
func (g *Gateway) granted(ctx context.Context, key string, base *state.View) (*state.View, request.Granted) {
	now := g.o.Now()
	g.grants.mu.Lock()
	of, known := g.grants.all[key]
	g.grants.mu.Unlock()
	if age := now.Sub(of.at); !known || age < 0 || age >= grantsEvery {
		ctx, cancel := context.WithTimeout(ctx, approvalTime)
		defer cancel()
		read, err := g.o.Requests.Granted(ctx, key)
		if err != nil {
			g.o.Log.LogAttrs(ctx, slog.LevelWarn, "what is granted to an agent cannot be read: it is found as locked", slog.Any("error", err))
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
