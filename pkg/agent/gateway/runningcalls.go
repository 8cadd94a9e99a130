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

// lookEvery is how often a process with running calls reads the stops. Lambda freezes a function
// between its requests, so a function reads only while calls run.
const lookEvery = time.Second

// running holds the calls and streams of this process. While it is not empty, the gateway reads the
// stops each second and cancels the calls and streams that a stop includes.
type running struct {
	mu   sync.Mutex
	all  map[*run]bool
	next *time.Timer // makes the next read; nil: no call or stream is open
}

// A run is a call to a server. If server is "", the run is a stream of an agent.
type run struct {
	server, agent string
	cancel        context.CancelCauseFunc
}

// A stopError is the stop that cancelled a run.
type stopError struct{ stop.Stop }

func (c stopError) Error() string { return c.String() + " was " + c.Note() }

// stopOf returns the stop that cancelled the run of ctx.
func stopOf(ctx context.Context) (stop.Stop, bool) {
	c, ok := context.Cause(ctx).(stopError) //nolint:errorlint // a cause is not wrapped
	return c.Stop, ok
}

// run registers a run until leave is called. The returned context ends when ctx ends, or when a
// stop cancels the run.
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

// look cancels stopped runs. While there are runs, it schedules its next call. If the stops cannot
// be read, running calls continue, but the gateway refuses new calls.
func (g *Gateway) look() {
	ctx, done := context.WithTimeout(context.Background(), approvalTime)
	defer done()
	stops, err := stop.Read(ctx, g.approvals)
	if err == nil {
		g.running.cancel(g.states.Current().Stopped(stops))
	}
	g.running.mu.Lock()
	defer g.running.mu.Unlock()
	if g.running.next == nil {
		return // the last run has ended
	}
	if err != nil {
		g.o.Log.LogAttrs(ctx, slog.LevelWarn, "stops cannot be read", slog.Any("error", err))
	}
	g.running.next.Reset(lookEvery)
}

// cancel cancels the runs that the stops include.
func (rs *running) cancel(all stop.Stops) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for r := range rs.all {
		cause, ok := all.Agent(r.agent)
		if !ok && r.server != "" {
			cause, ok = all.Server(r.server)
		}
		if ok {
			r.cancel(stopError{cause})
		}
	}
}

// Running returns how many calls in this process a stop of the target would cancel.
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

// While returns a context for a stream that an agent holds open. The context ends when the agent is
// stopped.
func (g *Gateway) While(ctx context.Context, agent identity.Agent) (_ context.Context, leave func()) {
	return g.run(ctx, "", agent.ID)
}

// whileGoing calls do, and cancels the context of do when the server or the agent is stopped. It
// does not write to the audit, because a pending call continues after the request that began it.
func (s *Session) whileGoing(ctx context.Context, t upstream.Target, do func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	ctx, leave := s.g.run(ctx, t.ID, s.caller.Agent.ID)
	defer leave()
	raw, err := do(ctx)
	if cause, ok := stopOf(ctx); ok && err != nil {
		return nil, errors.Join(&inputError{s.g.cancelledText(cause, err)}, stopError{cause})
	}
	return raw, err
}

// callServer makes one call to a server. It passes the server's questions to a client of the
// handshake protocol.
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

// cancelledText returns the text for the agent whose call was cancelled.
func (g *Gateway) cancelledText(s stop.Stop, err error) string {
	effect := "The call was sent and may have taken effect. After the stop is undone, check before calling again."
	if e, ok := errors.AsType[*outcome.CallError](err); ok && !e.Delivered {
		effect = "It had not reached the server: nothing took effect."
	}
	return "The call was cancelled, because " + s.String() + " was " + g.stopNote(s) + "\n" + effect
}
