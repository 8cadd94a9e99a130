package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// A result is the answer of the sync function. It contains numbers and codes, but no text of a
// server.
type result struct {
	Result  string `json:"result"` // ok, skipped, sent, planned or failed
	Trigger string `json:"trigger"`
	Config  string `json:"config,omitempty"` // version of the config that was used
	Stale   bool   `json:"config_stale,omitempty"`
	// why the gateway does not use the stored config
	Faults     []string `json:"config_faults,omitempty"`
	OldPolicy  bool     `json:"policy_stale,omitempty"`
	Tools      int      `json:"tools"`
	New        int      `json:"new"`
	Changed    int      `json:"changed"`
	Unasked    int      `json:"unasked,omitempty"` // servers that the sync had no time for
	Stored     bool     `json:"stored"`
	Superseded bool     `json:"superseded,omitempty"`
	DurationMS int64    `json:"duration_ms"`
	Told       int      `json:"told,omitempty"` // sent messages
	Left       int      `json:"left,omitempty"` // notices that have not reached every receiver yet
	Servers    []server `json:"servers,omitempty"`
	// servers that workers will load; after them, an assembly stores the catalog
	Planned int `json:"planned,omitempty"`
}

// A server is one server's part of a [result].
type server struct {
	Name   string `json:"name"`
	Status string `json:"status"` // the status of an outcome, or disabled
	Reason string `json:"reason,omitempty"`
	Tools  int    `json:"tools"`
}

// A handler runs a sync for each event that requests a sync.
type handler struct {
	program   *boot.Program
	isPlanner bool // workers load the servers; if false, this function does
	queues    catalog.Queues
}

// Invoke implements [lambda.Handler]. Lambda shows the error to the invoker, so the error does not
// contain the cause. The log does.
func (h handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	e, err := parseEvent(payload)
	if err != nil {
		return nil, err
	}
	if !e.asksSync() {
		h.program.Log.LogAttrs(ctx, slog.LevelInfo, "event ignored",
			append([]slog.Attr{slog.String("trigger", e.trigger), slog.String("key", e.key)}, h.program.Metrics.Sync(observe.SyncRun{Result: "skipped"})...)...)
		return json.Marshal(result{Result: "skipped", Trigger: e.trigger})
	}
	if e.trigger == outbox {
		h.program.States.Load(ctx) // loads the receivers of notices
		sent := h.program.Send(ctx)
		return json.Marshal(result{Result: "sent", Trigger: e.trigger, Told: sent.Told, Left: sent.Left})
	}
	if h.isPlanner {
		return h.plan(ctx, e)
	}
	h.program.Log.LogAttrs(ctx, slog.LevelInfo, "sync begins", slog.String("trigger", e.trigger), slog.String("key", e.key))
	run := h.program.Sync
	if e.trigger == "schedule" {
		run = h.program.SyncDue // it skips recently loaded servers that have not changed for a long time
	}
	r, err := run(ctx)
	if err != nil {
		h.program.Log.LogAttrs(ctx, slog.LevelError, "sync failed", slog.Any("error", err))
		return nil, syncFailure(err)
	}
	return json.Marshal(newResult(e, r))
}

// plan begins a round of a distributed sync.
func (h handler) plan(ctx context.Context, e event) ([]byte, error) {
	plan, err := h.program.Syncer.Plan(ctx, h.queues, e.trigger != "schedule")
	h.program.Log.LogAttrs(ctx, slog.LevelInfo, "sync planned", slog.String("trigger", e.trigger), slog.String("key", e.key), slog.String("round", plan.Round.ID()),
		slog.Int("servers", plan.Servers), slog.Int("messages", plan.Messages), slog.Bool("assembly", plan.Confirm))
	sent := h.program.Send(ctx)
	if err != nil {
		h.program.Log.LogAttrs(ctx, slog.LevelError, "sync planning failed", slog.Any("error", err))
		return nil, errors.New("sync failed: planning did not finish; the old catalog stays " +
			"until the next round, and the log says why")
	}
	return json.Marshal(result{Result: "planned", Trigger: e.trigger, Config: plan.Round.Config, Planned: plan.Servers, Told: sent.Told, Left: sent.Left})
}

// syncFailure returns the part of a failure that the invoker may read.
func syncFailure(err error) error {
	switch {
	case errors.Is(err, catalog.ErrRequired):
		return errors.New("sync failed: a required server did not load; the old catalog stays")
	case errors.As(err, new(config.Faults)):
		return errors.New("sync failed: there is no config that can be used")
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("sync failed: it ran out of time; the old catalog stays")
	}
	return errors.New("sync failed; the log says why")
}

func newResult(e event, r catalog.Report) result {
	out := result{
		Result: "ok", Trigger: e.trigger, Config: r.Config, Stale: r.ConfigErr != nil, OldPolicy: r.PolicyErr != nil,
		Tools: r.Tools, New: r.New, Changed: r.Changed, Unasked: r.Unasked, Stored: r.Stored, Superseded: r.Superseded,
		DurationMS: r.Duration.Milliseconds(),
	}
	if errors.Is(r.ConfigErr, object.ErrGone) {
		out.Faults = []string{object.ErrGone.Error()}
	}
	if faults, ok := errors.AsType[config.Faults](r.ConfigErr); ok {
		for _, f := range faults {
			out.Faults = append(out.Faults, f.String())
		}
	}
	for _, s := range r.Servers {
		status := string(s.Outcome.Status)
		if !s.Enabled {
			status = "disabled"
		}
		out.Servers = append(out.Servers, server{s.Name, status, s.Outcome.Reason, s.Tools})
	}
	return out
}
