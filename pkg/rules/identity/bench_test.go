package identity_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// The cost of identifying a request's sender, without the network.
func BenchmarkAuthenticate(b *testing.B) {
	key, err := token.NewKey("a key that is for benchmarks, of 32 bytes and more")
	if err != nil {
		b.Fatal(err)
	}
	store := token.NewStore(new(documenttest.Store))
	text, now := token.New(), time.Now()
	id, hash := key.Identify(text)
	if _, err := store.PutToken(b.Context(), token.Token{
		ID: id, Hash: hash, Name: "ci", Tiers: []string{"read"}, CreatedAt: now, CreatedBy: "b", ExpiresAt: now.Add(time.Hour), LastUsed: now,
	}); err != nil {
		b.Fatal(err)
	}
	issuer := identitytest.Start(b)
	rsa := identitytest.NewRSA(b, "rsa")
	issuer.Publish(issuer.Key(), rsa)
	jwt, err := identity.NewJWT(identity.JWTOptions{ProviderOptions: identity.ProviderOptions{Issuer: issuer.URL}, Audiences: []string{audience}})
	if err != nil {
		b.Fatal(err)
	}
	v, err := identity.New(identity.Options{JWT: jwt, Tokens: &identity.Tokens{Store: store, Keys: token.OneKey(key)}})
	if err != nil {
		b.Fatal(err)
	}
	for name, credential := range map[string]string{
		"token": text.Reveal(),
		"ES256": issuer.Token(audience, claims("scope", "portcullis:read")),
		"RS256": identitytest.Sign(b, rsa, issuer.Claims(audience, claims("scope", "portcullis:read"))),
	} {
		b.Run(name, func(b *testing.B) {
			r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/mcp", nil)
			if err != nil {
				b.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+credential)
			for b.Loop() {
				if _, err := v.Authenticate(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
