package identity_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token/tokentest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A counted store counts its reads, and fails on demand.
type counted struct {
	*token.Store
	reads, touches int
	err            error
}

func newStore(t *testing.T) *counted {
	t.Helper()
	c := new(counted)
	c.Store = token.NewStore(&documenttest.Store{
		OnDocs:  func(context.Context, []document.Key) error { c.reads++; return c.err },
		OnTouch: func(context.Context, document.Key, string) (bool, error) { c.touches++; return false, c.err },
	})
	return c
}

// mint stores a token that is valid for a day from now.
func mint(t *testing.T, s *counted, now time.Time, change func(*token.Token)) (token.Token, string) {
	t.Helper()
	tok, text := tokentest.Sample(t, tokentest.Key(t), "ci")
	tok.CreatedAt, tok.ExpiresAt = now.UTC(), now.UTC().Add(24*time.Hour)
	if change != nil {
		change(&tok)
	}
	tok, err := s.PutToken(t.Context(), tok)
	require.OK(t, err)
	return tok, text.Reveal()
}

func ours(t *testing.T, s *counted, c *clock, bootstrap string) *identity.Verifier {
	t.Helper()
	v, err := identity.New(identity.Options{Tokens: &identity.Tokens{Store: s.Store, Keys: token.OneKey(tokentest.Key(t)), Now: c.now, Bootstrap: bootstrap}, Now: c.now})
	require.OK(t, err)
	return v
}

func TestTokensAgent(t *testing.T) {
	s, c := newStore(t), newClock()
	_, text := mint(t, s, c.t, nil)
	got, err := ours(t, s, c, "").Authenticate(with(t, text))
	require.OK(t, err)
	want := identity.Agent{
		ID: "token:ci", Way: identity.WayToken, Servers: []string{"files", "mail"}, Tiers: []tool.Tier{tool.Read, tool.Write}, Toolsets: []string{"files"},
		Rights: identity.Everything(), Claims: claims("token", "ci"),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Agent (-want +got):\n%s", d)
	}
}

func TestTokensRevokedOrExpired(t *testing.T) {
	s, c := newStore(t), newClock()
	v := ours(t, s, c, "")
	tok, text := mint(t, s, c.t, nil)
	if _, err := v.Authenticate(with(t, text)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutToken(t.Context(), tok.Revoke("sam", c.t)); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Authenticate(with(t, text)); kindOf(t, err) != identity.Invalid {
		t.Errorf("revoked: %v, want invalid", err)
	}
	_, other := mint(t, s, c.t, nil)
	c.pass(24 * time.Hour)
	if _, err := v.Authenticate(with(t, other)); kindOf(t, err) != identity.Invalid {
		t.Errorf("expired: %v, want invalid", err)
	}
}

func TestTokensUnknown(t *testing.T) {
	s, c := newStore(t), newClock()
	tok, text := mint(t, s, c.t, nil)
	forged := newStore(t) // the id of one token, the hash of another
	tok.Rev, tok.Hash = 0, strings.Repeat("0", 64)
	if _, err := forged.PutToken(t.Context(), tok); err != nil {
		t.Fatal(err)
	}
	if _, err := ours(t, forged, c, "").Authenticate(with(t, text)); kindOf(t, err) != identity.Invalid {
		t.Errorf("a token with another hash: %v", err)
	}
	for name, credential := range map[string]string{
		"made up": token.New().Reveal(), "its id": tok.ID, "its id as a token": "pct_" + tok.ID, "cut off": text[:30], "longer": text + "A", "a JWT": "a.b.c",
	} {
		s.reads = 0
		if _, err := ours(t, s, c, "").Authenticate(with(t, credential)); kindOf(t, err) != identity.Invalid || strings.Contains(err.Error(), credential) {
			t.Errorf("%s: %v, want invalid and no credential in it", name, err)
		}
		if name != "made up" && s.reads > 0 {
			t.Errorf("%s: the store was read", name)
		}
	}
}

func TestTokensStoreFails(t *testing.T) {
	s, c := newStore(t), newClock()
	_, text := mint(t, s, c.t, nil)
	s.err = errors.New("no route")
	if _, err := ours(t, s, c, "").Authenticate(with(t, text)); kindOf(t, err) != identity.Unavailable {
		t.Errorf("Authenticate = %v, want unavailable", err)
	}
}

func TestTokensNoteUse(t *testing.T) {
	s, c := newStore(t), newClock()
	v := ours(t, s, c, "")
	_, text := mint(t, s, c.t, nil)
	for range 10 {
		if _, err := v.Authenticate(with(t, text)); err != nil {
			t.Fatal(err)
		}
		c.pass(10 * time.Minute)
	}
	if s.reads != 10 || s.touches != 2 {
		t.Errorf("%d reads and %d writes in 100 minutes, want 10 and 2", s.reads, s.touches)
	}
}

func TestTokensBootstrap(t *testing.T) {
	s, c := newStore(t), newClock()
	text := token.New()
	a, err := ours(t, s, c, token.Digest(text)).Authenticate(with(t, text.Reveal()))
	require.OK(t, err)
	if d := cmp.Diff(identity.Agent{ID: "bootstrap", Way: identity.WayToken, Rights: identity.Everything()}, a); d != "" || s.reads > 0 {
		t.Errorf("Agent after %d reads (-want +got):\n%s", s.reads, d)
	}
	if _, err := ours(t, s, c, "").Authenticate(with(t, text.Reveal())); err == nil {
		t.Error("the bootstrap token is accepted without its setting")
	}
}

func TestVerifierBearer(t *testing.T) {
	s, c := newStore(t), newClock()
	_, text := mint(t, s, c.t, nil)
	v := ours(t, s, c, "")
	for _, tt := range []struct {
		name string
		set  func(*http.Request)
		want identity.Kind
	}{
		{"nothing", func(*http.Request) {}, identity.Missing},
		{"a header that anybody can set", func(r *http.Request) {
			for _, name := range []string{"X-Agent", "X-Forwarded-User", "X-Amzn-Oidc-Identity", "X-User", "Remote-User", "Cookie", "X-Mcp-Agent", "Proxy-Authorization", "X-Authorization"} {
				r.Header.Set(name, "Bearer "+text)
			}
		}, identity.Missing},
		{"the query", func(r *http.Request) { r.URL.RawQuery = "access_token=" + text }, identity.Missing},
		{"basic", func(r *http.Request) { r.SetBasicAuth("token", text) }, identity.Missing},
		{"two headers", func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + text, "Bearer x"} }, identity.Invalid},
		{"two credentials in one header", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+text+", Bearer "+text) }, identity.Invalid},
		{"an empty credential", func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, identity.Invalid},
		{"a long credential", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.Repeat("a", 17<<10)) }, identity.Invalid},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
		tt.set(r)
		if _, err := v.Authenticate(r); kindOf(t, err) != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestThrottle(t *testing.T) {
	s, c := newStore(t), newClock()
	v := ours(t, s, c, "")
	_, known := mint(t, s, c.t, nil)
	_, unknown := mint(t, s, c.t, nil)
	from := func(addr, credential string) error {
		r := with(t, credential)
		r.RemoteAddr = addr
		_, err := v.Authenticate(r)
		return err
	}
	require.OK(t, from("203.0.113.7:1000", known))
	s.reads = 0
	for range 1000 {
		if err := from("203.0.113.7:2000", token.New().Reveal()); err == nil {
			t.Fatal("an unknown token is accepted")
		}
	}
	if s.reads != 20 {
		t.Errorf("1000 guesses caused %d reads of the store, want 20", s.reads)
	}
	err := from("203.0.113.7:3000", unknown)
	if e, ok := errors.AsType[*identity.Error](err); !ok || e.Kind != identity.Throttled || e.RetryAfter <= 0 || e.RetryAfter > 3*time.Second {
		t.Errorf("after the flood: %v, want throttled for at most 3 s", err)
	}
	if err := from("203.0.113.7:1000", known); err != nil {
		t.Errorf("a token that was valid before is refused: %v", err)
	}
	if err := from("203.0.113.8:1000", unknown); err != nil {
		t.Errorf("another source is refused: %v", err)
	}
	c.pass(3 * time.Second)
	if err := from("203.0.113.7", unknown); err != nil {
		t.Errorf("3 s later: %v", err)
	}
}

func TestIAM(t *testing.T) {
	arn := "arn:aws:sts::123456789012:assumed-role/ci/run"
	signer := func(context.Context) string { return arn }
	o := identity.Options{IAM: &identity.IAM{Signer: signer, Servers: []string{"files"}, Tiers: []tool.Tier{tool.Read}, Admins: []string{"arn:aws:sts::123456789012:assumed-role/admin/*"}}}
	v, err := identity.New(o)
	require.OK(t, err)
	signed := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
	signed.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=x")
	a, err := v.Authenticate(signed)
	if err != nil || a.ID != arn || a.Way != identity.WayIAM || a.Rights.Role != identity.NoRole || len(a.Servers) != 1 {
		t.Errorf("Authenticate = %+v, %v", a, err)
	}
	if _, err := v.Authenticate(with(t, "a.b.c")); kindOf(t, err) != identity.Invalid {
		t.Errorf("signed, with bad bearer credentials: %v, want invalid", err)
	}
	arn = "arn:aws:sts::123456789012:assumed-role/admin/kim"
	if a, err := v.Authenticate(signed); err != nil || a.Rights.Role != identity.Operator {
		t.Errorf("the admin's role: %+v, %v", a, err)
	}
	arn = ""
	if _, err := v.Authenticate(signed); kindOf(t, err) != identity.Missing {
		t.Errorf("without a verified signer: %v, want missing", err)
	}
}

func TestAdmins(t *testing.T) {
	i, c := identitytest.Start(t), newClock()
	auth := identity.Admins(trusting(t, i, c, nil))
	_, err := auth.Authenticate(with(t, i.Token(audience, claims("scope", "portcullis:destructive"))))
	if e, ok := errors.AsType[*identity.Error](err); !ok || e.Kind != identity.Scope || len(e.Scopes) != 1 || e.Scopes[0] != "admin" {
		t.Errorf("an agent: %v, want insufficient scope", err)
	}
	if a, err := auth.Authenticate(with(t, i.Token(audience, claims("scope", "portcullis:admin")))); err != nil || a.ID != i.Subject {
		t.Errorf("an admin: %+v, %v", a, err)
	}
	if _, err := auth.Authenticate(with(t, "x")); kindOf(t, err) != identity.Invalid {
		t.Errorf("nobody: %v", err)
	}
}

func TestNewWithoutAWay(t *testing.T) {
	if _, err := identity.New(identity.Options{}); err == nil {
		t.Error("New makes a verifier that accepts nobody")
	}
}
