// Package console serves the pages below /admin, which show tools with their locks and have the
// forms for decisions. It wraps the JSON API, and authenticates callers by the credentials of a
// request or by a browser session.
//
// Another site could make a browser send requests, so a request that changes something must have
// the same origin. The console checks the origin before the credentials.
package console

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// Options configure a console. Without Actor and SignIn the console refuses every caller.
type Options struct {
	Service *decide.Service
	API     http.Handler // answers requests that are not for a page

	// Actor identifies the caller of a request. If it returns an error, the console refuses the
	// request, with the status for the Kind of an [*identity.Error]. A nil Actor refuses all
	// requests.
	Actor func(*http.Request) (decide.Actor, error)

	// Challenge is the answer to a caller that Actor refuses.
	Challenge Challenge

	// Tokens makes and revokes agent tokens. If it is nil, the gateway has no agent tokens, and the
	// console has no page for them.
	Tokens *token.Registry

	// Connect is the address and the settings that clients need; nil: the address is not known.
	Connect *connect.Gateway

	// SignIn configures the sign-in with a browser. If it is nil, nobody can sign in.
	SignIn *SignIn

	Ending <-chan struct{} // closed before the program ends, which ends open streams; nil: never

	BaseURL string           // of the gateway, for links: "https://gate.example.com"
	Now     func() time.Time // nil: time.Now
	Log     *slog.Logger     // nil: none
}

// A Console serves /admin and all addresses below it.
type Console struct {
	o       Options
	handler http.Handler
	shown   viewCache
	calls   *signin.Codes // one-time codes of the forms that call a tool
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
	c := &Console{o: o, calls: signin.NewCodes(o.Now)}
	c.handler = c.guard(c.pages(o.API))
	return c
}

// ServeHTTP implements [http.Handler].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }
