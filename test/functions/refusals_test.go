package functions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/probetest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// refusesStrangers checks the requests that functions must refuse.
func (g suite) refusesStrangers(t *testing.T) {
	const audience, key = lambdatest.BaseURL + "/mcp", "/portcullis/probe/token-key"
	issuer, boot := identitytest.Start(t), token.New()
	files := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("read_file", "Read a file.", `{"readOnlyHint":true}`, "path")}})
	d := lambdatest.NewStack(t, g.endpoint, g.programs, map[string]string{
		"PORTCULLIS_AUTH": "jwt,token", "PORTCULLIS_ISSUER": issuer.URL, "PORTCULLIS_AUDIENCE": audience, "PORTCULLIS_ALGORITHMS": "ES256,RS256",
		"PORTCULLIS_DEFAULT_SERVERS": "files", "PORTCULLIS_TOKEN_KEY": "${ssm:" + key + "}", "PORTCULLIS_BOOTSTRAP_SHA256": token.Digest(boot),
	})
	d.Admin = boot.Reveal()
	d.Parameter(key, "a key that is for tests alone, of 32 bytes and more")
	d.Configure(fmt.Sprintf(`{"mcpServers":{"files":{"url":%q,"approval":"off"}}}`, files.URL))
	d.Sync(t)
	admin, one, two := d.Start(t, "admin"), d.Start(t, "mcp"), d.Start(t, "mcp")
	var agent, revoked struct{ ID, Token string }
	for _, made := range []any{&agent, &revoked} {
		admin.Ask(http.StatusCreated, "/admin/tokens", `{"name":"ci","servers":["files"],"tiers":["read","write","destructive"],"days":1}`, made)
	}

	t.Run("every process refuses the next request with a revoked token", func(t *testing.T) {
		list := func(f *lambdatest.Function) int {
			return f.Send("/mcp", probetest.RPC("tools/list", `{}`), "Authorization: Bearer "+revoked.Token).Status
		}
		if a, b := list(one), list(two); a != http.StatusOK || b != http.StatusOK {
			t.Fatalf("before the revocation: %d and %d, want 200", a, b)
		}
		admin.Ask(http.StatusOK, "/admin/tokens/"+revoked.ID+"/revoke", `{}`, nil)
		if a, b := list(one), list(two); a != http.StatusUnauthorized || b != http.StatusUnauthorized {
			t.Errorf("after the revocation: %d and %d, want 401", a, b)
		}
	})
	p := probetest.Gateway{
		URL: lambdatest.BaseURL, From: one.From, Issuer: issuer, Audience: audience, Agent: agent.Token, Revoked: revoked.Token,
	}
	t.Run("strangers", p.Strangers)
	t.Run("flood", p.Flood)
	p.Quiet(t, []byte(one.Output()+two.Output()+admin.Output()))
}
