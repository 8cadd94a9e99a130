package signin_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const back = "https://gate.example.com/admin/login/callback"

// A gate is a gateway as the client of an issuer, with its own clock.
type gate struct {
	*signin.Issuer
	t       *testing.T
	issuer  *identitytest.Issuer
	options signin.IssuerOptions
	ahead   time.Duration // offset of the clock
}

func newGate(t *testing.T, password string) *gate {
	t.Helper()
	g := &gate{t: t, issuer: identitytest.Start(t)}
	g.issuer.Client("gate", password, back)
	g.issuer.Become("8f3", map[string]any{"email": "kim@example.com", "email_verified": true, "groups": []string{"db", "sales"}})
	now := func() time.Time { return time.Now().Add(g.ahead) }
	provider, err := identity.NewProvider(identity.ProviderOptions{Issuer: g.issuer.URL, Now: now})
	require.OK(t, err)
	key := []byte(strings.Repeat("k", seal.MinKey))
	g.options = signin.IssuerOptions{
		Provider: provider, ID: "gate", Redirect: back, Now: now,
		Claims: identity.ClaimMap{Roles: identity.Roles{Operators: []string{"db"}}},
		Sealer: seal.New(func(context.Context) (seal.Keys, error) { return seal.Keys{Current: key}, nil }),
	}
	if password != "" {
		g.options.Secret = func(context.Context) (secret.Text, error) { return secret.New(password), nil }
	}
	g.Issuer = signin.NewIssuer(g.options)
	return g
}

// signIn signs in at the issuer, and returns the cookie of the sign-in and the issuer's answer.
func (g *gate) signIn() (kept string, answer url.Values) {
	g.t.Helper()
	to, kept, err := g.Begin(g.t.Context(), []byte("tools/fs/read_file"))
	require.OK(g.t, err)
	at := g.issuer.Visit(to)
	if !strings.HasPrefix(at.String(), back+"?") {
		g.t.Fatalf("the issuer redirects to %s", at)
	}
	return kept, at.Query()
}

// reason returns the reason with which Finish refuses an answer.
func (g *gate) reason(kept string, answer url.Values) signin.Reason {
	g.t.Helper()
	who, _, err := g.Finish(g.t.Context(), kept, answer)
	e, ok := errors.AsType[*signin.Error](err)
	if !ok {
		g.t.Fatalf("Finish = %+v, %v", who, err)
	}
	if d := cmp.Diff(identity.Person{}, who); d != "" {
		g.t.Errorf("Finish returns a person: %s", d)
	}
	for _, secret := range []string{answer.Get("code"), answer.Get("state"), kept} {
		if secret != "" && len(secret) > 10 && strings.Contains(err.Error(), secret) {
			g.t.Errorf("a secret is in the error: %v", err)
		}
	}
	return e.Reason
}

func TestSignIn(t *testing.T) {
	for name, tt := range map[string]struct {
		password string
		methods  any
	}{
		"a public client":                 {"", nil},
		"a secret, no methods":            {"p&ss word", nil},
		"a secret in the header":          {"p&ss word", []string{"client_secret_post", "client_secret_basic"}},
		"a secret in the form":            {"p&ss word", []string{"client_secret_post"}},
		"a public client, method none":    {"", []string{"none"}},
		"a public client, wrong metadata": {"", []string{"client_secret_basic"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, tt.password)
			g.issuer.Bend(identitytest.Bend{Metadata: func(m map[string]any) {
				if delete(m, "token_endpoint_auth_methods_supported"); tt.methods != nil {
					m["token_endpoint_auth_methods_supported"] = tt.methods
				}
			}})
			kept, answer := g.signIn()
			who, carried, err := g.Finish(t.Context(), kept, answer)
			want := identity.Person{Name: "kim@example.com", Subject: g.issuer.URL + " 8f3", Groups: []string{"db"}}
			if d := cmp.Diff(want, who); d != "" || err != nil || string(carried) != "tools/fs/read_file" {
				t.Errorf("Finish = %v, carried %q (-want +got):\n%s", err, carried, d)
			}
			if got := g.reason(kept, answer); got != signin.SpentCode {
				t.Errorf("the same answer again: reason %v, want SpentCode", got)
			}
		})
	}
}

func TestScopes(t *testing.T) {
	for want, said := range map[string]any{
		"openid profile email":        nil,
		"openid email groups":         []string{"openid", "email", "groups", "offline_access"},
		"openid profile email groups": []string{"groups", "profile", "email"},
	} {
		g := newGate(t, "")
		g.issuer.Bend(identitytest.Bend{Metadata: func(m map[string]any) {
			if said != nil {
				m["scopes_supported"] = said
			}
		}})
		g.signIn()
		if got := g.issuer.Asked(); got[0] != want {
			t.Errorf("issuer with the scopes %v: requested %q, want %q", said, got, want)
		}
	}
}

// otherAt returns s with a different letter at i.
func otherAt(s string, i int) string {
	letter := "x"
	if s[i] == 'x' {
		letter = "y"
	}
	return s[:i] + letter + s[i+1:]
}

// Finish refuses each invalid answer, with the right reason.
func TestBadAnswers(t *testing.T) {
	other := newGate(t, "")
	otherKept, otherAnswer := other.signIn()
	for name, tt := range map[string]struct {
		harm func(kept *string, answer url.Values)
		want signin.Reason
	}{
		"another state":                   {func(_ *string, a url.Values) { a.Set("state", otherAnswer.Get("state")) }, signin.OtherState},
		"no state":                        {func(_ *string, a url.Values) { a.Del("state") }, signin.OtherState},
		"two states":                      {func(_ *string, a url.Values) { a.Add("state", a.Get("state")) }, signin.Malformed},
		"another browser":                 {func(k *string, _ url.Values) { *k = "" }, signin.NotBegun},
		"another sign-in of this browser": {func(k *string, _ url.Values) { *k = otherKept }, signin.OtherState},
		"a made up cookie":                {func(k *string, _ url.Values) { *k = strings.Repeat("A", 300) }, signin.NotBegun},
		"a changed cookie":                {func(k *string, _ url.Values) { *k = otherAt(*k, 40) }, signin.NotBegun},
		"another issuer":                  {func(_ *string, a url.Values) { a.Set("iss", "https://login.example.org") }, signin.OtherIssuer},
		"an empty issuer":                 {func(_ *string, a url.Values) { a.Set("iss", "") }, signin.OtherIssuer},
		"two issuers":                     {func(_ *string, a url.Values) { a.Add("iss", "https://login.example.org") }, signin.Malformed},
		"a code of another sign-in":       {func(_ *string, a url.Values) { a.Set("code", otherAnswer.Get("code")) }, signin.SpentCode},
		"a made up code":                  {func(_ *string, a url.Values) { a.Set("code", "x") }, signin.SpentCode},
		"no code":                         {func(_ *string, a url.Values) { a.Del("code") }, signin.Malformed},
		"two codes":                       {func(_ *string, a url.Values) { a.Add("code", "x") }, signin.Malformed},
		"a refusal":                       {func(_ *string, a url.Values) { a.Set("error", "access_denied") }, signin.Refused},
		"a refusal with an unknown code":  {func(_ *string, a url.Values) { a.Set("error", "call me") }, signin.Refused},
		"a refusal of the client":         {func(_ *string, a url.Values) { a.Set("error", "unauthorized_client") }, signin.Unsuited},
		"a temporary refusal":             {func(_ *string, a url.Values) { a.Set("error", "temporarily_unavailable") }, signin.Unavailable},
		"a refusal of another issuer": {func(_ *string, a url.Values) {
			a.Set("error", "access_denied")
			a.Set("iss", "https://login.example.org")
		}, signin.OtherIssuer},
		"a refusal with another state": {func(_ *string, a url.Values) {
			a.Set("error", "access_denied")
			a.Set("state", "x")
		}, signin.OtherState},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, "")
			kept, answer := g.signIn()
			g.options.Sealer = other.options.Sealer
			tt.harm(&kept, answer)
			if got := g.reason(kept, answer); got != tt.want {
				t.Errorf("reason = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	t.Run("too late", func(t *testing.T) {
		g := newGate(t, "")
		kept, answer := g.signIn()
		g.ahead = signin.Life
		_, carried, err := g.Finish(t.Context(), kept, answer)
		if e, ok := errors.AsType[*signin.Error](err); !ok || e.Reason != signin.Late || string(carried) != "tools/fs/read_file" {
			t.Errorf("Finish = %v, carried %q", err, carried)
		}
	})
	t.Run("no issuer in the answer, required", func(t *testing.T) {
		g := newGate(t, "")
		g.issuer.Bend(identitytest.Bend{Metadata: func(m map[string]any) { m["authorization_response_iss_parameter_supported"] = true }})
		kept, answer := g.signIn()
		answer.Del("iss")
		if got := g.reason(kept, answer); got != signin.OtherIssuer {
			t.Errorf("reason = %v", got)
		}
	})
	t.Run("no issuer in the answer, optional", func(t *testing.T) {
		g := newGate(t, "")
		kept, answer := g.signIn()
		answer.Del("iss")
		if _, _, err := g.Finish(t.Context(), kept, answer); err != nil {
			t.Error(err)
		}
	})
	t.Run("the text of a refusal is only in the log", func(t *testing.T) {
		g := newGate(t, "")
		kept, answer := g.signIn()
		answer.Set("error", "call_0800")
		answer.Set("error_description", "Call 0800\nlevel=ERROR msg=forged "+strings.Repeat("x", 5000))
		_, _, err := g.Finish(t.Context(), kept, answer)
		e, ok := errors.AsType[*signin.Error](err)
		if !ok || e.Code != "" || !strings.Contains(err.Error(), "Call 0800") || strings.Contains(err.Error(), "\n") || len(err.Error()) > 600 {
			t.Errorf("Finish = %v", err)
		}
	})
}

// Finish refuses each invalid ID token, with the right reason.
func TestBadTokens(t *testing.T) {
	set := func(name string, value any) func(map[string]any) {
		return func(c map[string]any) { c[name] = value }
	}
	now := time.Now()
	for name, tt := range map[string]struct {
		bend identitytest.Bend
		want signin.Reason
	}{
		"another nonce":             {identitytest.Bend{Token: set("nonce", strings.Repeat("n", 43))}, signin.OtherNonce},
		"no nonce":                  {identitytest.Bend{Token: func(c map[string]any) { delete(c, "nonce") }}, signin.OtherNonce},
		"another issuer":            {identitytest.Bend{Token: set("iss", "https://login.example.org")}, signin.OtherIssuer},
		"another audience":          {identitytest.Bend{Token: set("aud", "crm")}, signin.OtherAudience},
		"another azp":               {identitytest.Bend{Token: set("azp", "crm")}, signin.OtherAudience},
		"two audiences without azp": {identitytest.Bend{Token: set("aud", []string{"gate", "crm"})}, signin.OtherAudience},
		"expired":                   {identitytest.Bend{Token: set("exp", now.Add(-time.Minute).Unix())}, signin.OldToken},
		"issued yesterday":          {identitytest.Bend{Token: set("iat", now.Add(-24*time.Hour).Unix())}, signin.OldToken},
		"issued tomorrow":           {identitytest.Bend{Token: set("iat", now.Add(24*time.Hour).Unix())}, signin.OldToken},
		"no time of issue":          {identitytest.Bend{Token: func(c map[string]any) { delete(c, "iat") }}, signin.OldToken},
		"no subject":                {identitytest.Bend{Token: func(c map[string]any) { delete(c, "sub") }}, signin.BadToken},
		"a reserved subject":        {identitytest.Bend{Token: set("sub", "token:ci")}, signin.BadToken},
		"groups of a wrong form":    {identitytest.Bend{Token: set("groups", 7)}, signin.BadToken},
		"a changed signature":       {identitytest.Bend{ID: func(s string) string { return s[:len(s)-5] + "AAAAA" }}, signin.BadToken},
		"no token":                  {identitytest.Bend{ID: func(string) string { return "" }}, signin.Nonsense},
		"no signature":              {identitytest.Bend{ID: func(s string) string { return s[:strings.LastIndex(s, ".")+1] }}, signin.BadToken},
		"no JWT":                    {identitytest.Bend{ID: func(string) string { return "x" }}, signin.BadToken},
		"groups only by reference": {identitytest.Bend{Token: func(c map[string]any) {
			delete(c, "groups")
			c["_claim_names"], c["_claim_sources"] = map[string]any{"groups": "src1"}, map[string]any{"src1": map[string]any{"endpoint": "https://graph.example.com"}}
		}}, signin.TooManyGroups},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, "")
			kept, answer := g.signIn()
			g.issuer.Bend(tt.bend)
			if got := g.reason(kept, answer); got != tt.want {
				t.Errorf("reason = %v, want %v", got, tt.want)
			}
		})
	}
	t.Run("two audiences, for this client", func(t *testing.T) {
		g := newGate(t, "")
		kept, answer := g.signIn()
		g.issuer.Bend(identitytest.Bend{Token: func(c map[string]any) { c["aud"], c["azp"] = []string{"gate", "crm"}, "gate" }})
		if _, _, err := g.Finish(t.Context(), kept, answer); err != nil {
			t.Error(err)
		}
	})
	t.Run("signed with another key", func(t *testing.T) {
		g := newGate(t, "")
		kept, answer := g.signIn()
		stranger := identitytest.NewEC(t, g.issuer.Key().KeyID)
		g.issuer.Bend(identitytest.Bend{ID: func(string) string { return identitytest.Sign(t, stranger, g.issuer.Claims("gate", nil)) }})
		if got := g.reason(kept, answer); got != signin.BadToken {
			t.Errorf("reason = %v", got)
		}
	})
}

// answering makes the issuer answer a code with this response.
func answering(status int, kind, body string) identitytest.Bend {
	return identitytest.Bend{Trade: func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
		return true
	}}
}

func TestBadIssuers(t *testing.T) {
	for name, tt := range map[string]struct {
		bend identitytest.Bend
		want signin.Reason
	}{
		"an error of the server": {answering(500, "text/html", "<h1>oops</h1>"), signin.Unavailable},
		"too many requests":      {answering(429, "text/plain", ""), signin.Unavailable},
		"a page":                 {answering(200, "text/html", "<h1>Sign in</h1>"), signin.Nonsense},
		"a truncated answer":     {answering(200, "application/json", `{"access_token":"x`), signin.Nonsense},
		"an empty answer":        {answering(200, "application/json", `{}`), signin.Nonsense},
		"a list":                 {answering(200, "application/json", `[]`), signin.Nonsense},
		"an unknown client":      {answering(401, "application/json", `{"error":"invalid_client","error_description":"secret p"}`), signin.Unsuited},
		"a refusal with 200":     {answering(200, "application/json", `{"error":"invalid_grant"}`), signin.SpentCode},
		"a redirect elsewhere": {identitytest.Bend{Trade: func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Location", "https://login.example.org/token")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}}, signin.Nonsense},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, "p")
			kept, answer := g.signIn()
			g.issuer.Bend(tt.bend)
			if got := g.reason(kept, answer); got != tt.want {
				t.Errorf("reason = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestIssuerThatIsDown(t *testing.T) {
	t.Run("down", func(t *testing.T) {
		g := newGate(t, "")
		g.issuer.Down(true)
		if _, _, err := g.Begin(t.Context(), nil); reasonOf(err) != signin.Unavailable {
			t.Errorf("Begin = %v", err)
		}
		g.issuer.Down(false)
		g.ahead += 3 * time.Second
		kept, answer := g.signIn()
		g.issuer.Down(true)
		if got := g.reason(kept, answer); got != signin.Unavailable {
			t.Errorf("reason = %v", got)
		}
	})
	t.Run("slow", func(t *testing.T) {
		g := newGate(t, "")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		kept, answer := g.signIn()
		g.issuer.Bend(identitytest.Bend{Trade: func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done() // the client gives up first
			return true
		}})
		if _, _, err := g.Finish(ctx, kept, answer); reasonOf(err) != signin.Unavailable {
			t.Errorf("Finish = %v", err)
		}
	})
}

func TestBadMetadata(t *testing.T) {
	for name, metadata := range map[string]func(map[string]any){
		"with another issuer":       func(m map[string]any) { m["issuer"] = "https://login.example.org" },
		"with an invalid issuer":    func(m map[string]any) { m["issuer"] = 7 },
		"without sign-in endpoint":  func(m map[string]any) { delete(m, "authorization_endpoint") },
		"with HTTP for sign-in":     func(m map[string]any) { m["authorization_endpoint"] = "http://login.example.com/authorize" },
		"with a script for sign-in": func(m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)" },
		"without token endpoint":    func(m map[string]any) { m["token_endpoint"] = "" },
	} {
		t.Run("metadata "+name, func(t *testing.T) {
			g := newGate(t, "")
			g.issuer.Bend(identitytest.Bend{Metadata: metadata})
			if _, _, err := g.Begin(t.Context(), nil); reasonOf(err) != signin.Unavailable && reasonOf(err) != signin.Nonsense {
				t.Errorf("Begin = %v", err)
			}
		})
	}
	t.Run("without client secrets", func(t *testing.T) {
		g := newGate(t, "p")
		g.issuer.Bend(identitytest.Bend{Metadata: func(m map[string]any) { m["token_endpoint_auth_methods_supported"] = []string{"private_key_jwt"} }})
		kept, answer := g.signIn()
		if got := g.reason(kept, answer); got != signin.Unsuited {
			t.Errorf("reason = %v", got)
		}
	})
}

func TestBrokenGate(t *testing.T) {
	t.Run("with an unreadable secret", func(t *testing.T) {
		g := newGate(t, "")
		kept, answer := g.signIn()
		g.options.Secret = func(context.Context) (secret.Text, error) { return secret.Text{}, errors.New("no such parameter") }
		g.Issuer = signin.NewIssuer(g.options)
		if got := g.reason(kept, answer); got != signin.NoKey {
			t.Errorf("reason = %v", got)
		}
	})
	t.Run("without a sealing key", func(t *testing.T) {
		g := newGate(t, "")
		kept, answer := g.signIn()
		g.options.Sealer = seal.New(func(context.Context) (seal.Keys, error) { return seal.Keys{}, errors.New("no such secret") })
		g.Issuer = signin.NewIssuer(g.options)
		if _, _, err := g.Begin(t.Context(), nil); reasonOf(err) != signin.NoKey {
			t.Errorf("Begin = %v", err)
		}
		if got := g.reason(kept, answer); got != signin.NoKey {
			t.Errorf("reason = %v", got)
		}
	})
}

func reasonOf(err error) signin.Reason {
	if e, ok := errors.AsType[*signin.Error](err); ok {
		return e.Reason
	}
	return -1
}

func TestEndSession(t *testing.T) {
	g := newGate(t, "")
	if got := g.EndSession(t.Context()); got != g.issuer.URL+"/logout?client_id=gate" {
		t.Errorf("EndSession = %q", got)
	}
	for _, at := range []any{nil, "", "javascript:alert(1)", "http://login.example.com/logout"} {
		g := newGate(t, "")
		g.issuer.Bend(identitytest.Bend{Metadata: func(m map[string]any) { m["end_session_endpoint"] = at }})
		if got := g.EndSession(t.Context()); got != "" {
			t.Errorf("%v: %q", at, got)
		}
	}
}

// The gateway reads the metadata of an issuer once an hour. If the issuer is down, a sign-in uses
// older metadata, at most a day old.
func TestMetadataAreKept(t *testing.T) {
	g := newGate(t, "")
	asked := 0
	g.issuer.Bend(identitytest.Bend{Metadata: func(map[string]any) { asked++ }})
	for range 3 {
		g.signIn()
	}
	if asked != 1 {
		t.Errorf("the metadata were requested %d times, want once", asked)
	}
	g.ahead = time.Hour
	g.signIn()
	g.ahead += time.Hour
	g.issuer.Down(true)
	// The third request gets no answer.
	if _, _, err := g.Begin(t.Context(), nil); asked != 3 || err != nil {
		t.Errorf("the metadata were requested %d times, want 3; error %v", asked, err)
	}
	g.ahead += 25 * time.Hour
	if _, _, err := g.Begin(t.Context(), nil); reasonOf(err) != signin.Unavailable {
		t.Errorf("with metadata that are a day old: %v", err)
	}
}
