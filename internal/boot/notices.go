package boot

import (
	"context"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/auditevent"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
)

// startNotifier makes who takes what people are to be told and, if this program does, who sends it.
func (p *Program) startNotifier(o Options) {
	p.Notifier, p.wake = notify.Discard{}, o.Wake
	box := p.Stores.Outbox
	if box == nil {
		return
	}
	p.Notifier = &notify.Enqueuer{Box: box, Targets: p.targets, Wake: o.Wake, Now: p.now, Log: p.Log}
	if !o.Sends {
		return
	}
	p.Sender = notify.NewSender(box, notify.SenderOptions{
		Targets: p.targets, Secrets: p.secrets, Rule: egress.Rule{Allow: p.Settings.AllowNets, Runtime: p.Settings.RuntimeAPI},
		BaseURL: p.Settings.AdminURL, Agent: "portcullis/" + Version, Events: p.Stores.Events, Audit: p.Audit, Log: p.Log, Now: p.now,
	})
}

// targets returns where people are told of things, as of the config that is in use. It reads nothing.
func (p *Program) targets() []config.Notify {
	c := p.States.Current().Config
	// Who has a part in a sync reads the config for that, and the state rarely, if ever.
	if round := p.Syncer.Config(); round != nil && (c == nil || p.Settings.Fanout.Role != "") {
		c = round
	}
	if c == nil {
		return nil
	}
	return c.Notify
}

// Send sends what is in the outbox, if this program does that. What cannot be sent stays there.
func (p *Program) Send(ctx context.Context) notify.Sent {
	if p.Sender == nil {
		return notify.Sent{}
	}
	sent, err := p.Sender.Send(ctx)
	if err != nil {
		p.Log.LogAttrs(ctx, slog.LevelError, "notices are not sent", slog.Any("error", err))
	}
	if sent.GivenUp > 0 { // at a level that keeps the metric where few lines are kept
		p.Log.LogAttrs(ctx, slog.LevelError, "notices given up", p.Metrics.GivenUp(sent.GivenUp)...)
	}
	if sent.Told+sent.GivenUp+sent.Left > 0 {
		p.Log.LogAttrs(ctx, slog.LevelInfo, "notices", slog.Int("told", sent.Told), slog.Int("given_up", sent.GivenUp), slog.Int("left", sent.Left))
	}
	return sent
}

// sendRest has sent what is in the outbox after a sync, which found out where to, if this program does that.
func (p *Program) sendRest(ctx context.Context) {
	if p.Sender == nil || p.wake == nil {
		p.Send(ctx)
		return
	}
	if err := p.wake(ctx, ""); err != nil {
		p.Log.LogAttrs(ctx, slog.LevelError, "notices are not sent", slog.Any("error", err))
	}
}

// notifySync tells people what a sync found of servers, also one that failed: of each at most one
// event of what changed, one of what is new and one that it is down.
func (p *Program) notifySync(ctx context.Context, servers []catalog.ServerReport) {
	if len(p.targets()) == 0 {
		return
	}
	for _, s := range servers {
		for _, e := range eventsOf(s) {
			p.Notifier.Notify(ctx, e)
		}
	}
}

// notifyRequest tells people of a request that an agent opened.
func (p *Program) notifyRequest(ctx context.Context, agent string, r request.Request) {
	p.Notifier.Notify(ctx, notify.Event{
		Kind: notify.Asked, At: r.Opened, Server: r.Server, Items: []tool.ID{r.Item()},
		Agent: agent, Request: r.ID, OneCall: r.OneCall(),
	})
}

// eventsOf returns what people are told of a server after a sync. The ids come of what is in the stores:
// two syncs that see the same make the same event.
func eventsOf(s catalog.ServerReport) (events []notify.Event) {
	page := "/admin/servers/" + url.PathEscape(s.Name)
	for _, kind := range []notify.Kind{notify.Changed, notify.New} {
		e := notify.Event{Kind: kind, Server: s.Name, Path: page}
		id := []string{string(kind), s.Name}
		for _, n := range s.News {
			if n.New == (kind == notify.New) {
				e.Items = append(e.Items, n.ID)
				id = append(id, n.ID.Key(), strconv.FormatInt(n.Rev, 10))
			}
		}
		if e.ID = notify.IDOf(id...); len(e.Items) > 0 {
			events = append(events, e)
		}
	}
	now := s.Outcome
	if s.Enabled && !s.Unasked && now.Recorded() && now.Status != outcome.Available && s.Before == outcome.Available {
		events = append(events, notify.Event{
			ID: notify.IDOf(string(notify.ServerDown), s.Name, now.LoadedAt.UTC().Format(time.RFC3339Nano)), Kind: notify.ServerDown,
			Server: s.Name, Status: now.Status, Reason: now.Reason, Path: page,
		})
	}
	return events
}

// notifyRefused tells people that a file of the operator is refused.
func (p *Program) notifyRefused(ctx context.Context, r auditevent.Refused) {
	p.Notifier.Notify(ctx, notify.Event{
		ID: notify.IDOf(string(notify.ConfigRefused), r.Key, string(r.Hash), r.At.Format(time.RFC3339Nano)), Kind: notify.ConfigRefused,
		At: r.At, File: r.Key, Faults: r.Faults, Stays: r.Stays, Path: "/admin/health",
	})
}
