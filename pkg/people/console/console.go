// Package console is what people see of /admin in a browser: pages that show every tool with its
// lock, and forms that decide about it. It stands before the JSON API, and lets in whom it knows:
// by the credentials of a request, or by a session of the browser.
//
// A browser could be made to send requests by another site: what changes something must come from
// the same origin. That is checked before the credentials.
package console

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// Options are what a console is made of. Without Actor and SignIn nobody is let in.
type Options struct {
	Service *decide.Service
	API     http.Handler // answers what asks for no page

	// Actor says who sends a request. An error refuses the request; if it is an
	// [*identity.Error] its Kind chooses the status. nil refuses all.
	Actor func(*http.Request) (decide.Actor, error)

	// Challenge is what a caller whom Actor refuses is told.
	Challenge Challenge

	// Tokens makes and revokes agent tokens; nil: there are none, and no page of them.
	Tokens *token.Registry

	// Connect is what clients are told of; nil: the gateway does not know where it is.
	Connect *connect.Gateway

	// SignIn is how people sign in with a browser; nil: nobody can sign in here.
	SignIn *SignIn

	BaseURL string           // of the gateway, for links: "https://gate.example.com"
	Now     func() time.Time // nil: time.Now
	Log     *slog.Logger     // nil: none
}

// A Console serves /admin and all below it.
type Console struct {
	o       Options
	handler http.Handler
	shown   viewCache
	asks    asks
}

// New returns the console.
func New(o Options) *Console {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Connect == nil {
		o.Connect = &connect.Gateway{}
	}
	c := &Console{o: o}
	c.handler = c.guard(c.pages(o.API))
	return c
}

// ServeHTTP implements [http.Handler].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }
