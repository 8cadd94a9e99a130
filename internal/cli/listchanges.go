package cli

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// How often reports of one server start a sync.
const (
	reportEvery = 5 * time.Second // on average
	reportBurst = 4               // at once
	reportSlow  = 5 * time.Minute // the interval doubles up to this while the syncs find no change
)

// A listChanges collects the servers that report changed lists, until they are synced. It needs the
// same memory for each server, however often the server reports.
type listChanges struct {
	wake chan struct{} // has a token after a report

	mu      sync.Mutex
	servers map[string]*reporter
}

// A reporter is a server that has reported a change.
type reporter struct {
	isDue bool
	every time.Duration
	limit *rate.Limiter
}

func newListChanges() *listChanges {
	return &listChanges{wake: make(chan struct{}, 1), servers: map[string]*reporter{}}
}

// note records that a server reports a change.
func (l *listChanges) note(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.servers[server]
	if r == nil {
		r = &reporter{
			every: reportEvery,
			limit: rate.NewLimiter(rate.Every(reportEvery), reportBurst),
		}
		l.servers[server] = r
	}
	if r.isDue {
		return
	}
	r.isDue = true
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// sync calls run with the servers that may be synced now, if there are any. run reports whether
// something has changed. Servers that have reported too often wait for a later call of sync.
func (l *listChanges) sync(run func(names []string) (isChanged bool)) {
	names := l.take()
	if len(names) == 0 {
		return
	}
	isChanged := run(names)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		r := l.servers[name]
		r.every = min(2*r.every, reportSlow)
		if isChanged {
			r.every = reportEvery
		}
		r.limit.SetLimit(rate.Every(r.every))
	}
}

func (l *listChanges) take() (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, r := range l.servers {
		if r.isDue && r.limit.Allow() {
			r.isDue = false
			names = append(names, name)
		}
	}
	return names
}

// reporters returns the servers whose reports count: enabled, not stopped, and available at their
// last load.
func reporters(s *state.State) (targets []upstream.Target) {
	for _, server := range s.Servers() {
		isOn := s.ServerEnabled(&server.Config) == lock.Yes
		if isOn && server.Outcome.Status == outcome.Available {
			targets = append(targets, catalog.Target(server.Config, server.Outcome))
		}
	}
	return targets
}
