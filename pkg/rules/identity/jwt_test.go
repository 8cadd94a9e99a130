package identity_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const audience = "https://gate.example.com/mcp"

// with returns a request with a bearer credential.
func with(t *testing.T, credential string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
	r.Header.Set("Authorization", "Bearer "+credential)
	return r
}

// kindOf returns the kind of a refusal. It fails the test if err is no refusal.
func kindOf(t *testing.T, err error) identity.Kind {
	t.Helper()
	e, ok := errors.AsType[*identity.Error](err)
	if !ok {
		t.Fatalf("err = %v, want an *identity.Error", err)
	}
	return e.Kind
}

// A clock is a time that a test moves.
type clock struct{ t time.Time }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) pass(d time.Duration)    { c.t = c.t.Add(d) }
func newClock() *clock                   { return &clock{time.Now()} }
func claims(pairs ...any) map[string]any { return pairsOf(pairs) }

func pairsOf(pairs []any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// trusting returns a verifier that accepts the issuer's tokens.
func trusting(t *testing.T, i *identitytest.Issuer, c *clock, change func(*identity.JWTOptions)) *identity.Verifier {
	t.Helper()
	o := identity.JWTOptions{ProviderOptions: identity.ProviderOptions{Issuer: i.URL, Now: c.now}, Audiences: []string{audience}}
	if change != nil {
		change(&o)
	}
	j, err := identity.NewJWT(o)
	require.OK(t, err)
	v, err := identity.New(identity.Options{JWT: j, Now: c.now})
	require.OK(t, err)
	return v
}

func TestJWTAgent(t *testing.T) {
	i, c := identitytest.Start(t), newClock()
	v := trusting(t, i, c, nil)
	got, err := v.Authenticate(with(t, i.Token(audience, claims(
		"scope", "openid portcullis:write portcullis:server:files", "portcullis_toolsets", []string{"docs"}, "team", "blue", "level", 7,
	))))
	require.OK(t, err)
	want := identity.Agent{
		ID: i.Subject, Subject: i.URL + " " + i.Subject, Way: identity.WayJWT, Servers: []string{"files"}, Tiers: []tool.Tier{tool.Read, tool.Write}, Toolsets: []string{"docs"},
		Claims: claims("iss", i.URL, "sub", i.Subject, "aud", audience, "team", "blue", "level", json.Number("7"),
			"scope", "openid portcullis:write portcullis:server:files", "portcullis_toolsets", []any{"docs"}),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Agent (-want +got):\n%s", d)
	}
}

func TestJWTRefused(t *testing.T) {
	i, c := identitytest.Start(t), newClock()
	rsa := identitytest.NewRSA(t, "key-rsa")
	i.Publish(i.Key(), rsa)
	stranger := identitytest.NewEC(t, i.Key().KeyID) // another key with the id of a known key
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." +
		strings.Split(i.Token(audience, nil), ".")[1] + "."
	good := i.Token(audience, nil)
	parts := strings.Split(good, ".")
	public, err := x509.MarshalPKIXPublicKey(rsa.Public().Key)
	require.OK(t, err)
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	hs := func(key []byte) string {
		return identitytest.Sign(t, jose.JSONWebKey{Key: key, KeyID: "key-rsa", Algorithm: "HS256"}, i.Claims(audience, nil))
	}
	for name, credential := range map[string]string{
		"expired":                      i.Token(audience, claims("exp", c.t.Add(-time.Minute).Unix())),
		"no expiry":                    i.Token(audience, claims("exp", nil)),
		"not yet":                      i.Token(audience, claims("nbf", c.t.Add(time.Hour).Unix())),
		"another issuer":               i.Token(audience, claims("iss", "https://evil.example.com")),
		"the issuer with a slash":      i.Token(audience, claims("iss", i.URL+"/")),
		"no issuer":                    i.Token(audience, claims("iss", nil)),
		"another audience":             i.Token("https://other.example.com/mcp", nil),
		"no audience":                  i.Token(audience, claims("aud", nil)),
		"a part of the audience":       i.Token("https://gate.example.com", nil),
		"alg none":                     unsigned,
		"HS256 with the public key":    hs(secret),
		"HS256 with the key's DER":     hs(public),
		"another key under a known id": identitytest.Sign(t, stranger, i.Claims(audience, nil)),
		"an unknown key":               identitytest.Sign(t, identitytest.NewEC(t, "who"), i.Claims(audience, nil)),
		"claims of another token":      parts[0] + "." + strings.Split(i.Token(audience, claims("sub", "root")), ".")[1] + "." + parts[2],
		"an algorithm not configured":  identitytest.Sign(t, jose.JSONWebKey{Key: rsa.Key, KeyID: "key-rsa", Algorithm: "PS256"}, i.Claims(audience, nil)),
		"no subject":                   i.Token(audience, claims("sub", nil)),
		"a subject that is a token":    i.Token(audience, claims("sub", "token:ci")),
		"a subject that is an ARN":     i.Token(audience, claims("sub", "arn:aws:iam::1:user/x")),
		"a subject that is the sync":   i.Token(audience, claims("sub", "sync")),
		"a subject of two lines":       i.Token(audience, claims("sub", "kim\nroot")),
		"an identity token":            i.Token(audience, claims("token_use", "id")),
		"servers that are a number":    i.Token(audience, claims("portcullis_servers", 7)),
		"a toolset that is a number":   i.Token(audience, claims("portcullis_toolsets", []any{1})),
		"not three parts":              "abc",
		"an agent token":               "pct_" + strings.Repeat("A", 43),
	} {
		t.Run(name, func(t *testing.T) {
			v := trusting(t, i, c, nil)
			if _, err := v.Authenticate(with(t, good)); err != nil {
				t.Fatalf("the good token is refused: %v", err)
			}
			a, err := v.Authenticate(with(t, credential))
			if err == nil {
				t.Fatalf("Authenticate accepted it as %+v", a)
			}
			if k := kindOf(t, err); k != identity.Invalid {
				t.Errorf("kind = %v, want invalid", k)
			}
			if strings.Contains(err.Error(), credential) || len(parts) == 3 && strings.Contains(err.Error(), parts[2]) {
				t.Errorf("the error contains the credential: %v", err)
			}
		})
	}
}

func TestJWTUnknownKeyID(t *testing.T) {
	i, c := identitytest.Start(t), newClock()
	v := trusting(t, i, c, nil)
	old := i.Token(audience, nil)
	if _, err := v.Authenticate(with(t, old)); err != nil || i.Fetches() != 1 {
		t.Fatalf("Authenticate = %v after %d fetches, want 1", err, i.Fetches())
	}
	c.pass(time.Minute)
	i.Rotate("key-2")
	fresh := i.Token(audience, nil)
	if _, err := v.Authenticate(with(t, fresh)); err != nil || i.Fetches() != 2 {
		t.Errorf("after a rotation: %v after %d fetches, want 2", err, i.Fetches())
	}
	if _, err := v.Authenticate(with(t, old)); err == nil {
		t.Error("a token of a withdrawn key is accepted")
	}
	for range 200 {
		if _, err := v.Authenticate(with(t, identitytest.Sign(t, identitytest.NewEC(t, "made-up"), i.Claims(audience, nil)))); err == nil {
			t.Fatal("a token of an unknown key is accepted")
		}
		c.pass(50 * time.Millisecond) // 10 s in all
	}
	if i.Fetches() != 2 {
		t.Errorf("a flood of unknown keys caused %d fetches", i.Fetches()-2)
	}
	if _, err := v.Authenticate(with(t, fresh)); err != nil {
		t.Errorf("after the flood the good token is refused: %v", err)
	}
}

func TestJWTIssuerDown(t *testing.T) {
	i, c := identitytest.Start(t), newClock()
	v := trusting(t, i, c, nil)
	good := i.Token(audience, claims("exp", c.t.Add(48*time.Hour).Unix()))
	i.Down(true)
	for range 30 {
		if _, err := v.Authenticate(with(t, good)); kindOf(t, err) != identity.Unavailable {
			t.Fatalf("Authenticate = %v, want unavailable", err)
		}
	}
	i.Down(false)
	c.pass(3 * time.Second)
	if _, err := v.Authenticate(with(t, good)); err != nil {
		t.Fatalf("after the issuer came back: %v", err)
	}
	i.Down(true)
	c.pass(2 * time.Hour)
	if _, err := v.Authenticate(with(t, good)); err != nil {
		t.Errorf("with keys that are two hours old: %v", err)
	}
	c.pass(24 * time.Hour)
	if _, err := v.Authenticate(with(t, good)); kindOf(t, err) != identity.Unavailable {
		t.Errorf("with keys that are a day old: %v, want unavailable", err)
	}
}

func TestNewJWTFaults(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    identity.JWTOptions
		want []string
	}{
		{"nothing", identity.JWTOptions{}, []string{"issuer", "audience"}},
		{"a plain issuer", identity.JWTOptions{ProviderOptions: identity.ProviderOptions{Issuer: "http://login.example.com"}, Audiences: []string{"a"}}, []string{"not https"}},
		{"an empty audience", identity.JWTOptions{ProviderOptions: identity.ProviderOptions{Issuer: "https://login.example.com"}, Audiences: []string{""}}, []string{"audience"}},
		{"a shared secret", identity.JWTOptions{ProviderOptions: identity.ProviderOptions{Issuer: "https://login.example.com", Algorithms: []string{"HS256"}}, Audiences: []string{"a"}}, []string{"HS256"}},
		{"none", identity.JWTOptions{ProviderOptions: identity.ProviderOptions{Issuer: "https://login.example.com", Algorithms: []string{"none"}}, Audiences: []string{"a"}}, []string{"none"}},
		{"no algorithm", identity.JWTOptions{ProviderOptions: identity.ProviderOptions{Issuer: "https://login.example.com", Algorithms: []string{}}, Audiences: []string{"a"}}, []string{"algorithm"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := identity.NewJWT(tt.o)
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("NewJWT = %v, want it to name %q", err, want)
				}
			}
		})
	}
}
