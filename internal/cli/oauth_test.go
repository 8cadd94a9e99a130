package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/probetest"
	"github.com/portcullis-mcp/portcullis/test/testclients"
)

func TestOAuthTooSmallAScope(t *testing.T) {
	g := startGuarded(t, "search", nil)
	a := g.send(t, probetest.Request{
		Header: http.Header{"Authorization": {"Bearer " + g.issuer.Token(g.audience, map[string]any{"scope": "portcullis:read"})}},
		Body:   probetest.Call("call_tool_destructive", `{"name":"files:delete_file","args":{}}`),
	})
	want := `Bearer error="insufficient_scope", scope="portcullis:destructive", resource_metadata="` + g.URL + `/.well-known/oauth-protected-resource/mcp"`
	if got := a.Header.Get("WWW-Authenticate"); a.Status != http.StatusForbidden || got != want || !strings.Contains(a.Body, `"id":"probe-7"`) || !strings.Contains(a.Body, "It needs the scope portcullis:destructive.") {
		t.Errorf("answered %d, challenge %q, want %q: %s", a.Status, got, want, a.Body)
	}
	if n := len(g.files.Calls()); n > 0 {
		t.Errorf("%d calls reached the upstream server", n)
	}
}

// callOf returns a step that calls a tool about a file through one of the gateway's tools.
func callOf(variant, name string) testclients.Step {
	return testclients.Step{Method: "tools/call", Params: json.RawMessage(fmt.Sprintf(
		`{"name":%q,"arguments":{"name":%q,"args":{"path":"/x"}}}`, variant, name))}
}

// The clients get more scopes when a call needs them. A strict issuer gives a client only the
// scopes that the client registered, which come from the first challenge.
func TestTypeScriptOAuth(t *testing.T) {
	t.Parallel()
	const all = "portcullis:read portcullis:write portcullis:destructive"
	for _, mode := range []string{testclients.SDK, testclients.Legacy, testclients.Auto} {
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, strict issuer %t", mode, strict), func(t *testing.T) {
				env := map[string]string{"PORTCULLIS_SIGN_IN_SCOPES": "read"}
				if strict {
					env = map[string]string{
						"PORTCULLIS_ISSUER": testclients.Issuer(t, strings.Fields(all)...),
					}
				}
				g := startGuarded(t, "search", env)
				g.issuer.Grant("portcullis:read", "portcullis:destructive")
				got := testclients.OAuth(t, mode, g.URL+"/mcp",
					callOf("call_tool_read", "files:read_file"),
					callOf("call_tool_destructive", "files:delete_file"))
				for i, a := range got.Answers {
					if a.Error != nil || !strings.Contains(string(a.Result), "content") {
						t.Errorf("step %d: %+v %s", i, a.Error, a.Result)
					}
				}
				stepUp := len(got.Asked) == 2 && got.Asked[0] == "portcullis:read" &&
					slices.Contains(strings.Fields(got.Asked[1]), "portcullis:destructive")
				once := slices.Equal(got.Asked, []string{all})
				if strict && !once || !strict && !stepUp {
					t.Errorf("scopes asked for: %q", got.Asked)
				}
				if n := len(g.files.Calls()); n != 2 {
					t.Errorf("%d calls reached the upstream server, want 2", n)
				}
				for _, r := range g.files.Requests() {
					if h := r.Header.Get("Authorization"); h != "" {
						t.Errorf("the upstream server received the caller's token: %q", h)
					}
				}
				if strings.Contains(got.Instructions, "vault") {
					t.Errorf("instructions = %q", got.Instructions)
				}
			})
		}
	}
}
