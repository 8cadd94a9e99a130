package identity_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
)

func TestAudienceAndPath(t *testing.T) {
	const base = "https://gate.example.com"
	i, c := identitytest.Start(t), newClock()
	v := trusting(t, i, c, func(o *identity.JWTOptions) {
		o.BaseURL = base
		o.Audiences = []string{
			base + "/mcp", base + "/mcp/readonly", "https://Gate.example.com:443/mcp/x/files/", base + "/admin",
			"7f3c-client-id", "api://gate.example.com/x", "https://other.example.com/mcp/readonly", "https://gate.example.com:8443/y",
		}
	})
	everywhere := []string{"/mcp", "/mcp/readonly", "/mcp/x/files", "/mcp/x/other", "/admin", "/admin/tools/a/b", "/healthz"}
	for aud, paths := range map[string][]string{
		base + "/mcp":          everywhere,
		base + "/mcp/readonly": {"/mcp/readonly", "/mcp/readonly/x"},
		"https://Gate.example.com:443/mcp/x/files/": {"/mcp/x/files"},
		base + "/admin":                          {"/admin", "/admin/tools/a/b"},
		"7f3c-client-id":                         everywhere,
		"api://gate.example.com/x":               everywhere,
		"https://other.example.com/mcp/readonly": everywhere,
		"https://gate.example.com:8443/y":        everywhere,
		base + "/mcp/x/other":                    nil, // not configured
	} {
		for _, path := range append(everywhere, "/mcp/readonly/x", "/mcp/readonlyx", "/mcp/x/filesystem", "/mc", "/") {
			want := false
			for _, p := range paths {
				want = want || p == path || len(paths) == len(everywhere)
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil)
			r.Header.Set("Authorization", "Bearer "+i.Token(aud, nil))
			_, err := v.Authenticate(r)
			if (err == nil) != want {
				t.Errorf("a token for %s at %s: %v, want it accepted: %v", aud, path, err, want)
			}
			if err != nil && kindOf(t, err) != identity.Invalid {
				t.Errorf("a token for %s at %s: %v, want invalid", aud, path, err)
			}
		}
	}
}

// A gateway below a path counts the paths of audiences from its own address.
func TestAudienceBelowAPath(t *testing.T) {
	const base = "https://example.com/gate"
	i, c := identitytest.Start(t), newClock()
	v := trusting(t, i, c, func(o *identity.JWTOptions) {
		o.BaseURL = base
		o.Audiences = []string{base + "/mcp", base + "/mcp/readonly", base + "/admin"}
	})
	for aud, want := range map[string]map[string]bool{
		base + "/mcp":          {"/mcp": true, "/mcp/readonly": true, "/admin": true},
		base + "/mcp/readonly": {"/mcp": false, "/mcp/readonly": true, "/admin": false},
		base + "/admin":        {"/mcp": false, "/mcp/readonly": false, "/admin": true},
	} {
		for path, isAccepted := range want {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil)
			r.Header.Set("Authorization", "Bearer "+i.Token(aud, nil))
			if _, err := v.Authenticate(r); (err == nil) != isAccepted {
				t.Errorf("%s at %s: %v, want it accepted: %v", aud, path, err, isAccepted)
			}
		}
	}
}

func TestTokenOfSeveralAudiences(t *testing.T) {
	const base = "https://gate.example.com"
	i, c := identitytest.Start(t), newClock()
	v := trusting(t, i, c, func(o *identity.JWTOptions) {
		o.BaseURL, o.Audiences = base, []string{base + "/mcp/readonly", base + "/mcp/x/files"}
	})
	two := i.Token("", claims("aud", []string{base + "/mcp/x/files", base + "/mcp/readonly", "https://elsewhere.example.com"}))
	for path, want := range map[string]bool{"/mcp/readonly": true, "/mcp/x/files": true, "/mcp": false} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil)
		r.Header.Set("Authorization", "Bearer "+two)
		if _, err := v.Authenticate(r); (err == nil) != want {
			t.Errorf("%s: %v, want it accepted: %v", path, err, want)
		}
	}
}

func TestAudienceThatCoversNothing(t *testing.T) {
	const root, gate = "https://gate.example.com", "https://gate.example.com/gate"
	for _, tt := range []struct{ base, aud string }{
		{root, root + "/portcullis"},
		{root, "http://gate.example.com/mcpx"},
		{root, root + "/healthz"},
		// other programs of the host
		{gate, root}, {gate, root + "/mcp"}, {gate, gate + "way/mcp"}, {gate, gate + "/gate/mcp"},
	} {
		_, err := identity.NewJWT(identity.JWTOptions{
			ProviderOptions: identity.ProviderOptions{Issuer: "https://login.example.com"},
			Audiences:       []string{tt.aud}, BaseURL: tt.base,
		})
		if err == nil || !strings.Contains(err.Error(), tt.aud) {
			t.Errorf("at %s: NewJWT = %v, want it to name %s", tt.base, err, tt.aud)
		}
	}
}
