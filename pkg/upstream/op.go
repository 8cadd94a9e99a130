package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/session"
)

// An op is one load or one call of one server, with the second chances that it has
// used up. One goroutine runs it.
type op struct {
	c     *Client
	t     Target
	ep    *endpoint // nil until begin
	peer  *peer
	key   session.Key // whose session it uses
	slot  *slot       // that of key; nil: not needed so far
	trail *trail      // of the attempt

	leg       *leg  // that the last request was sent on; nil during a handshake
	requestID int64 // of the last request
	delivered bool  // a request of the caller's was sent, and may have been carried out

	shook, refreshed, renegotiated bool
	reopened                       int       // times
	asked                          time.Time // when the last handshake asked for the stateless era; zero: it did not

	doubt *doubt // an answer that a new handshake is to explain; nil: none

	limit   time.Duration // of each step, a handshake or a request; 0: none of its own
	expired bool          // the last step took longer

	answered int  // requests of the server's own that were answered
	refused  bool // one of them asked for more than a sign of life
	outlived bool // the last attempt of a call ended by our own deadline, on a live connection
}

// newCall returns an op on the session of owner, unless all share one. It is to be
// released.
func (c *Client) newCall(t Target, owner session.Owner) *op {
	if t.Shared {
		owner = session.Owner{}
	}
	return &op{c: c, t: t, peer: c.peer(t), key: session.Key{Server: t.ID, URL: t.URL, Owner: owner}, trail: &trail{}}
}

// newLoad returns an op on a session that no caller uses.
func (c *Client) newLoad(t Target) *op {
	p := c.peer(t)
	return &op{c: c, t: t, peer: p, slot: p.loads, trail: &trail{}}
}

// begin begins an attempt: the target is resolved, unless an earlier one did so.
func (o *op) begin(ctx context.Context) error {
	o.trail.last = nil
	if o.ep != nil {
		return nil
	}
	ep, err := o.c.resolve(ctx, o.t)
	o.ep = ep
	return err
}

// do sends one request, with a handshake before it if need be. Four things get a second
// chance, once an op each, because the answer proves that the request was not
// processed: a credential that has changed meanwhile, a session that is gone (twice, if
// another instance had opened the next one), a version to negotiate, an era that is no
// longer the server's.
func (o *op) do(ctx context.Context, build func(l leg) (message, error)) (json.RawMessage, error) {
	for {
		result, err := o.once(ctx, build)
		if err == nil || !o.again(ctx, err) {
			return result, err
		}
	}
}

func (o *op) once(ctx context.Context, build func(l leg) (message, error)) (json.RawMessage, error) {
	o.leg = nil
	step, end := o.step(ctx)
	l, err := o.settle(step)
	end()
	if err != nil {
		return nil, err
	}
	if d := o.doubt; d != nil {
		if o.doubt = nil; *l == d.leg { // the era was right, so the answer meant something else
			o.leg, o.trail.last = l, d.exchange
			return nil, d.err
		}
	}
	m, err := build(*l)
	if err != nil {
		return nil, err
	}
	o.leg = l
	before := o.delivered
	o.delivered = true // a panic from here on proves nothing
	step, end = o.step(ctx)
	defer end()
	result, err := o.send(step, *l, m)
	o.delivered = before || err != nil && !o.unprocessed(err)
	return result, err
}

// step returns a context for the next step, and a function that ends it.
func (o *op) step(ctx context.Context) (context.Context, func()) {
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

// unprocessed reports whether err, or the exchange that it ended, proves that the server
// did not begin what it was asked for. An error of JSON-RPC is the server's own report.
func (o *op) unprocessed(err error) bool {
	_, own := errors.AsType[*RPCError](err)
	return own || notProcessed(o.trail.last, o.t.BehindProxy)
}

// again says whether err gets a second chance, and prepares it.
func (o *op) again(ctx context.Context, err error) bool {
	x := o.trail.last
	if x == nil || ctx.Err() != nil {
		return false
	}
	switch {
	case x.status == http.StatusUnauthorized:
		return once(&o.refreshed) && o.refresh(ctx)
	case x.status == http.StatusNotFound && x.session && o.leg != nil:
		// Twice, if the second one was not opened here but taken over.
		if o.reopened++; o.reopened > 2 || o.reopened == 2 && o.shook {
			return false
		}
		o.forget(false)
		return true
	case o.leg != nil && o.wrongEra(err):
		if !once(&o.renegotiated) {
			return false
		}
		if _, vague := errors.AsType[*statusError](err); vague && x.status == http.StatusBadRequest {
			o.doubt = &doubt{*o.leg, x, err}
		}
		o.forget(true)
		return true
	}
	return false
}

// A doubt is a 400 to a request. It is how servers turn away one of another era or of a
// session that is gone, and also how some report a tool that failed half-way: the request is
// sent again only if a new handshake ends otherwise than the one before.
type doubt struct {
	leg      leg
	exchange *exchange
	err      error
}

// once sets a flag and says whether it was not set before.
func once(done *bool) bool {
	if *done {
		return false
	}
	*done = true
	return true
}

// wrongEra tells a version to negotiate, and the answers of a server that was replaced by one of
// the other era after an earlier op had found out its era.
func (o *op) wrongEra(err error) bool {
	if rpc, ok := errors.AsType[*RPCError](err); ok {
		return rpc.Code == codeVersion || modernCode(rpc.Code) && !o.leg.modern
	}
	status, ok := errors.AsType[*statusError](err)
	return ok && !o.shook && slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}, status.status)
}

// refresh looks the secrets up again, silently, and says whether that changed the headers.
func (o *op) refresh(ctx context.Context) bool {
	for _, ref := range o.ep.refs {
		if _, err := o.c.vault.look(ctx, ref); err != nil {
			return false
		}
	}
	fresh, err := o.c.resolve(ctx, o.t)
	if err != nil || maps.EqualFunc(fresh.header, o.ep.header, slices.Equal[[]string]) {
		return false
	}
	if o.leg != nil {
		o.forget(false) // a session belongs to who opened it
		if o.leg.session != "" {
			o.c.hangUpLater(o.t, o.leg)
		}
	}
	fresh.values = append(fresh.values, o.ep.values...) // the old secret is still one
	fresh.secrets = append(fresh.secrets, o.ep.secrets...)
	o.ep = fresh
	return true
}

// nothingSent reports whether a fault of the configuration was found before anything left.
func (o *op) nothingSent(out outcome.Outcome) bool {
	return out.Reason == outcome.ReasonConfig && (o.trail.last == nil || !o.trail.last.sent)
}

// text returns err's text with every secret taken out.
func (o *op) text(err error) string { return redact(err.Error(), o.secrets()) }

// secrets are the texts that no error may show.
func (o *op) secrets() []string {
	var all []string
	if o.ep != nil {
		all = slices.Concat(o.ep.values, o.ep.secrets)
	}
	if o.leg != nil && o.leg.session != "" {
		all = append(all, o.leg.session)
	}
	return all
}

// attempt makes one attempt and says how it ended. caller is the caller's context, own that of
// the attempt. A panic ends here, where it is known whether a call was sent, and is this server's alone.
func (o *op) attempt(caller, own context.Context, f func() error) (out outcome.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
			out = classify(evidence{err: err})
		}
	}()
	if err = f(); err == nil {
		return outcome.Outcome{Status: outcome.Available}, nil
	}
	return classify(evidence{
		aborted:  caller.Err() != nil,
		expired:  o.expired || own.Err() != nil,
		err:      err,
		exchange: o.trail.last,
		proxy:    o.t.BehindProxy,
		blocked:  o.c.blockedRedirect(o.ep, o.trail.last),
		now:      o.c.o.Now(),
	}), err
}
