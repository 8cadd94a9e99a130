package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// lookEvery is how often a process looks, while something runs, whether it was stopped. A function
// is frozen between its requests; what runs is what keeps it awake.
const lookEvery = time.Second

// running are the calls and streams of this process. While there are some it reads each second what is
// stopped, and cancels those that are.
type running struct {
	mu   sync.Mutex
	all  map[*run]bool
	next *time.Timer // of the next look; nil: nothing runs
}

// A run is a call of a server, or with "" a stream of an agent.
type run struct {
	server, agent string
	cancel        context.CancelCauseFunc
}

// A cancelled is why something that ran was cancelled.
type cancelled struct{ stop.Stop }

func (c cancelled) Error() string { return c.String() + " was " + c.Note() }

// stopOf returns the stop that cancelled what runs on ctx.
func stopOf(ctx context.Context) (stop.Stop, bool) {
	c, ok := context.Cause(ctx).(cancelled) //nolint:errorlint // a cause is not wrapped
	return c.Stop, ok
}

// run notes that something runs until leave is called. The context that it returns ends with it, or
// when it is stopped.
func (g *Gateway) run(ctx context.Context, server, agent string) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r := &run{server, agent, cancel}
	g.running.mu.Lock()
	defer g.running.mu.Unlock()
	if g.running.all == nil {
		g.running.all = map[*run]bool{}
	}
	g.running.all[r] = true
	if g.running.next == nil {
		g.running.next = time.AfterFunc(lookEvery, g.look)
	}
	return ctx, func() {
		cancel(nil)
		g.running.mu.Lock()
		defer g.running.mu.Unlock()
		if delete(g.running.all, r); len(g.running.all) == 0 {
			g.running.next.Stop()
			g.running.next = nil
		}
	}
}

// look cancels what is stopped, and looks again later as long as something runs. What cannot be read
// stops nothing that runs; what begins is refused then.
func (g *Gateway) look() {
	ctx, done := context.WithTimeout(context.Background(), approvalTime)
	defer done()
	held, err := stop.Read(ctx, g.approvals)
	if err == nil {
		g.running.cancel(g.states.Current().Stopped(held))
	}
	g.running.mu.Lock()
	defer g.running.mu.Unlock()
	if g.running.next == nil {
		return // nobody wants to know any more
	}
	if err != nil {
		g.o.Log.LogAttrs(ctx, slog.LevelWarn, "what is stopped cannot be read", slog.Any("error", err))
	}
	g.running.next.Reset(lookEvery)
}

// cancel cancels what is among the stops.
func (rs *running) cancel(all stop.Stops) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for r := range rs.all {
		is, ok := all.Agent(r.agent)
		if !ok && r.server != "" {
			is, ok = all.Server(r.server)
		}
		if ok {
			r.cancel(cancelled{is})
		}
	}
}

// Running returns how many calls run in this process that a stop of the target would cancel.
func (g *Gateway) Running(t stop.Target) (n int) {
	all := stop.Stops{List: []stop.Stop{{Target: t}}}
	g.running.mu.Lock()
	defer g.running.mu.Unlock()
	for r := range g.running.all {
		_, agent := all.Agent(r.agent)
		_, server := all.Server(r.server)
		if r.server != "" && (agent || server) {
			n++
		}
	}
	return n
}

// While returns a context for a stream that an agent holds open: it ends when the agent is stopped.
func (g *Gateway) While(ctx context.Context, agent identity.Agent) (_ context.Context, leave func()) {
	return g.run(ctx, "", agent.ID)
}

// whileGoing does something with a server until the server, or the agent, is stopped. It notes
// nothing: a pending call goes on when its request has ended.
func (s *Session) whileGoing(ctx context.Context, t upstream.Target, do func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	ctx, leave := s.g.run(ctx, t.ID, s.caller.Agent.ID)
	defer leave()
	raw, err := do(ctx)
	if is, ok := stopOf(ctx); ok && err != nil {
		return nil, errors.Join(&notAsked{s.g.cancelledText(is, err)}, cancelled{is})
	}
	return raw, err
}

// callServer makes one call of a server. It asks a client of the handshake protocol what the server
// wants to know.
func (s *Session) callServer(ctx context.Context, t upstream.Target, c upstream.Call) (json.RawMessage, error) {
	raw, err := s.whileGoing(ctx, t, func(ctx context.Context) (json.RawMessage, error) {
		raw, err := s.request(ctx, t, c)
		if err == nil && !s.caller.Modern && asksInput(raw) {
			return s.relay(ctx, t, c, raw)
		}
		return raw, err
	})
	s.noteCancelled(err)
	return raw, err
}

// cancelledText is for the agent whose call was cancelled.
func (g *Gateway) cancelledText(is stop.Stop, err error) string {
	effect := "The call was sent and may have taken effect. After the stop is undone, check before calling again."
	if e, ok := errors.AsType[*outcome.CallError](err); ok && !e.Delivered {
		effect = "It had not reached the server: nothing took effect."
	}
	return "The call was cancelled, because " + is.String() + " was " + g.stopNote(is) + "\n" + effect
}
