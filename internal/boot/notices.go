package boot

import (
	"context"

	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/notify"
)

// teller returns who takes what people are to be told.
func (p *Program) teller(wake func(context.Context, string) error) notify.Teller {
	if p.Stores.Outbox == nil {
		return notify.Nobody{}
	}
	return &notify.Post{Box: p.Stores.Outbox, Targets: p.targets, Wake: wake, Now: p.now, Log: p.Log}
}

// targets returns where people are told of things, as of the config that is in use. It reads nothing.
func (p *Program) targets() []config.Notify {
	if c := p.States.Current().Config; c != nil {
		return c.Notify
	}
	return nil
}
