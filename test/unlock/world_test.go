package unlock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

const (
	audience = "gateway"
	tokenKey = "a key that is for tests alone, of 32 bytes and more"
)

// A world contains a gateway, a server, the issuer and Slack. The server "shop" has pending tools
// and the tool "pay". Each call of "pay" needs a confirmation.
type world struct {
	agenttest.Client // requests to /admin have an operator's token of the issuer
	T                *testing.T

	issuer *identitytest.Issuer
	slack  *slack
	shop   *upstreamtest.Server
	hold   chan struct{} // a call whose arguments contain "wait" ends when it receives a value
	era    era           // of the agents
}

// in returns the world for a subtest.
func (w *world) in(t *testing.T) *world {
	out := *w
	out.T, out.Client.T = t, t
	return &out
}

// waiting contains the names of the pending tools.
var waiting = []string{"ship", "drop", "rotate"}

// newWorld starts the server, the issuer and Slack, but no gateway.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, issuer: identitytest.StartAt(t, "localhost"), slack: startSlack(t), hold: make(chan struct{})}
	w.issuer.Ask()
	w.shop = upstreamtest.New(t, upstreamtest.Options{Tools: tools(), Call: func(ctx context.Context, c upstreamtest.Call) (json.RawMessage, error) {
		if strings.Contains(string(c.Arguments), `"wait"`) {
			select {
			case <-w.hold:
			case <-ctx.Done():
			}
		}
		return upstreamtest.Echo(ctx, c)
	}})
	return w
}

// tools returns the definitions of the shop.
func tools() (out []json.RawMessage) {
	for _, name := range append([]string{"pay"}, waiting...) {
		out = append(out, upstreamtest.Tool(name, "The tool "+name+" does its work.", "", "to", "amount"))
	}
	return out
}

// config returns the config of the gateway.
func (w *world) config() string {
	return fmt.Sprintf(`{
		"mcpServers": {"shop": {"url": %q, "approval": "manual"}},
		"gateway": {"requests": true},
		"tools": {"confirm": ["shop:pay"]},
		"notify": [{"type": "slack", "url": %q, "events": ["request", "decided"]}]
	}`, w.shop.URL, w.slack.URL)
}

// settings returns the settings of the gateway. Agents have tokens of the issuer or of the gateway,
// and people sign in at the issuer.
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

// ready approves the tool that must not be pending.
func (w *world) ready() {
	w.T.Helper()
	var shown struct{ Hash string }
	w.Ask(200, "/admin/tools/shop/pay", nil, &shown)
	w.Ask(200, "/admin/tools/shop/pay/approve", map[string]string{"hash": shown.Hash, "note": "as it is"}, nil)
}

// actsFor returns the credentials of an agent that acts for a person.
func (w *world) actsFor(p person) string {
	return w.issuer.Token(audience, map[string]any{"sub": p.subject, "client_id": "ide", "scope": "portcullis:destructive"})
}

// token returns the credentials of an agent without a user. Only the shop is in its scope.
func (w *world) token(name string) string {
	w.T.Helper()
	var made struct{ Token string }
	w.Ask(201, "/admin/tokens", map[string]any{
		"name": name, "servers": []string{"shop"}, "tiers": []string{"read", "write", "destructive"}, "days": 1,
	}, &made)
	return made.Token
}

// calls returns how many calls of a tool reached the shop.
func (w *world) calls(name string) (n int) {
	for _, c := range w.shop.Calls() {
		if c.Tool == name {
			n++
		}
	}
	return n
}

// wantCalls checks how many calls of a tool reached the shop.
func (w *world) wantCalls(name string, want int) {
	w.T.Helper()
	if got := w.calls(name); got != want {
		w.T.Errorf("%d calls of %s reached the server, want %d", got, name, want)
	}
}
