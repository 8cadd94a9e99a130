package boot

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
)

// connections returns the sign-ins of the gateway at upstream servers. It returns nil if no key
// seals sign-ins, because the gateway then cannot sign in.
// Requests to issuers obey the same address rules as requests to servers.
func (p *Program) connections(o Options) upstream.Connections {
	if o.Vault == nil {
		return nil
	}
	d := egress.Dialer{
		Rule: egress.Rule{Allow: p.Settings.AllowNets, Runtime: p.Settings.RuntimeAPI},
	}
	p.SignIns = connection.New(connection.Options{
		Docs: p.Stores.Approvals, Keys: o.Vault, Table: o.Table, Secrets: p.secrets, Log: p.Log, Now: p.now,
		Agent: "portcullis/" + Version, Event: p.connectionEvent,
		HTTP: &http.Client{
			Transport: d.Transport(),
			// A redirect would send codes and tokens to another address.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	return p.SignIns
}

// connectionEvent logs what happened to a sign-in. If the event has the number of renewals of an
// earlier day, it also writes this number to the audit.
func (p *Program) connectionEvent(ctx context.Context, e connection.Event) {
	level := slog.LevelInfo
	if e.Kind == connection.Ended {
		level = slog.LevelWarn
	}
	p.Log.LogAttrs(ctx, level, "sign-in at a server", slog.String("event", e.Kind),
		slog.String("server", e.Server), slog.String("by", e.By), slog.String("reason", e.Reason))
	if e.Renewals > 0 {
		p.record(ctx, audit.Line{
			Actor: "gateway", Action: audit.ActionRenewed, Subject: audit.AboutServer + ":" + e.Server,
			Note: text.Count(e.Renewals, "time") + " on " + e.Day,
		}, e.Day)
	}
}

// record writes a line about a server to the audit. It writes nothing if the newest line that it
// wrote about this server has the same action and state.
func (p *Program) record(ctx context.Context, l audit.Line, state string) {
	l.V, l.Kind, l.Time = audit.Version, audit.KindEvent, p.now().UTC()
	isNew := true
	if p.Stores.Events != nil {
		var err error
		if isNew, err = p.Stores.Events.PutChange(ctx, l, l.Action+" "+state); err != nil {
			p.Log.LogAttrs(
				ctx,
				slog.LevelError,
				"audit event not stored",
				slog.String(
					"action",
					l.Action,
				),
				slog.String("subject", l.Subject),
				slog.Any("error", err),
			)
			isNew = true // still write the event to the call audit
		}
	}
	if !isNew {
		return
	}
	if err := p.Audit.Write(ctx, l); err != nil {
		p.Log.LogAttrs(ctx, slog.LevelError, "audit event not written to the lines of calls",
			slog.String("action", l.Action), slog.Any("error", err))
	}
}

// hasEnded reports whether the gateway's sign-in at a server has ended since the last sync.
func hasEnded(s catalog.ServerReport) bool {
	return s.Enabled && !s.Unasked && s.Outcome.SignInEnded() && s.Before != outcome.Denied
}

// endOf identifies the end of a sign-in by the time at which the server was last available. All
// processes get the same id, so the audit gets one line.
func endOf(o outcome.Outcome) string { return o.LoadedAt.UTC().Format(time.RFC3339Nano) }

// recordEnded records each sign-in that has ended since the last sync.
func (p *Program) recordEnded(ctx context.Context, servers []catalog.ServerReport) {
	for _, s := range servers {
		if hasEnded(s) {
			p.record(ctx, audit.Line{
				Actor: "sync", Action: audit.ActionEnded, Subject: audit.AboutServer + ":" + s.Name,
				Note: text.Clip(s.Outcome.Reason+": "+s.Outcome.Error, maxEndNote),
			}, endOf(s.Outcome))
		}
	}
}

const maxEndNote = 300 // characters
