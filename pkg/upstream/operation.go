package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
)

// An operation is one load or one call of one server, and records its used retries. One goroutine
// runs it.
type operation struct {
	c      *Client
	t      Target
	ep     *endpoint // nil until begin
	server *serverState
	key    entryKey      // of the session to use
	entry  *sessionEntry // the entry of key; nil: not needed so far
	unhold func()        // releases the program; nil: it uses none

	session   *mcpSession // of the last request; nil during a handshake
	last      *exchange   // the last exchange of the attempt; nil: none so far
	requestID int64       // of the last request
	page      *pageReader // reads the current page; nil: none
	delivered bool        // the caller's request was sent, and may have taken effect

	handshook, refreshed, renegotiated bool
	renewal                            error     // why the server's refused token was not renewed; nil: not tried
	reopened                           int       // how many times a session was opened again
	askedModern                        time.Time // when the last handshake requested the stateless protocol; zero: never

	single    bool       // do not send a request again after an ambiguous answer
	ambiguous *ambiguity // an answer that a new handshake must explain; nil: none

	limit   time.Duration // of each step, a handshake or a request; 0: none
	expired bool          // the last step exceeded the limit

	client    mcp.Client // gets the server's messages and questions; the zero value in a load
	clock     *clock     // stops during a question; nil: none
	questions *questions // nil: the server has asked nothing

	outlived bool // the last attempt of a call ended by our own deadline, on a live connection
}

// newOperation returns a load, on a session that no caller uses, or a call. A call uses the session
// of owner, or the shared session. The caller must release the operation.
func (c *Client) newOperation(t Target, load bool, owner session.Owner) *operation {
	if t.Shared {
		owner = session.Owner{}
		load = load && t.Command == nil // one process serves all callers, and has one session
	}
	return &operation{c: c, t: t, server: c.server(t), key: entryKey{session.Key{Server: t.ID, URL: t.URL, Owner: owner}, load}}
}

// begin begins an attempt. It resolves the target unless an earlier attempt did so.
func (o *operation) begin(ctx context.Context) error {
	o.last = nil
	if o.ep != nil {
		return nil
	}
	ep, err := o.c.resolve(ctx, o.t, o.key)
	if o.ep = ep; err == nil && o.t.Command != nil {
		o.unhold = o.c.programs.hold(o.key)
	}
	return err
}

// do sends one request, after a handshake if there is no session. Four errors get a retry, once per
// operation, because they prove that the server did not process the request: a credential that has
// changed, a lost session, a version to negotiate, and a changed protocol. A lost session gets two
// retries if another instance had opened the next session.
func (o *operation) do(ctx context.Context, build func(s mcpSession) (message, error)) (json.RawMessage, error) {
	for {
		result, err := o.once(ctx, build)
		if err == nil || !o.prepareRetry(ctx, err) {
			return result, err
		}
	}
}

func (o *operation) once(ctx context.Context, build func(s mcpSession) (message, error)) (json.RawMessage, error) {
	o.session = nil
	step, end := o.step(ctx)
	s, err := o.ensureSession(step)
	end()
	if err != nil {
		return nil, err
	}
	if d := o.ambiguous; d != nil {
		if o.ambiguous = nil; s.equal(d.session) { // same protocol: the 400 has another cause
			o.session, o.last = s, d.exchange
			return nil, d.err
		}
	}
	m, err := build(*s)
	if err != nil {
		return nil, err
	}
	o.session = s
	o.setLevel(ctx, s)
	defer o.listen(ctx, s, m.id)()
	before := o.delivered
	o.delivered = true // after a panic, the request may have arrived
	step, end = o.step(ctx)
	defer end()
	result, err := o.send(step, *s, m)
	o.delivered = before || err != nil && !o.unprocessed(err)
	return result, err
}

// step returns a context for the next step, and a function that ends it.
func (o *operation) step(ctx context.Context) (context.Context, func()) {
	o.expired = false
	if o.limit == 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	return ctx, func() {
		o.expired = ctx.Err() != nil
		cancel()
	}
}

// unprocessed reports whether err, or the exchange that failed with err, proves that the server did
// not begin the request. A JSON-RPC error is the server's own report.
func (o *operation) unprocessed(err error) bool {
	_, own := errors.AsType[*outcome.RPCError](err)
	return own || notProcessed(o.last, o.t.BehindProxy)
}

// prepareRetry reports whether err gets a retry, and prepares the retry.
func (o *operation) prepareRetry(ctx context.Context, err error) bool {
	x := o.last
	if x == nil || ctx.Err() != nil {
		return false
	}
	switch {
	case x.status == http.StatusUnauthorized:
		return once(&o.refreshed) && o.refresh(ctx)
	case x.status == http.StatusNotFound && x.session && o.session != nil:
		// Two retries, if the second session came from another instance.
		if o.reopened++; o.reopened > 2 || o.reopened == 2 && o.handshook {
			return false
		}
		o.forget(false)
		return true
	case o.session != nil && o.wrongProtocol(err):
		_, vague := errors.AsType[*statusError](err)
		vague = vague && x.status == http.StatusBadRequest
		if vague && o.single || !once(&o.renegotiated) {
			return false
		}
		if vague {
			o.ambiguous = &ambiguity{*o.session, x, err}
		}
		o.forget(true)
		return true
	}
	return false
}

// An ambiguity is a 400 to a request. With 400, servers refuse another protocol or a lost session,
// and some servers report a tool that failed half-way. The gateway repeats the request only if a
// new handshake has another result than the last handshake.
type ambiguity struct {
	session  mcpSession
	exchange *exchange
	err      error
}

// once sets a flag and reports whether it was unset before.
func once(done *bool) bool {
	if *done {
		return false
	}
	*done = true
	return true
}

// wrongProtocol reports whether there is a version to negotiate. It also returns true if the server
// now uses another protocol than in an earlier operation.
func (o *operation) wrongProtocol(err error) bool {
	if rpc, ok := errors.AsType[*outcome.RPCError](err); ok {
		return rpc.Code == mcp.CodeVersion || modernCode(rpc.Code) && !o.session.modern
	}
	status, ok := errors.AsType[*statusError](err)
	return ok && !o.handshook && slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}, status.status)
}

// refresh reads the secrets again and renews the token of a sign-in, and reports whether that
// changed the headers. It logs nothing.
func (o *operation) refresh(ctx context.Context) bool {
	for _, ref := range o.ep.refs {
		if _, err := o.c.cache.look(ctx, ref); err != nil {
			return false
		}
	}
	t, token := o.t, secret.Text{}
	if rejected := o.ep.token; rejected.Reveal() != "" {
		token, o.renewal = o.c.o.Connections.Renew(ctx, o.t.signInServer(), rejected)
		if o.renewal != nil || token.Reveal() == "" {
			return false
		}
		t.SignIn = nil // the caller's read of the connection has the old token
	}
	fresh, err := o.c.resolve(ctx, t, o.key)
	switch {
	case err != nil:
		return false
	case token.Reveal() != "":
		fresh.useToken(token, o.c.o.Connections.Secrets(o.t.signInServer()))
	case maps.EqualFunc(fresh.header, o.ep.header, slices.Equal[[]string]):
		return false
	}
	if o.session != nil {
		o.forget(false) // a session belongs to the credential that opened it
		if o.session.id != "" {
			o.c.endLater(o.t, o.session)
		}
	}
	fresh.values = append(fresh.values, o.ep.values...) // the old secret stays a secret
	fresh.secrets = append(fresh.secrets, o.ep.secrets...)
	o.ep = fresh
	return true
}

// nothingSent reports whether a fault of the configuration ended the operation before it sent
// anything.
func (o *operation) nothingSent(out outcome.Outcome) bool {
	return (out.Reason == outcome.ReasonConfig || out.Reason == outcome.ReasonNeedsCommand) && (o.last == nil || !o.last.sent)
}

// text returns err's text without secrets.
func (o *operation) text(err error) string { return redact(err.Error(), o.secrets()) }

// secrets returns the texts that must not appear in an error.
func (o *operation) secrets() []string {
	var all []string
	if o.ep != nil {
		all = slices.Concat(o.ep.values, o.ep.secrets)
	}
	if o.session != nil && o.session.id != "" {
		all = append(all, o.session.id)
	}
	return all
}

// attempt makes one attempt and returns its outcome. caller is the caller's context, own is the
// attempt's context. attempt recovers a panic, because only attempt knows whether it sent a call,
// and the panic affects only this server.
func (o *operation) attempt(caller, own context.Context, f func() error) (out outcome.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
			out = classify(evidence{err: err})
		}
	}()
	if err = f(); err == nil {
		return outcome.Outcome{Status: outcome.Available}, nil
	}
	defer func() {
		if o.t.Command != nil {
			out.HTTPStatus = 0 // no HTTP response
		}
	}()
	return classify(evidence{
		aborted:  caller.Err() != nil,
		expired:  o.expired || own.Err() != nil,
		err:      err,
		exchange: o.last,
		proxy:    o.t.BehindProxy,
		blocked:  o.c.blockedRedirect(o.ep, o.last),
		now:      o.c.o.Now(),

		authorized: o.authorized(),
		connected:  o.ep != nil && o.ep.token.Reveal() != "",
		renewal:    o.renewal,
	}), err
}
