package decide

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

// A SignInQuery asks to sign in to a server.
type SignInQuery struct {
	Redirect string `json:"redirect" doc:"where the issuer sends the browser: http://127.0.0.1:PORT/callback, or the gateway's own /admin/sign-in/callback"`
	Confirm  bool   `json:"confirm,omitempty" doc:"the person agreed to the question of an earlier answer"`
}

// A SignInStart is a sign-in that waits for a person at the issuer.
type SignInStart struct {
	URL       string   `json:"url,omitempty" doc:"address at the issuer, to open in a browser"`
	State     string   `json:"state,omitempty" doc:"sealed; send it back with the query of the callback"`
	Issuer    string   `json:"issuer,omitempty" doc:"host of the issuer"`
	Scopes    []string `json:"scopes,omitempty" doc:"requested scopes"`
	Unchecked bool     `json:"unchecked,omitempty" doc:"the issuer publishes no metadata, so nobody knows whether it supports PKCE"`
	Question  string   `json:"question,omitempty" doc:"instead of the rest: what a person must agree to first"`
}

// A SignedIn is a finished sign-in.
type SignedIn struct {
	Connection connection.State `json:"connection"`
	Outcome    *Outcome         `json:"outcome,omitempty" doc:"result of loading the server after the sign-in; absent: a sync elsewhere loads it"`
	Tools      int              `json:"tools" doc:"number of known tools of the server"`
}

// A SignedOut is the end of a connection.
type SignedOut struct {
	Was     bool   `json:"was" doc:"false: the server had no connection"`
	Revoked bool   `json:"revoked" doc:"the issuer revoked the token"`
	Problem string `json:"problem,omitempty" doc:"why the issuer did not revoke the token"`
}

// CanSignIn reports whether the gateway can sign in to servers.
func (d *Service) CanSignIn() bool { return d.o.SignIns != nil }

var errNoVault = Refuse(http.StatusNotImplemented, "this gateway cannot sign in to servers: "+
	"on AWS, deploy it with the parameter SignIn=true")

// signInServer returns a configured server to which the gateway can sign in.
func (d *Service) signInServer(
	ctx context.Context,
	name string,
) (oauth.Server, outcome.Outcome, error) {
	if d.o.SignIns == nil {
		return oauth.Server{}, outcome.Outcome{}, errNoVault
	}
	s, err := d.findServer(ctx, d.View(ctx), name)
	if err != nil {
		return oauth.Server{}, outcome.Outcome{}, err
	}
	server, err := oauthServer(s.Config)
	return server, s.Outcome, err
}

func oauthServer(c config.Server) (oauth.Server, error) {
	t := catalog.Target(c, outcome.Outcome{})
	if t.SignIn == nil {
		return oauth.Server{}, conflict(
			"the gateway does not sign in to %s: it is a program, or its "+
				"config has an Authorization header or auth.type none",
			c.Name,
		)
	}
	return oauth.Server{Name: t.ID, URL: t.URL, Settings: *t.SignIn}, nil
}

// StartSignIn prepares the sign-in at a server. Nothing is stored except a registration of the
// gateway at the issuer.
func (d *Service) StartSignIn(
	ctx context.Context,
	name string,
	q SignInQuery,
) (SignInStart, error) {
	server, last, err := d.signInServer(ctx, name)
	if err != nil {
		return SignInStart{}, err
	}
	if !d.takesRedirect(q.Redirect) {
		return SignInStart{}, invalid(
			"redirect is neither http://127.0.0.1:PORT/callback nor %s of this gateway",
			connection.CallbackPath,
		)
	}
	r := connection.Request{
		Server: server, Redirect: q.Redirect, Document: connection.ClientID(d.o.PublicURL),
		By:      ActorOf(ctx).Name,
		Confirm: q.Confirm,
	}
	r.Challenge = d.challenge(ctx, server, last)
	p, err := d.o.SignIns.Start(ctx, r)
	switch f, _ := errors.AsType[*oauth.Fault](err); {
	case oauth.CodeOf(err) == oauth.IssuerChanged:
		const agree = ": confirm the new issuer if the server's operator announced it"
		return SignInStart{Question: f.Text + agree}, nil
	case oauth.CodeOf(err) == connection.KeyMissing:
		return SignInStart{Question: f.Text}, nil
	case err != nil:
		return SignInStart{}, signInError("nobody was signed in", err)
	}
	return SignInStart{
		URL:       p.URL,
		State:     p.Sealed,
		Issuer:    p.Issuer,
		Scopes:    p.Scopes,
		Unchecked: p.Guess,
	}, nil
}

// challenge returns what the server required when it last refused a load or a call.
func (d *Service) challenge(
	ctx context.Context, s oauth.Server, last outcome.Outcome,
) (c oauth.Challenge) {
	add := func(o *outcome.Challenge) {
		if o == nil {
			return
		}
		c.Metadata = cmp.Or(c.Metadata, o.Metadata)
		if !o.Listed {
			c.Scopes = append(c.Scopes, o.Scopes...)
		}
	}
	add(last.Challenge)
	r, ok := connection.RefusalOf(d.refusals(ctx), s.Name, s.URL)
	if ok && r.Reason != outcome.ReasonScopeNotAllowed { // a sign-in without them is still useful
		add(r.Challenge)
	}
	return c
}

// refusals returns the last refused calls of servers that need a sign-in. Without them people see
// less, so an error is only logged.
func (d *Service) refusals(ctx context.Context) map[string]connection.Refusal {
	if d.o.SignIns == nil {
		return nil
	}
	all, err := d.o.SignIns.Refusals(ctx)
	if err != nil {
		d.o.Log.LogAttrs(ctx, slog.LevelError, "refused calls not read", slog.Any("error", err))
	}
	return all
}

// addRefusal adds a refused call of a server that loads to what people see of the server.
func addRefusal(s *Server, c config.Server, all map[string]connection.Refusal) {
	r, ok := connection.RefusalOf(all, c.Name, c.URL)
	if !ok || !c.SignsIn() || s.Outcome.Status != string(outcome.Available) {
		return
	}
	o := outcome.Outcome{
		Status: outcome.Denied, Reason: r.Reason, Challenge: r.Challenge, Connected: r.Connected,
	}
	s.Outcome.Reason, s.Outcome.Challenge = r.Reason, r.Challenge
	s.Outcome.Message = "A call was refused. " + o.OperatorMessage(c.Name)
	if o.NeedsSignIn() { // no call succeeds
		s.Outcome.Status = string(outcome.Denied)
	}
}

// takesRedirect reports whether a callback is the gateway's own, or on this person's machine.
func (d *Service) takesRedirect(redirect string) bool {
	if d.o.BaseURL != "" && redirect == d.o.BaseURL+connection.CallbackPath {
		return true
	}
	u, err := url.Parse(redirect)
	return err == nil && u.Scheme == "http" && hostname.IsLoopback(u.Hostname()) &&
		(u.Path == "/callback" || u.Path == connection.CallbackPath) &&
		u.RawQuery == "" && u.Fragment == "" && u.User == nil
}

// IsOtherSignIn reports whether a callback does not belong to the sign-in that the browser holds,
// for example because the person used two tabs.
func IsOtherSignIn(err error) bool { return oauth.CodeOf(err) == oauth.BadCallback }

// signInError returns what a person may read of err.
func signInError(what string, err error) error {
	f, ok := errors.AsType[*oauth.Fault](err)
	if !ok {
		return err
	}
	status := http.StatusConflict
	switch f.Code {
	case oauth.NoClient:
		what += ": " + f.Text + ", and write its client_id into the server's member auth"
		return errors.Join(Refuse(status, what), f)
	case oauth.Unreachable, oauth.BadMetadata, oauth.BadAnswer:
		status = http.StatusBadGateway
	}
	return errors.Join(Refuse(status, what+": "+f.Text), f)
}

// FinishSignIn ends a sign-in with the query of the callback, and loads the servers once.
func (d *Service) FinishSignIn(ctx context.Context, state, query string) (SignedIn, error) {
	if d.o.SignIns == nil {
		return SignedIn{}, errNoVault
	}
	find := func(name string) (oauth.Server, bool) {
		s, _, err := d.signInServer(ctx, name)
		return s, err == nil
	}
	c, err := d.o.SignIns.Finish(ctx, state, query, find)
	if err != nil {
		return SignedIn{}, signInError("nobody was signed in", err)
	}
	ctx = WithActor(ctx, Actor{Name: c.By})
	_ = d.Record(
		ctx,
		audit.Line{Action: audit.ActionConnected, Subject: audit.AboutServer + ":" + c.Server},
	)
	out := SignedIn{Connection: c}
	for _, s := range d.syncNow(ctx).Servers {
		if s.Name == c.Server {
			o := OutcomeOf(s.Name, s.Outcome)
			out.Outcome, out.Tools = &o, s.Tools
		}
	}
	return out, nil
}

// syncNow runs a sync because a sign-in or the programs of a server began or ended. The log and the
// pages of the servers have its errors.
func (d *Service) syncNow(ctx context.Context) (r catalog.Report) {
	if d.o.Syncer != nil {
		r, _ = d.o.Syncer.Sync(ctx)
		d.states.Refresh(ctx)
	}
	return r
}

// SignOut ends the connection of a server: here, and at the issuer.
func (d *Service) SignOut(ctx context.Context, name string) (SignedOut, error) {
	server, _, err := d.signInServer(ctx, name)
	if err != nil {
		return SignedOut{}, err
	}
	was, revoke, err := d.o.SignIns.SignOut(ctx, server, ActorOf(ctx).Name)
	if err != nil || !was {
		return SignedOut{}, err
	}
	_ = d.Record(
		ctx,
		audit.Line{Action: audit.ActionDisconnected, Subject: audit.AboutServer + ":" + name},
	)
	d.syncNow(ctx)
	out := SignedOut{Was: true, Revoked: revoke == nil}
	if f, ok := errors.AsType[*oauth.Fault](revoke); ok {
		out.Problem = f.Text
	} else if revoke != nil {
		out.Problem = "the log says more"
	}
	return out, nil
}

// Connection returns the connection of a server, or nil if it has none.
func (d *Service) Connection(ctx context.Context, c config.Server) (*connection.State, error) {
	if d.o.SignIns == nil {
		return nil, nil //nolint:nilnil // no connection
	}
	server, err := oauthServer(c)
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // it can have none
	}
	st, ok, err := d.o.SignIns.State(ctx, server)
	if err != nil || !ok {
		return nil, err
	}
	return &st, nil
}
