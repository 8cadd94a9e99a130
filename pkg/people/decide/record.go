package decide

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// recordTime is how long the recording of an event may take.
const recordTime = 5 * time.Second

// Record writes an audit event that is about no item: what a person did with tokens, sessions,
// stops and syncs. l must have the action and its subject. If l has no actor, Record uses the actor
// of the request. Record finishes even if the person no longer waits for the answer.
//
// Record logs the error that it returns. A caller that can still undo the action must undo it then,
// and tell the person.
func (d *Service) Record(ctx context.Context, l audit.Line) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	actor := ActorOf(ctx)
	l.V, l.Kind, l.Time = audit.Version, audit.KindEvent, d.o.Now().UTC()
	l.Actor, l.Source = cmp.Or(l.Actor, actor.Name), cmp.Or(l.Source, actor.Source)
	for _, s := range []*string{&l.Actor, &l.Source, &l.Subject, &l.Note} {
		*s = truncate(*s)
	}
	if err := d.o.Audit.Write(ctx, l); err != nil {
		d.o.Log.LogAttrs(ctx, slog.LevelError, "audit event not written to the lines of calls", slog.String("action", l.Action), slog.Any("error", err))
	}
	if d.o.Events == nil {
		return nil
	}
	if err := d.o.Events.PutEvent(ctx, l); err != nil {
		d.o.Log.LogAttrs(ctx, slog.LevelError, "a deed is not in the audit", slog.String("action", l.Action),
			slog.String("actor", l.Actor), slog.String("subject", l.Subject), slog.Any("error", err))
		return fmt.Errorf("record %s: %w", l.Action, err)
	}
	return nil
}

// RecordToken records that the actor made or revoked a token, with its name and permissions. Token
// registries call it.
func (d *Service) RecordToken(ctx context.Context, actor string, t token.Token) error {
	l := audit.Line{Action: audit.ActionTokenMade, Actor: actor, Subject: audit.AboutToken + ":" + t.Name, Note: scopeOf(t)}
	if !t.RevokedAt.IsZero() {
		l.Action, l.Note = audit.ActionTokenRevoked, "id "+t.ID
	}
	if d.Record(ctx, l) != nil {
		return Refuse(http.StatusServiceUnavailable, "the audit cannot be written, so no token was made: the unfinished token is revoked, and nobody has seen its text; try again in a minute")
	}
	return nil
}

// RecordRevoked records that the actor ended a person's session. The session has ended already, so
// a failure is only logged.
func (d *Service) RecordRevoked(ctx context.Context, s signin.Session) {
	_ = d.Record(ctx, audit.Line{Action: audit.ActionSessionRevoked, Subject: audit.AboutSession + ":" + s.Actor, Note: "signed in at " + s.Created.UTC().Format(time.DateTime+" UTC")})
}

// scopeOf says what the holder of a token may do.
func scopeOf(t token.Token) string {
	list := func(what string, names []string) string {
		return "; " + what + " " + cmp.Or(strings.Join(names, ", "), "none")
	}
	s := "id " + t.ID + list("servers", t.Servers) + list("tiers", t.Tiers)
	if len(t.Toolsets) > 0 {
		s += list("toolsets", t.Toolsets)
	}
	if t.Admin {
		s += "; admin"
	}
	return s + "; until " + t.ExpiresAt.UTC().Format(time.DateOnly)
}

// truncate returns the part of a text that fits into an event.
func truncate(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), audit.MaxText)], "")
}
