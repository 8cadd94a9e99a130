package decide

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxActor limits the stored characters of an actor's name.
const maxActor = 100

// Stops are the stops in the config and by people.
type Stops struct {
	Stops []stop.Stop `json:"stops" nullable:"false" doc:"stops without by are in mcp_config.json; remove them there"`
}

// A Stopped is the result of a stop or of undoing a stop.
type Stopped struct {
	Stops
	Changed  bool `json:"changed" doc:"false: the stops are as they were before"`
	Recorded bool `json:"recorded" doc:"false: the change is made, but its line could not be written to the audit; the gateway's log has it"`
	Unlisted bool `json:"unlisted,omitempty" doc:"no valid agent token has this agent id, and no agent with this id has called. The stop affects nobody, unless a JWT or a signature yields exactly this id"`
}

// CanStop reports whether people can stop something here.
func (d *Service) CanStop() bool { return d.o.Stops != nil }

// StoppedNow returns the stops that requests see now. It does not read the store.
func (d *Service) StoppedNow(ctx context.Context) []stop.Stop { return d.states.Load(ctx).AllStopped() }

// Stopped returns the stop of the agent with this id as requests see it. The id "" is no agent.
func (d *Service) Stopped(ctx context.Context, agent string) (stop.Stop, bool) {
	if agent == "" {
		return stop.Stop{}, false
	}
	return d.states.Load(ctx).AgentStopped(agent)
}

// Stops reads what is stopped from the store. If that fails, it returns the config's stops and the
// error.
func (d *Service) Stops(ctx context.Context) (Stops, error) {
	var stops stop.Stops
	var err error
	if d.o.Stops != nil {
		stops, err = d.o.Stops.Stops(ctx)
	}
	return Stops{append([]stop.Stop{}, d.states.Load(ctx).Stopped(stops).List...)}, err
}

// Stop stops a target. Because a stop is urgent, it does not fail if the audit cannot be written:
// the answer says so.
func (d *Service) Stop(ctx context.Context, t stop.Target, reason string) (Stopped, error) {
	t, reason = trim(t), strings.TrimSpace(reason)
	if err := d.checkStop(ctx, t, reason); err != nil {
		return Stopped{}, err
	}
	by := text.Clip(ActorOf(ctx).Name, maxActor)
	one := stop.Stop{Target: t, Reason: reason, By: by, At: d.o.Now().UTC()}
	changed, err := d.changeStops(ctx, func(stops stop.Stops) (stop.Stops, error) { return stops.Add(one) })
	if errors.Is(err, stop.ErrFull) {
		return Stopped{}, conflict("nothing was stopped: %v", stop.ErrFull)
	}
	if err != nil {
		return Stopped{}, err
	}
	done := d.afterStop(ctx, changed, audit.ActionStop, []stop.Target{t}, reason)
	done.Unlisted, _ = d.unlisted(ctx, t)
	return done, nil
}

// checkStop refuses a stop that cannot be carried out.
func (d *Service) checkStop(ctx context.Context, t stop.Target, reason string) error {
	if d.o.Stops == nil {
		return Refuse(http.StatusNotImplemented, "this program cannot stop anything, and nothing was stopped")
	}
	if err := t.Check(); err != nil {
		return invalid("nothing was stopped: %v", err)
	}
	if err := stop.CheckReason(reason); err != nil {
		return invalid("nothing was stopped: %v", err)
	}
	if cfg := d.states.Load(ctx).Config; t.Server != "" && cfg != nil {
		if _, ok := cfg.Server(t.Server); !ok {
			return invalid("nothing was stopped: mcp_config.json has no server %s, so agents can call nothing of it", text.Quote(t.Server, maxActor))
		}
	}
	return nil
}

// UndoStop undoes one stop of a person.
func (d *Service) UndoStop(ctx context.Context, t stop.Target) (Stopped, error) {
	t = trim(t)
	if err := t.Check(); err != nil {
		return Stopped{}, invalid("nothing was undone: %v", err)
	}
	changed, err := d.changeStops(ctx, func(stops stop.Stops) (stop.Stops, error) { return stops.Undo(t) })
	if errors.Is(err, stop.ErrNone) {
		if cfg := d.states.Load(ctx).Config; cfg != nil {
			if _, is := cfg.Stop.Find(t); is {
				return Stopped{}, conflict("mcp_config.json stops %v, and nothing was undone: remove the stop from the file", t)
			}
		}
		return Stopped{}, Refuse(http.StatusNotFound, fmt.Sprintf("nobody has stopped %v, or somebody has undone it already; nothing was changed", t))
	}
	if err != nil {
		return Stopped{}, err
	}
	return d.afterStop(ctx, changed, audit.ActionStopUndone, []stop.Target{t}, ""), nil
}

// UndoStops undoes all stops of people.
func (d *Service) UndoStops(ctx context.Context) (Stopped, error) {
	var undone []stop.Target
	changed, err := d.changeStops(ctx, func(stops stop.Stops) (stop.Stops, error) {
		undone = nil
		next := stops
		for _, s := range stops.List {
			undone = append(undone, s.Target)
			next, _ = next.Undo(s.Target) // the stop exists
		}
		return next, nil
	})
	if err != nil {
		return Stopped{}, err
	}
	return d.afterStop(ctx, changed, audit.ActionStopUndone, undone, ""), nil
}

// changeStops applies a change, and reports whether it changed anything.
func (d *Service) changeStops(ctx context.Context, change func(stop.Stops) (stop.Stops, error)) (changed bool, err error) {
	if d.o.Stops == nil {
		return false, Refuse(http.StatusNotImplemented, "this program cannot stop anything, and nothing was stopped")
	}
	_, err = d.o.Stops.Change(ctx, func(stops stop.Stops) (stop.Stops, error) {
		next, err := change(stops)
		changed = err == nil && !slices.Equal(stops.List, next.List)
		return next, err
	})
	switch {
	case err == nil, errors.Is(err, stop.ErrNone), errors.Is(err, stop.ErrFull):
		return changed, err
	case errors.Is(err, stop.ErrConflict):
		return false, conflict("others kept changing the stops, and nothing was done: read the stops again, and try again")
	}
	d.o.Log.LogAttrs(ctx, slog.LevelError, "stops not read or written", slog.Any("error", err))
	return false, Refuse(http.StatusServiceUnavailable, "the store did not answer, so this may or may not be done: look at /admin/stop again and try again. The key stop of mcp_config.json works without the store; the log says more")
}

// afterStop records the change, if there was one, and loads it into the state of this process.
func (d *Service) afterStop(ctx context.Context, changed bool, action string, targets []stop.Target, reason string) Stopped {
	out := Stopped{Changed: changed, Recorded: true}
	if changed {
		for _, t := range targets {
			if d.Record(ctx, audit.Line{Action: action, Subject: subjectOf(t), Note: reason}) != nil {
				out.Recorded = false
			}
		}
		d.states.Refresh(ctx)
	}
	out.Stops = Stops{append([]stop.Stop{}, d.StoppedNow(ctx)...)}
	return out
}

// subjectOf returns a target's name in the audit.
func subjectOf(t stop.Target) string {
	switch {
	case t.Server != "":
		return audit.AboutServer + ":" + t.Server
	case t.Agent != "":
		return audit.AboutAgent + ":" + t.Agent
	}
	return audit.AboutAll
}

// trim returns t without the spaces that people paste along with a name.
func trim(t stop.Target) stop.Target {
	t.Server, t.Agent = strings.TrimSpace(t.Server), strings.TrimSpace(t.Agent)
	return t
}

// A Reach says what a stop would stop.
type Reach struct {
	Tools, Items int    // callable items that the stop covers; all of them for a stop of an agent
	Running      int    // calls in this process
	Local        bool   // calls run in this process
	Unlisted     bool   // no token belongs to the agent, and it never called
	Unchecked    string // where to look for calls of the agent, if they cannot be looked up here
}

// Reach returns what a stop of t would stop, or refuses as [Service.Stop] would.
func (d *Service) Reach(ctx context.Context, t stop.Target, reason string) (r Reach, err error) {
	t = trim(t)
	if err := d.checkStop(ctx, t, strings.TrimSpace(reason)); err != nil {
		return r, err
	}
	r.Unlisted, r.Unchecked = d.unlisted(ctx, t)
	v := d.View(ctx)
	for n, kind := range []tool.Set{v.Tools(), v.Items()} {
		for i := range kind.All() {
			switch {
			case v.Status(i) != lock.None || t.Server != "" && v.ID(i).Server != t.Server:
			case n == 0:
				r.Tools++
			default:
				r.Items++
			}
		}
	}
	if d.o.Running != nil {
		r.Running, r.Local = d.o.Running(t), true
	}
	return r, nil
}
