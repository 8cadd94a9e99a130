// Package bootadmin puts the console and the admin API in front of a gateway. It is separate from
// package boot, so that programs without /admin do not link the console and the sessions of people.
package bootadmin

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/console"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// Handler returns the handler of /admin. POST /admin/sync runs sync.
func Handler(p *boot.Program, sync decide.Syncer, b Browsers) (http.Handler, error) {
	auth, err := p.Authenticator(context.Background())
	if err != nil {
		return nil, err
	}
	if p.Settings.Access.Open() {
		auth = keyholders(p)
	}
	admins := identity.Admins(auth)
	s := &p.Settings
	service := newService(p, sync, s.Access.ClientID != "" && b.Store != nil, b.Config)
	tokens := registry(p, service)
	gate := clientsAt(p)
	signIn, err := b.signIn(p, admins)
	if err != nil {
		return nil, err
	}
	var sessions *signin.Sessions
	if signIn != nil {
		sessions = signIn.Sessions
	}
	return console.New(console.Options{
		Service: service, API: admin.New(service, tokens, gate, sessions), Tokens: tokens, Connect: gate,
		Actor: func(r *http.Request) (decide.Actor, error) {
			agent, err := admins.Authenticate(r)
			actor := decide.Actor{Name: agent.ID, Rights: agent.Rights}
			// the holder of a key of /admin is not an agent
			if !s.Access.Open() && agent.ID != identity.BootstrapAgent {
				actor.Agent = agent.ID
			}
			return actor, err
		},
		Challenge: challenge(p), SignIn: signIn, BaseURL: s.AdminURL, Ending: p.Ending(), Log: p.Log,
	}), nil
}

// API returns the admin API with all rights, for a caller that can open the stores directly.
func API(p *boot.Program, sync decide.Syncer, actor string) (http.Handler, error) {
	if _, err := p.Authenticator(context.Background()); err != nil { // reads the agent tokens
		return nil, err
	}
	service := newService(p, sync, p.Settings.Access.ClientID != "", nil)
	api := admin.New(service, registry(p, service), clientsAt(p), nil)
	who := decide.Actor{Name: actor, Rights: identity.Everything()}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(w, r.WithContext(decide.WithActor(r.Context(), who)))
	}), nil
}

// newService returns the service of the console and the API. issuer reports whether people sign in
// at an issuer. cfg is the config in the gateway's folder, or nil.
func newService(
	p *boot.Program, sync decide.Syncer, issuer bool, cfg decide.ConfigFile,
) *decide.Service {
	var running func(stop.Target) int
	var servers decide.ServerControl
	var caller decide.ToolCaller
	var folder object.Store
	if p.Timeouts.Holds { // calls run in this process
		running, servers, caller = p.Gateway.Running, p.Upstream, p.Gateway
		folder = p.Stores.Objects
	}
	var calls audit.Reader
	var files audit.Folder
	var days decide.AuditDays
	if p.Calls != nil {
		calls, days, files = p.Calls, p.Calls, p.Calls.Folder()
	}
	var notices decide.NoticeSender
	if p.Sender != nil {
		notices = p.Sender
	}
	return decide.New(p.States, p.Stores.Approvals, decide.Options{
		Notices: notices, Asks: p.Asks(), ConfigFolder: folder,
		Config: cfg, Objects: p.Stores.Objects, Prober: p,
		Issuer: issuer, Copier: p.Stores.Copier, Files: files, Tokens: p.Stores.Tokens,
		Stops: stop.NewStore(p.Stores.Approvals), Running: running, Servers: servers, Caller: caller,
		AlarmReceivers: p.AlarmReceivers,
		Requests:       p.Stores.Requests, Sealer: p.Sealer, Notifier: p.Notifier,
		Events: p.Stores.Events, Audit: p.Audit, Calls: calls, CallStore: callStore(p), CallLinks: callLinks(p), Dashboard: dashboard(p), Days: days, Feed: p.Feed, Seen: p.Seen, HoldsAnswers: !p.Timeouts.Holds, Usage: p.Usage, SignIns: p.SignIns, Syncer: sync, SearchExplainer: p.Gateway, Agents: p.Names(), PublicURL: p.Settings.BaseURL, BaseURL: p.Settings.AdminURL, Version: boot.Version, Log: p.Log,
	})
}

// registry returns the registry that creates agent tokens, or nil if there are none.
func registry(p *boot.Program, service *decide.Service) *token.Registry {
	if p.Tokens == nil {
		return nil
	}
	return &token.Registry{
		Store:  p.Tokens.Store,
		Keys:   p.Tokens.Keys,
		Log:    p.Log,
		Record: service.RecordToken,
	}
}

// callStore returns where a person finds the lines of agents' calls, if another process writes
// them.
func callStore(p *boot.Program) string {
	if p.Timeouts.Holds {
		return "the program's log" // it has the lines of this process
	}
	return cmp.Or(
		p.Settings.AuditStore,
		`the log of the function that agents call, as lines with "audit": 1; the template's parameter Audit keeps them as files`,
	)
}

// consoleOfAWS returns the address of the AWS console in the function's region, or "" if the program
// is no function.
func consoleOfAWS(p *boot.Program) string {
	region := p.Settings.Region
	if p.Timeouts.Holds || region == "" {
		return ""
	}
	domain := "console.aws.amazon.com"
	switch {
	case strings.HasPrefix(region, "cn-"):
		domain = "console.amazonaws.cn"
	case strings.HasPrefix(region, "us-gov-"):
		domain = "console.amazonaws-us-gov.com"
	}
	return "https://" + region + "." + domain
}

// dashboard returns the address of the dashboard of the function's stack, or "" if there is none.
// infra/observability.yaml gives it its name.
func dashboard(p *boot.Program) string {
	at, region := consoleOfAWS(p), p.Settings.Region
	if at == "" || p.Settings.Stack == "" {
		return ""
	}
	return at + "/cloudwatch/home?region=" + region + "#dashboards/dashboard/" + p.Settings.Stack + "-" + region
}

// callLinks returns links to the consoles of AWS in which a person reads the lines of agents' calls.
func callLinks(p *boot.Program) (links []decide.CallLink) {
	at, region := consoleOfAWS(p), p.Settings.Region
	if at == "" {
		return nil
	}
	if group := p.Settings.UsageLogs; group != "" {
		links = append(links, decide.CallLink{
			Name: "CloudWatch Logs Insights", Group: group,
			URL: at + "/cloudwatch/home?region=" + region + "#logsV2:logs-insights",
		})
	}
	if p.Settings.AuditStore != "" {
		links = append(links, decide.CallLink{
			Name: "Athena", URL: at + "/athena/home?region=" + region + "#/query-editor",
		})
	}
	return links
}

// clientsAt returns the connection data that clients need for a gateway.
func clientsAt(p *boot.Program) *connect.Gateway {
	a := p.Settings.Access
	g := &connect.Gateway{BaseURL: p.Settings.BaseURL, Issuer: a.JWT.Issuer, Seen: p.Seen}
	for _, way := range a.Ways {
		switch way {
		case identity.WayNone:
			g.Auths = append(g.Auths, connect.None)
		case identity.WayToken:
			g.Auths = append(g.Auths, connect.Bearer)
		case identity.WayJWT:
			g.Auths = append(g.Auths, connect.OAuth)
		case identity.WayIAM:
			g.Auths = append(g.Auths, connect.Signed)
		}
	}
	return g
}

// Everything returns the handler of every path, for a program that serves all of them.
func Everything(p *boot.Program, b Browsers) (http.Handler, error) {
	mux, err := p.Public()
	if err != nil {
		return nil, err
	}
	handler, err := Handler(p, p, b)
	if err != nil {
		return nil, err
	}
	mux.Handle("/admin", handler)
	mux.Handle("/admin/", handler)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "./admin")
		w.WriteHeader(http.StatusFound)
	})
	return p.Traced(mux), nil
}

// keys are the keys that open /admin if the gateway accepts every agent.
type keys []identity.AdminKey

// Authenticate implements [identity.Authenticator]. It accepts the bearer of one of the keys.
func (k keys) Authenticate(r *http.Request) (agent identity.Agent, err error) {
	for _, key := range k {
		if agent, err = key.Authenticate(r); err == nil {
			break
		}
	}
	return agent, err
}

// keyholders returns the keys that open /admin if the gateway accepts every agent: the bootstrap
// token, if it is set, and on one machine the key in the gateway's folder.
func keyholders(p *boot.Program) keys {
	k := keys{{Digest: p.Settings.Access.Bootstrap, ID: identity.BootstrapAgent}}
	if p.Owner != nil {
		k = append(k, identity.AdminKey{Digest: token.Digest(p.Owner.Key), ID: p.Owner.Name})
	}
	return k
}

// Closed returns why nobody can use /admin, and how to change that. It is "" if somebody can.
func Closed(p *boot.Program) string { return challenge(p).Shut }

// challenge returns the answer to a caller that may not use /admin.
func challenge(p *boot.Program) console.Challenge {
	a := p.Settings.Access
	switch {
	case p.Owner != nil && a.Open():
		return console.Challenge{
			Send: "the admin key, which is in admin.key in the gateway's folder, as Authorization: Bearer; or sign in with a browser at /admin/login",
		}
	case a.Open() && a.Bootstrap != "":
		return console.Challenge{
			Send: "the token whose SHA-256 the setting PORTCULLIS_BOOTSTRAP_SHA256 holds, as Authorization: Bearer; or sign in with this token in a browser at /admin/login",
		}
	case a.Open() && a.ClientID != "":
		return console.Challenge{Send: "the cookie of a browser that signed in at /admin/login; " +
			"programs may call if PORTCULLIS_BOOTSTRAP_SHA256 is set, with the token whose " +
			"SHA-256 it holds"}
	case a.Open():
		return console.Challenge{
			Shut: "/admin is closed: with PORTCULLIS_AUTH=none all callers are alike, so an agent could approve its own tools. " +
				"The operator opens it by setting PORTCULLIS_BOOTSTRAP_SHA256 (parameter BootstrapSha256) to the SHA-256 of a token, or by another PORTCULLIS_AUTH (parameter AuthMode)",
		}
	}
	var ways []string
	c := console.Challenge{ScopePrefix: a.ScopePrefix()}
	if a.Takes(identity.WayJWT) {
		ways = append(ways, "an access token of "+a.JWT.Issuer+" whose holder is an admin")
		c.Metadata = mcphttp.MetadataURL(p.Settings.BaseURL, "/mcp")
	}
	if a.Takes(identity.WayToken) {
		ways = append(ways, `an agent token that was made with "admin": true`)
	}
	if a.Takes(identity.WayIAM) {
		ways = append(ways, "a request signed by one of PORTCULLIS_IAM_ADMINS")
	}
	c.Send = strings.Join(ways, ", or ")
	if a.ClientID != "" {
		c.Send += "; or sign in with a browser at /admin/login"
	}
	return c
}
