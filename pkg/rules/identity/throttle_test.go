package identity_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token/tokentest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// both returns a verifier that accepts the issuer's JWTs and the store's tokens.
func both(t *testing.T, i *identitytest.Issuer, s *counted, c *clock, proxies int) *identity.Verifier {
	t.Helper()
	j, err := identity.NewJWT(identity.JWTOptions{ProviderOptions: identity.ProviderOptions{Issuer: i.URL, Now: c.now}, Audiences: []string{audience}})
	require.OK(t, err)
	v, err := identity.New(identity.Options{
		JWT: j, Tokens: &identity.Tokens{Store: s.Store, Keys: token.OneKey(tokentest.Key(t)), Now: c.now}, TrustedProxies: proxies, Now: c.now,
	})
	require.OK(t, err)
	return v
}

func TestThrottleSparesJWTs(t *testing.T) {
	i, s, c := identitytest.Start(t), newStore(t), newClock()
	for name, bad := range map[string]func() string{
		"unknown agent tokens": func() string { return token.New().Reveal() },
		"JWTs of unknown keys": func() string {
			return identitytest.Sign(t, identitytest.NewEC(t, "made-up"), i.Claims(audience, nil))
		},
		"nonsense": func() string { return "x" },
	} {
		t.Run(name, func(t *testing.T) {
			v := both(t, i, s, c, 0)
			for range 25 {
				if _, err := v.Authenticate(with(t, bad())); err == nil {
					t.Fatal("a bad credential is accepted")
				}
			}
			if _, err := v.Authenticate(with(t, i.Token(audience, nil))); err != nil {
				t.Errorf("a good JWT that was never seen before: %v", err)
			}
		})
	}
}

func TestThrottleCountsLookUps(t *testing.T) {
	i, s, c := identitytest.Start(t), newStore(t), newClock()
	v := both(t, i, s, c, 0)
	_, good := mint(t, s, c.t, nil)
	for _, bad := range []string{"x", "pct_", "pct_short", i.Token("https://other.example.com", nil)} {
		for range 30 {
			if _, err := v.Authenticate(with(t, bad)); kindOf(t, err) != identity.Invalid {
				t.Fatalf("%s: %v, want invalid at every try", bad, err)
			}
		}
	}
	if s.reads > 0 {
		t.Errorf("the store was read %d times", s.reads)
	}
	if _, err := v.Authenticate(with(t, good)); err != nil {
		t.Errorf("a good token after bad credentials: %v", err)
	}
}

func TestThrottleOfARevokedToken(t *testing.T) {
	s, c := newStore(t), newClock()
	v := ours(t, s, c, "")
	tok, text := mint(t, s, c.t, nil)
	if _, err := v.Authenticate(with(t, text)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutToken(t.Context(), tok.Revoke("sam", c.t)); err != nil {
		t.Fatal(err)
	}
	s.reads = 0
	var last error
	for range 100 {
		_, last = v.Authenticate(with(t, text))
	}
	if kindOf(t, last) != identity.Throttled || s.reads > 21 {
		t.Errorf("after 100 uses: %v and %d reads, want it throttled after 20", last, s.reads)
	}
}

func TestThrottleBehindProxies(t *testing.T) {
	const socket = "192.0.2.1:443"
	for _, tt := range []struct {
		name      string
		proxies   int
		forwarded []string // of the flood
		neighbor  []string // of another sender on the same socket, who has a good token
		shut      bool     // the neighbor counts as the same source
	}{
		{"none trusted", 0, []string{"203.0.113.7"}, []string{"203.0.113.8"}, true},
		{"one", 1, []string{"203.0.113.7"}, []string{"203.0.113.8"}, false},
		{"one, and the sender wrote more", 1, []string{"9.9.9.9, 203.0.113.7"}, []string{"8.8.8.8, 203.0.113.7"}, true},
		{"two", 2, []string{"203.0.113.7, 10.0.0.1"}, []string{"203.0.113.8, 10.0.0.1"}, false},
		{"two, in two lines", 2, []string{"9.9.9.9, 203.0.113.7", "10.0.0.1"}, []string{"203.0.113.7", "10.0.0.1"}, true},
		{"two, but only one was passed", 2, []string{"203.0.113.7"}, []string{"203.0.113.8"}, true},
		{"no header", 1, nil, nil, true},
		{"not an address", 1, []string{"unknown"}, []string{"hidden"}, true},
		{"with a port", 1, []string{"203.0.113.7:1000"}, []string{"203.0.113.7:2000"}, true},
		{"an IPv6 network", 1, []string{"2001:db8:1:2::3"}, []string{"2001:db8:1:2::4"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i, s, c := identitytest.Start(t), newStore(t), newClock()
			v := both(t, i, s, c, tt.proxies)
			_, good := mint(t, s, c.t, nil)
			from := func(forwarded []string, credential string) error {
				r := with(t, credential)
				r.RemoteAddr = socket
				r.Header[http.CanonicalHeaderKey("X-Forwarded-For")] = forwarded
				_, err := v.Authenticate(r)
				return err
			}
			for range 25 {
				if err := from(tt.forwarded, token.New().Reveal()); err == nil {
					t.Fatal("an unknown token is accepted")
				}
			}
			err := from(tt.neighbor, good)
			if (err != nil) != tt.shut {
				t.Errorf("the neighbor: %v, want it to count as the same source: %v", err, tt.shut)
			}
			if err != nil && !strings.Contains(err.Error(), "throttled") {
				t.Errorf("the neighbor: %v, want throttled", err)
			}
		})
	}
}

func TestSource(t *testing.T) {
	for _, test := range []struct {
		name, remote, forwarded string
		trusted                 int
		want                    string
	}{
		{"connection", "203.0.113.7:5000", "", 0, "203.0.113.7"},
		{"without a port", "203.0.113.7", "", 0, "203.0.113.7"},
		{"what a client wrote", "203.0.113.7:5000", "1.2.3.4", 0, "203.0.113.7"},
		{"a trusted proxy", "10.0.0.1:5000", "1.2.3.4, 2001:db8::7", 1, "2001:db8::7"},
		{"no address", "@", "", 0, ""},
		{"a line break", "10.0.0.1:5000", "x\ny", 1, "10.0.0.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := with(t, "x")
			r.RemoteAddr = test.remote
			if test.forwarded != "" {
				r.Header.Set("X-Forwarded-For", test.forwarded)
			}
			if got := identity.Source(r, test.trusted); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
