package boot

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A gateway that can sign in serves the document about itself at its public address, but only if
// issuers can read that address.
func TestClientDocument(t *testing.T) {
	able := connection.New(connection.Options{})
	for base, p := range map[string]*Program{
		"https://gate.example.com":    {SignIns: able, Settings: Settings{AdminURL: "https://people.example.com"}},
		"http://gate.example.com":     {SignIns: able},
		"https://127.0.0.1:8080":      {SignIns: able},
		"https://localhost":           {SignIns: able},
		"":                            {SignIns: able},
		"https://without.example.com": {},
	} {
		h := p.clientDocument(base)
		if served := base == "https://gate.example.com"; (h != nil) != served {
			t.Errorf("%q: served = %t", base, h != nil)
		}
		if h == nil {
			continue
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/.well-known/oauth-client.json", nil))
		var got map[string]any
		require.OK(t, json.Unmarshal(w.Body.Bytes(), &got))
		want := map[string]any{
			"client_id": "https://gate.example.com/.well-known/oauth-client.json", "client_uri": "https://gate.example.com",
			"client_name": "Portcullis", "application_type": "native", "token_endpoint_auth_method": "none",
			"grant_types": []any{
				"authorization_code",
				"refresh_token",
			}, "response_types": []any{"code"},
			"redirect_uris": []any{
				"https://people.example.com/admin/sign-in/callback",
				"http://127.0.0.1/callback",
				"http://localhost/callback",
			},
		}
		if diff := cmp.Diff(want, got); diff != "" ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %v", diff, w.Header())
		}
	}
}
