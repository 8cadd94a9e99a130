package state

import (
	"context"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
)

// A stopFeed is the last read of the stops.
type stopFeed struct {
	held    stop.Stops
	err     error     // why the last read failed; nil: it succeeded
	knownAt time.Time // time of the data in held; zero: never read
}

// read reads the changes. The read is strongly consistent: every instance sees a stop at its next
// read.
func (f *stopFeed) read(ctx context.Context, docs document.Reader, now time.Time) {
	held, err := stop.Read(ctx, docs)
	if f.err = err; err == nil {
		f.held, f.knownAt = held, now
	}
}

// expired reports whether the last successful read is too old, or there was none.
func (f *stopFeed) expired(now time.Time, hold time.Duration) bool {
	return f.knownAt.IsZero() || f.err != nil && max(now.Sub(f.knownAt), wall(now).Sub(wall(f.knownAt))) > hold
}

// stopped contains the stops of people and of the config. It is immutable.
type stopped struct {
	stop.Stops
	unknown bool // there may be more stops
}

// stopped returns the stops of the config and of people. It returns before if nothing changed.
func (src *sources) stopped(now time.Time, o Options, before *stopped) *stopped {
	next := &stopped{union(src.config.Value, src.stops.held), src.stops.expired(now, o.ApprovalHold)}
	if before != nil && before.unknown == next.unknown && slices.Equal(before.List, next.List) && slices.Equal(before.Ended, next.Ended) {
		return before
	}
	return next
}

// union returns the stops of the config, which may be nil, and of people.
func union(cfg *config.Config, held stop.Stops) stop.Stops {
	if cfg == nil {
		return held
	}
	return cfg.Stop.And(held)
}

// serverEnabled returns whether a server is enabled in the config, and not stopped.
func (s *stopped) serverEnabled(server *config.Server) lock.Fact {
	if !server.Enabled {
		return lock.No
	}
	if _, is := s.Server(server.Name); is {
		return lock.No
	}
	if s.unknown {
		return lock.Unknown
	}
	return lock.Yes
}

// AgentStopped returns the stop of an agent, as of the state.
func (s *State) AgentStopped(id string) (stop.Stop, bool) {
	if s.stopped == nil {
		return stop.Stop{}, false
	}
	return s.stopped.Agent(id)
}

// AllStopped returns all stops, as of the state.
func (s *State) AllStopped() []stop.Stop {
	if s.stopped == nil {
		return nil
	}
	return s.stopped.List
}

// Stopped returns the stops of the config, and held, the stops of people.
func (s *State) Stopped(held stop.Stops) stop.Stops { return union(s.Config, held) }

// ServerStopped returns the stop of a server of the config, as of the state. A server that the
// config disables has none, because an undo would not enable it.
func (v *View) ServerStopped(s Server) (stop.Stop, bool) {
	if v.r == nil || !s.Config.Enabled {
		return stop.Stop{}, false
	}
	return v.r.stopped.Server(s.Config.Name)
}
