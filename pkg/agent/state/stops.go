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
	last    stop.Stops
	err     error     // error of the last read; nil: success
	knownAt time.Time // time of the data in last; zero: never read
}

// read reads the stops. The read is strongly consistent, so every instance sees a stop at its next
// read.
func (f *stopFeed) read(ctx context.Context, docs document.Reader, now time.Time) {
	stops, err := stop.Read(ctx, docs)
	if f.err = err; err == nil {
		f.last, f.knownAt = stops, now
	}
}

// expired reports whether no read has succeeded, or the last read failed and the last successful
// read is older than hold.
func (f *stopFeed) expired(now time.Time, hold time.Duration) bool {
	return f.knownAt.IsZero() || f.err != nil && max(now.Sub(f.knownAt), wall(now).Sub(wall(f.knownAt))) > hold
}

// stopped contains the stops of people and of the config. It is immutable.
type stopped struct {
	stop.Stops
	unknown bool // there may be more stops
}

// stopped returns the stops of the config and of people. If these are the same as in the value
// before, it returns that value.
func (src *sources) stopped(now time.Time, o Options, before *stopped) *stopped {
	next := &stopped{union(src.config.Value, src.stops.last), src.stops.expired(now, o.ApprovalHold)}
	if before != nil && before.unknown == next.unknown && slices.Equal(before.List, next.List) && slices.Equal(before.Ended, next.Ended) {
		return before
	}
	return next
}

// union returns the stops of the config, which may be nil, and of people.
func union(cfg *config.Config, stops stop.Stops) stop.Stops {
	if cfg == nil {
		return stops
	}
	return cfg.Stop.And(stops)
}

// serverEnabled returns whether a server is enabled in the config, and not stopped.
func (s *stopped) serverEnabled(server *config.Server) lock.Fact {
	if !server.Enabled {
		return lock.No
	}
	if _, isStopped := s.Server(server.Name); isStopped {
		return lock.No
	}
	if s.unknown {
		return lock.Unknown
	}
	return lock.Yes
}

// ServerEnabled returns whether a server is enabled in the config, and not stopped.
func (s *State) ServerEnabled(server *config.Server) lock.Fact {
	if s.stopped == nil {
		return lock.Unknown
	}
	return s.stopped.serverEnabled(server)
}

// AgentStopped returns the stop of an agent, if the state has one.
func (s *State) AgentStopped(id string) (stop.Stop, bool) {
	if s.stopped == nil {
		return stop.Stop{}, false
	}
	return s.stopped.Agent(id)
}

// AllStopped returns all stops that the state has.
func (s *State) AllStopped() []stop.Stop {
	if s.stopped == nil {
		return nil
	}
	return s.stopped.List
}

// Stopped returns the stops of the config together with the given stops of people.
func (s *State) Stopped(stops stop.Stops) stop.Stops { return union(s.Config, stops) }

// ServerStopped returns the stop of a server of the config, if the state has one. If the config
// disables a server, it has no stop, because an undo would not enable the server.
func (v *View) ServerStopped(s Server) (stop.Stop, bool) {
	if v.r == nil || !s.Config.Enabled {
		return stop.Stop{}, false
	}
	return v.r.stopped.Server(s.Config.Name)
}
