package boot

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
)

// connections returns the sign-ins of the gateway at upstream servers, or nil if it has no vault.
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

// connectionEvent logs what happened to a sign-in.
func (p *Program) connectionEvent(ctx context.Context, e connection.Event) {
	level := slog.LevelInfo
	if e.Kind == connection.Ended {
		level = slog.LevelWarn
	}
	p.Log.LogAttrs(ctx, level, "sign-in at a server", slog.String("event", e.Kind),
		slog.String("server", e.Server), slog.String("by", e.By), slog.String("reason", e.Reason))
}
