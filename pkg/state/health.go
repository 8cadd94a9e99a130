package state

import (
	"context"
	"log/slog"
	"time"
)

func (h *held) health(now time.Time, o Options) Health {
	out := Health{
		Config:    Part{ReadAt: h.sourceAt, Err: h.sourceErr, Stale: h.sourceErr != nil},
		Policy:    Part{Version: h.policyNumber, ReadAt: h.policyAt, Err: h.policyErr},
		Catalog:   Part{ReadAt: h.snapAt, Err: h.snapErr, Stale: h.snapErr != nil},
		Approvals: Part{ReadAt: h.approvalsAt, Err: h.approvalsErr, Stale: h.approvalsErr != nil},
		Expired:   h.expired(now, o.ApprovalHold),
	}
	if src := h.source; src != nil {
		out.Config.Version = src.Version
		out.Config.Stale = out.Config.Stale || src.Stale()
		for _, err := range []error{src.Unread, src.Refused} {
			if out.Config.Err == nil {
				out.Config.Err = err
			}
		}
		for _, w := range src.Config.Warnings {
			out.Warnings = append(out.Warnings, w.String())
		}
	}
	if out.Policy.Err == nil {
		out.Policy.Err = h.policyFault
	}
	out.Policy.Stale = out.Policy.Err != nil
	if h.policy != nil {
		for _, w := range h.policy.Warnings() {
			out.Warnings = append(out.Warnings, w.String())
		}
	}
	if h.snap != nil {
		out.Catalog.Version = h.snap.SHA256()
	}
	if h.overlay != nil && !h.overlay.newest.IsZero() {
		out.Approvals.Version = h.overlay.newest.UTC().Format(time.RFC3339Nano)
	}
	return out
}

// logChanges writes one line for each part whose error is not the one of the last refresh.
func (l *Loader) logChanges(ctx context.Context, next *held) {
	before, after := l.held.health(time.Time{}, l.o), next.health(time.Time{}, l.o)
	for _, p := range []struct {
		name       string
		was, is    error
		hasVersion bool
	}{
		{"config", before.Config.Err, after.Config.Err, after.Config.Version != ""},
		{"policy", before.Policy.Err, after.Policy.Err, next.policy != nil},
		{"catalog", before.Catalog.Err, after.Catalog.Err, after.Catalog.Version != ""},
		{"approvals", before.Approvals.Err, after.Approvals.Err, next.overlay != nil},
	} {
		switch {
		case p.is != nil && (p.was == nil || p.was.Error() != p.is.Error()):
			l.o.Log.LogAttrs(ctx, slog.LevelWarn, "state cannot be refreshed",
				slog.String("part", p.name), slog.Bool("older_in_use", p.hasVersion), slog.Any("error", p.is))
		case p.is == nil && p.was != nil:
			l.o.Log.LogAttrs(ctx, slog.LevelInfo, "state is refreshed again", slog.String("part", p.name))
		}
	}
}
