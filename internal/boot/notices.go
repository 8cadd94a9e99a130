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

// startNotifier creates the notifier and, if this program sends, the sender.
func (p *Program) startNotifier(o Options) {
	p.Notifier, p.wake = notify.Discard{}, o.Wake
	box := p.Stores.Outbox
	if box == nil {
		return
	}
	p.Notifier = &notify.Enqueuer{
		Box:     box,
		Targets: p.targets,
		Wake:    o.Wake,
		Now:     p.now,
		Log:     p.Log,
	}
	if !o.Sends {
		return
	}
	p.Sender = notify.NewSender(box, notify.SenderOptions{
		Targets: p.targets, Secrets: p.secrets, Rule: egress.Rule{Allow: p.Settings.AllowNets, Runtime: p.Settings.RuntimeAPI},
		BaseURL: p.Settings.AdminURL, Agent: "portcullis/" + Version, Events: p.Stores.Events, Audit: p.Audit, Log: p.Log, Now: p.now,
	})
}

// targets returns the receivers of notices in the current config. It reads nothing.
func (p *Program) targets() []config.Notify {
	c := p.States.Current().Config
	// A function of a distributed sync reads the config for its part of the sync. It rarely or
	// never reads the state.
	if round := p.Syncer.Config(); round != nil && (c == nil || p.Settings.Fanout.Role != "") {
		c = round
	}
	if c == nil {
		return nil
	}
	return c.Notify
}

// Send delivers the outbox, if this program sends. Undeliverable notices stay there.
func (p *Program) Send(ctx context.Context) notify.SendReport {
	if p.Sender == nil {
		return notify.SendReport{}
	}
	sent, err := p.Sender.Send(ctx)
	if err != nil {
		p.Log.LogAttrs(ctx, slog.LevelError, "notices are not sent", slog.Any("error", err))
	}
	if sent.GivenUp > 0 { // this line has the metric, and no log level drops an error
		p.Log.LogAttrs(ctx, slog.LevelError, "notices given up", p.Metrics.GivenUp(sent.GivenUp)...)
	}
	if sent.Told+sent.GivenUp+sent.Left > 0 {
		p.Log.LogAttrs(
			ctx,
			slog.LevelInfo,
			"notices",
			slog.Int("told", sent.Told),
			slog.Int("given_up", sent.GivenUp),
			slog.Int("left", sent.Left),
		)
	}
	return sent
}

// sendRest delivers the outbox after a sync, if this program sends. If it has a wake function,
// sendRest only wakes the sender.
func (p *Program) sendRest(ctx context.Context) {
	if p.Sender == nil || p.wake == nil {
		p.Send(ctx)
		return
	}
	if err := p.wake(ctx, ""); err != nil {
		p.Log.LogAttrs(ctx, slog.LevelError, "notices are not sent", slog.Any("error", err))
	}
}

// notifySync notifies people of the result of a sync, even a failed one. It sends at most three
// events for each server: changed items, new items, and that the server is down or its sign-in has
// ended.
func (p *Program) notifySync(ctx context.Context, servers []catalog.ServerReport) {
	p.recordEnded(ctx, servers)
	if len(p.targets()) == 0 {
		return
	}
	for _, s := range servers {
		for _, e := range eventsOf(s) {
			p.Notifier.Notify(ctx, e)
		}
	}
}

// notifyRequest notifies people of a request that an agent opened.
func (p *Program) notifyRequest(ctx context.Context, agent string, r request.Request, tier string, findings int) {
	p.Notifier.Notify(ctx, notify.Event{
		Kind: notify.RequestMade, At: r.Opened, Server: r.Server, Items: []tool.ID{r.Item()},
		Agent: agent, Request: r.ID, OneCall: r.OneCall(), Tier: tier, Findings: findings,
	})
}

// eventsOf returns the notices about a server after a sync. Their ids depend only on stored data:
// two syncs with the same result create the same event.
func eventsOf(s catalog.ServerReport) (events []notify.Event) {
	page := "/admin/servers/" + url.PathEscape(s.Name)
	for _, kind := range []notify.Kind{notify.Changed, notify.New} {
		e := notify.Event{Kind: kind, Server: s.Name, Path: page}
		id := []string{string(kind), s.Name}
		rated, tier := true, tool.Read
		for _, n := range s.News {
			if n.New == (kind == notify.New) {
				e.Items = append(e.Items, n.ID)
				rated, tier, e.Findings = rated && n.IsRated, min(tier, n.Tier), e.Findings+n.Findings
				id = append(id, n.ID.Key(), strconv.FormatInt(n.Rev, 10))
			}
		}
		if rated {
			e.Tier = tier.String()
		}
		if e.ID = notify.IDOf(id...); len(e.Items) > 0 {
			events = append(events, e)
		}
	}
	now := s.Outcome
	if hasEnded(s) {
		return append(events, notify.Event{
			ID:   notify.IDOf(string(notify.SignInEnded), s.Name, endOf(now)),
			Kind: notify.SignInEnded, Server: s.Name, Status: now.Status, Reason: now.Reason, Path: page,
		})
	}
	if s.Enabled && !s.Unasked && now.Recorded() && now.Status != outcome.Available &&
		s.Before == outcome.Available {
		events = append(events, notify.Event{
			ID: notify.IDOf(
				string(notify.ServerDown),
				s.Name,
				now.LoadedAt.UTC().Format(time.RFC3339Nano),
			), Kind: notify.ServerDown,
			Server: s.Name, Status: now.Status, Reason: now.Reason, Path: page,
		})
	}
	return events
}

// notifyRefused notifies people that the gateway refused a file of the operator.
func (p *Program) notifyRefused(ctx context.Context, r auditevent.Refused) {
	p.Notifier.Notify(ctx, notify.Event{
		ID: notify.IDOf(
			string(notify.ConfigRefused),
			r.Key,
			string(r.Hash),
			r.At.Format(time.RFC3339Nano),
		), Kind: notify.ConfigRefused,
		At: r.At, File: r.Key, Faults: r.Faults, Stays: r.Stays, Path: "/admin/health",
	})
}
