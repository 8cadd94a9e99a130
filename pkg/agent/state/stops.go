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

// A stopFeed is what people stopped, as it was read last.
type stopFeed struct {
	held    stop.Stops
	err     error     // why the last read failed; nil: it did not
	knownAt time.Time // as of when held is known; zero: it never was
}

// read reads on. It is a strongly consistent read: what is stopped is found as stopped as soon as it
// is looked for again, whichever instance is asked.
func (f *stopFeed) read(ctx context.Context, docs document.Reader, now time.Time) {
	held, err := stop.Read(ctx, docs)
	if f.err = err; err == nil {
		f.held, f.knownAt = held, now
	}
}

// expired reports whether what is stopped was last known too long ago, or never.
func (f *stopFeed) expired(now time.Time, hold time.Duration) bool {
	return f.knownAt.IsZero() || f.err != nil && max(now.Sub(f.knownAt), wall(now).Sub(wall(f.knownAt))) > hold
}

// stopped is what is stopped, by people and by the config. It is immutable.
type stopped struct {
	stop.Stops
	unknown bool // more may be
}

// stopped returns the union of what the config and what people stopped: that of before if it is the same.
func (src *sources) stopped(now time.Time, o Options, before *stopped) *stopped {
	next := &stopped{union(src.config.Value, src.stops.held), src.stops.expired(now, o.ApprovalHold)}
	if before != nil && before.unknown == next.unknown && slices.Equal(before.List, next.List) && slices.Equal(before.Ended, next.Ended) {
		return before
	}
	return next
}

// union returns what the config, nil if there is none, and people stopped.
func union(cfg *config.Config, held stop.Stops) stop.Stops {
	if cfg == nil {
		return held
	}
	return cfg.Stop.And(held)
}

// serverEnabled says whether a server is in the config to be called, and not stopped.
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

// AgentStopped returns the stop that the agent with this id is under, as of the state.
func (s *State) AgentStopped(id string) (stop.Stop, bool) {
	if s.stopped == nil {
		return stop.Stop{}, false
	}
	return s.stopped.Agent(id)
}

// AllStopped returns what is stopped, as of the state.
func (s *State) AllStopped() []stop.Stop {
	if s.stopped == nil {
		return nil
	}
	return s.stopped.List
}

// Stopped returns what the config stops, and held, what people stopped.
func (s *State) Stopped(held stop.Stops) stop.Stops { return union(s.Config, held) }

// ServerStopped returns the stop that a server of the config is under, as of the state. A server that
// the config disables is under none: to undo one would not enable it.
func (v *View) ServerStopped(s Server) (stop.Stop, bool) {
	if v.r == nil || !s.Config.Enabled {
		return stop.Stop{}, false
	}
	return v.r.stopped.Server(s.Config.Name)
}
