// Package identitytest runs an OpenID provider on loopback for tests. It has discovery, keys,
// dynamic registration, and the authorization code flow with PKCE for agents and for people. With
// [Issuer.Bend], a test can make it break the protocol.
package identitytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// An Issuer is an OpenID provider. Tests may set its fields before its first request.
type Issuer struct {
	URL     string
	Subject string         // of the tokens that it issues
	Extra   map[string]any // claims that it adds

	t testing.TB

	mu        sync.Mutex
	signer    jose.JSONWebKey
	published []jose.JSONWebKey
	down      bool
	fetches   int
	grants    []string // scopes that it grants if they are requested
	codes     map[string]grant
	asked     []string // scopes of each authorization request
	clients   map[string]client
	bend      Bend
	asks      bool
	ended     int // sign-outs
}

// Start runs an issuer until the test ends.
func Start(t testing.TB) *Issuer {
	t.Helper()
	return StartAt(t, "127.0.0.1")
}

// StartAt is [Start] with another name of this machine as host. For browsers, an issuer at
// "localhost" is another site than a gateway at 127.0.0.1.
func StartAt(t testing.TB, host string) *Issuer {
	t.Helper()
	i := &Issuer{t: t, Subject: "kim@example.com", codes: map[string]grant{}, clients: map[string]client{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.metadata)
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", i.metadata)
	mux.HandleFunc("GET /keys", i.keys)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	mux.HandleFunc("POST /register", i.register)
	mux.HandleFunc("GET /logout", i.endSession)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.URL = strings.Replace(server.URL, "127.0.0.1", host, 1)
	i.Rotate("key-1")
	return i
}

// NewRSA returns a signing key of RSA.
func NewRSA(t testing.TB, id string) jose.JSONWebKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: k, KeyID: id, Algorithm: "RS256", Use: "sig"}
}

// NewEC returns a signing key of P-256.
func NewEC(t testing.TB, id string) jose.JSONWebKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: k, KeyID: id, Algorithm: "ES256", Use: "sig"}
}

// Rotate makes the issuer sign with a new key, and publish only that key.
func (i *Issuer) Rotate(id string) {
	key := NewEC(i.t, id)
	i.Publish(key)
	i.mu.Lock()
	i.signer = key
	i.mu.Unlock()
}

// Publish replaces the keys that the issuer publishes. It publishes only their public parts.
func (i *Issuer) Publish(keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.published = nil
	for _, k := range keys {
		i.published = append(i.published, k.Public())
	}
}

// Down sets whether every request to the issuer fails.
func (i *Issuer) Down(down bool) {
	i.mu.Lock()
	i.down = down
	i.mu.Unlock()
}

// Fetches returns how often the keys were fetched.
func (i *Issuer) Fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// Key returns the key that the issuer signs with.
func (i *Issuer) Key() jose.JSONWebKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.signer
}

// Claims returns the claims of a valid token for the audience, with the claims in over set or, if
// nil, removed.
func (i *Issuer) Claims(audience string, over map[string]any) map[string]any {
	now := time.Now()
	i.mu.Lock()
	subject := i.Subject
	i.mu.Unlock()
	claims := map[string]any{
		"iss": i.URL, "sub": subject, "aud": audience,
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	maps.Copy(claims, over)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

// Token returns a token of the issuer for the audience, with claims as [Issuer.Claims] returns
// them.
func (i *Issuer) Token(audience string, over map[string]any) string {
	i.t.Helper()
	return Sign(i.t, i.Key(), i.Claims(audience, over))
}

// Sign returns claims signed with a key.
func Sign(t testing.TB, key jose.JSONWebKey, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	jws, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (i *Issuer) metadata(w http.ResponseWriter, _ *http.Request) {
	m := map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys",
		"authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "registration_endpoint": i.URL + "/register",
		"response_types_supported": []string{"code"}, "grant_types_supported": []string{"authorization_code"},
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
		"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"ES256"},
		"end_session_endpoint": i.URL + "/logout",
	}
	i.mu.Lock()
	if len(i.clients) > 0 {
		m["token_endpoint_auth_methods_supported"] = []string{"none", "client_secret_basic"}
	}
	i.mu.Unlock()
	if bend := i.bent().Metadata; bend != nil {
		bend(m)
	}
	i.answer(w, m)
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	i.fetches++
	set := jose.JSONWebKeySet{Keys: i.published}
	i.mu.Unlock()
	i.answer(w, set)
}

// answer writes JSON, unless the issuer is down.
func (i *Issuer) answer(w http.ResponseWriter, v any) {
	i.mu.Lock()
	down := i.down
	i.mu.Unlock()
	if down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		i.t.Error(err)
	}
}
