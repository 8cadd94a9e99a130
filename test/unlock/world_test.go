package unlock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

const (
	audience = "gateway"
	sealKey  = "a seal key that is for tests alone and has 32 bytes"
	tokenKey = "a key that is for tests alone, of 32 bytes and more"
)

// A world is a gateway with everything around it: the server "shop" with tools that wait, and with pay,
// each call of which is to be confirmed; the server "vault", which is in the scope of no agent here; the
// issuer; and Slack.
type world struct {
	agenttest.Client // /admin by the issuer's word for an operator
	T                *testing.T

	issuer *identitytest.Issuer
	slack  *slack
	shop   *upstreamtest.Server
	vault  *upstreamtest.Server
	hold   chan struct{} // a call of "wait" ends when something comes out of it
	place  gateway
	width  int // requests at one moment
}

// A gateway is what runs it.
type gateway interface {
	// sync runs a sync.
	sync(t *testing.T)
	// requests opens the store of requests; close gives it back.
	requests(t *testing.T) (s *request.Store, close func())
}

// in returns the world for a test within another.
func (w *world) in(t *testing.T) *world {
	out := *w
	out.T, out.Client.T = t, t
	return &out
}

// names of the tools that wait for a person.
var waiting = []string{"ship", "drop", "rotate", "rename", "refund"}

// newWorld starts what is around the gateway.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, issuer: identitytest.StartAt(t, "localhost"), slack: startSlack(t), hold: make(chan struct{})}
	w.issuer.Ask()
	w.shop = upstreamtest.New(t, upstreamtest.Options{Tools: tools("does its work"), Call: func(ctx context.Context, c upstreamtest.Call) (json.RawMessage, error) {
		if strings.Contains(string(c.Arguments), `"wait"`) {
			select {
			case <-w.hold:
			case <-ctx.Done():
			}
		}
		return upstreamtest.Echo(ctx, c)
	}})
	w.vault = upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("open", "Opens the vault.", "")}})
	return w
}

// tools are the definitions of the shop.
func tools(does string) (out []json.RawMessage) {
	for _, name := range append([]string{"pay", "look"}, waiting...) {
		out = append(out, upstreamtest.Tool(name, "The tool "+name+" "+does+".", "", "to", "amount"))
	}
	return out
}

// config returns the config of the gateway.
func (w *world) config() string {
	return fmt.Sprintf(`{
		"mcpServers": {"shop": {"url": %q, "approval": "manual"}, "vault": {"url": %q, "approval": "manual"}},
		"gateway": {"requests": true},
		"tools": {"confirm": ["shop:pay"]},
		"notify": [{"type": "slack", "url": %q, "events": ["request", "decided"]}]
	}`, w.shop.URL, w.vault.URL, w.slack.URL)
}

// settings returns the settings of the gateway: agents have tokens of the issuer or of the gateway,
// people sign in at the issuer.
func (w *world) settings() map[string]string {
	return map[string]string{
		"PORTCULLIS_AUTH": "jwt,token", "PORTCULLIS_TOKEN_KEY": tokenKey,
		"PORTCULLIS_ISSUER": w.issuer.URL, "PORTCULLIS_AUDIENCE": audience, "PORTCULLIS_ID_CLAIM": "client_id", "PORTCULLIS_DEFAULT_SERVERS": "shop",
		"PORTCULLIS_ADMIN_CLIENT_ID": "console", "PORTCULLIS_APPROVERS": "approvers", "PORTCULLIS_OPERATORS": "ops",
	}
}

// admin returns the credentials of an operator's program.
func (w *world) admin() string {
	return w.issuer.Token(audience, map[string]any{"sub": "u-op", "client_id": "ops-tool", "scope": "portcullis:admin"})
}

// ready approves what is not to wait.
func (w *world) ready() {
	w.T.Helper()
	for _, name := range []string{"pay", "look"} {
		w.approve("shop/" + name)
	}
}

// approve approves a tool as it is now.
func (w *world) approve(path string) {
	w.T.Helper()
	var shown struct{ Hash string }
	w.Ask(200, "/admin/tools/"+path, nil, &shown)
	w.Ask(200, "/admin/tools/"+path+"/approve", map[string]string{"hash": shown.Hash, "note": "as it is"}, nil)
}

// actsFor returns the credentials of an agent that acts for a person.
func (w *world) actsFor(p person) string {
	return w.issuer.Token(audience, map[string]any{"sub": p.subject, "client_id": "ide", "scope": "portcullis:destructive"})
}

// token returns the credentials of an agent that acts for nobody, in the scope of the shop alone.
func (w *world) token(name string) string {
	w.T.Helper()
	var made struct{ Token string }
	w.Ask(201, "/admin/tokens", map[string]any{
		"name": name, "servers": []string{"shop"}, "tiers": []string{"read", "write", "destructive"}, "days": 1,
	}, &made)
	return made.Token
}

// calls returns how often the shop was called by this name.
func (w *world) calls(name string) (n int) {
	for _, c := range w.shop.Calls() {
		if c.Tool == name {
			n++
		}
	}
	return n
}

// wantCalls checks how often the shop was called by this name.
func (w *world) wantCalls(name string, want int) {
	w.T.Helper()
	if got := w.calls(name); got != want {
		w.T.Errorf("%d calls of %s reached the server, want %d", got, name, want)
	}
}

// endsAt moves the end of what a request gave, as if it had been given earlier.
func (w *world) endsAt(id string, end time.Time) {
	w.T.Helper()
	s, done := w.place.requests(w.T)
	defer done()
	key, err := s.Whose(w.T.Context(), id)
	require.OK(w.T, err)
	held, err := s.Granted(w.T.Context(), key)
	require.OK(w.T, err)
	_, err = s.ChangeGranted(w.T.Context(), held.Agent, func(g request.Granted) (request.Granted, error) {
		g.List = slices.Clone(g.List)
		for i := range g.List {
			if g.List[i].Request == id {
				g.List[i].Ends = end.UTC().Truncate(time.Microsecond)
			}
		}
		return g, nil
	})
	require.OK(w.T, err)
}
