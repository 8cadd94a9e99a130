package mcphttp_test

import (
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestCallScope(t *testing.T) {
	refused := &mcp.Error{Code: 403, Status: 403, Message: "no", Err: &identity.Error{Kind: identity.Scope, Scopes: []string{"destructive"}}}
	inEachProtocol(t, func(t *testing.T, e protocol) {
		h := newHandler(t, &backend{call: fails(refused)}, &mcphttp.Options{BaseURL: "https://gw.example", Resource: &mcphttp.Resource{ScopePrefix: "gate/"}})
		got := send(h, e.request(t, "tools/call", `"name":"x"`))
		got.wantError(t, 403, 403, "7")
		want := `Bearer error="insufficient_scope", scope="gate/destructive", resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp"`
		if c := got.header.Get("WWW-Authenticate"); c != want {
			t.Errorf("challenge is %q, want %q", c, want)
		}
	})
}

func TestThrottled(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, e protocol) {
		h, err := mcphttp.New(&backend{}, denies{&identity.Error{Kind: identity.Throttled, RetryAfter: 2500 * time.Millisecond}}, nil)
		require.OK(t, err)
		got := send(h, e.request(t, "tools/list", ``))
		got.wantError(t, 429, 429, "7")
		if got.header.Get("Retry-After") != "3" || got.header.Get("WWW-Authenticate") != "" {
			t.Errorf("headers are %v", got.header)
		}
	})
}
