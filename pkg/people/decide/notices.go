package decide

import (
	"context"
	"errors"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// A NoticeSender sends notices to people; *notify.Sender is one.
type NoticeSender interface {
	Targets() []notify.TargetState
	Test(ctx context.Context, key, by string) (notify.TargetState, error)
}

// NoticeTargets returns the targets of the config in use. sends reports whether this process sends
// to them, and so knows its last deliveries.
func (d *Service) NoticeTargets(ctx context.Context) (targets []notify.TargetState, sends bool) {
	if d.o.Notices != nil {
		return d.o.Notices.Targets(), true
	}
	if c := d.states.Load(ctx).Config; c != nil {
		targets = notify.TargetsOf(c.Notify)
	}
	return targets, false
}

// TestNotice sends a test message to the target with this key. The result has the delivery.
func (d *Service) TestNotice(ctx context.Context, key string) (notify.TargetState, error) {
	if d.o.Notices == nil {
		return notify.TargetState{}, Refuse(http.StatusNotImplemented, "this process sends no "+
			"notices, and nothing was sent: the function that syncs sends them")
	}
	t, err := d.o.Notices.Test(ctx, key, ActorOf(ctx).Name)
	if errors.Is(err, notify.ErrNoTarget) {
		return t, Refuse(http.StatusNotFound, "the config in use has no such target, and nothing "+
			"was sent: load the page again")
	}
	if err != nil {
		return t, err
	}
	note := t.Name + ": delivered"
	if t.Last.Failure != "" {
		note = t.Name + ": not delivered, " + t.Last.Failure
	}
	// The message is sent already. Record logs its own error.
	_ = d.Record(ctx, audit.Line{
		Action: audit.ActionNoticeTested, Subject: audit.AboutFile + ":" + config.Key, Note: note,
	})
	return t, nil
}

// SettingsInUse has the settings of the config in use that decide what people must do.
type SettingsInUse struct {
	*config.Config                       // nil: none was read
	Issuer         bool                  // people sign in with an issuer
	Asks           bool                  // agents may request access
	Line           func(path string) int // line of a setting in mcp_config.json; 0: it is not there
}

// Settings returns the settings in use.
func (d *Service) Settings(ctx context.Context) SettingsInUse {
	st := d.states.Load(ctx)
	lines := config.NewLocator(st.Files[config.Key].InUse)
	out := SettingsInUse{st.Config, d.o.Issuer, d.o.Asks, lines.Line}
	if st.Config != nil && st.Config.Gateway.Requests != nil {
		out.Asks = *st.Config.Gateway.Requests
	}
	out.Asks = out.Asks && d.TakesRequests()
	return out
}
