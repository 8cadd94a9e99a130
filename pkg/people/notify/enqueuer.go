package notify

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// postTime limits how long a caller of Notify waits.
const postTime = 3 * time.Second

// An Enqueuer is a [Notifier] that puts events into an outbox and wakes the sender. It is safe for
// concurrent use.
type Enqueuer struct {
	Box     *Outbox
	Targets func() []config.Notify                     // targets in use; must not do I/O
	Wake    func(ctx context.Context, id string) error // sends at once; nil: the next sync sends
	Now     func() time.Time                           // nil: time.Now
	Log     *slog.Logger
}

// Notify implements [Notifier]. It stores nothing if no target wants the event. If Wake fails, the
// next sync sends the event.
func (p *Enqueuer) Notify(ctx context.Context, e Event) {
	if !slices.ContainsFunc(p.Targets(), func(t config.Notify) bool { return wants(t, e) }) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), postTime)
	defer cancel()
	now := time.Now
	if p.Now != nil {
		now = p.Now
	}
	e = e.Fit(now())
	about := []slog.Attr{
		slog.String("event", string(e.Kind)),
		slog.String("server", e.Server),
		slog.String("request", e.Request),
	}
	if err := p.Box.Put(ctx, e); err != nil {
		p.Log.LogAttrs(
			ctx,
			slog.LevelError,
			"notice not delivered",
			append(about, slog.Any("error", err))...)
		return
	}
	if p.Wake == nil {
		return
	}
	if err := p.Wake(ctx, e.ID); err != nil {
		p.Log.LogAttrs(
			ctx,
			slog.LevelWarn,
			"notice waits for the next sync",
			append(about, slog.Any("error", err))...)
	}
}

// wants reports whether a target wants an event: its kind, and its server.
func wants(t config.Notify, e Event) bool {
	return slices.Contains(t.Events, string(e.Kind)) &&
		(len(t.Servers) == 0 || slices.Contains(t.Servers, e.Server))
}
