package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token/tokentest"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// withTokens returns a fixture with agent tokens.
func withTokens(t *testing.T) *fixture {
	t.Helper()
	h := newFixture(t)
	s := token.NewStore(new(documenttest.Store))
	h.Console.Tokens = &token.Registry{Store: s, Keys: token.OneKey(tokentest.Key(t)), Now: h.Clock.Now, Log: slog.New(slog.NewTextHandler(h.Log, nil))}
	h.Open()
	return h
}

// A madeToken is the answer to making a token.
type madeToken struct {
	admin.AgentToken
	Token string
}

const ciToken = `{"name":"ci","servers":["fs"],"tiers":["read"],"toolsets":["docs"],"days":30}`

func (h *fixture) mint(body string) (m madeToken) {
	h.T.Helper()
	h.Ask(http.StatusCreated, "/admin/tokens", body, &m)
	return m
}

// agent returns the agent with the token.
func (h *fixture) agent(text string) (identity.Agent, error) {
	v, err := identity.New(identity.Options{Tokens: &identity.Tokens{Store: h.Console.Tokens.Store, Keys: h.Console.Tokens.Keys, Now: h.Clock.Now}})
	require.OK(h.T, err)
	r, err := http.NewRequestWithContext(h.T.Context(), http.MethodPost, "/mcp", nil)
	require.OK(h.T, err)
	r.Header.Set("Authorization", "Bearer "+text)
	return v.Authenticate(r)
}

func TestMakeToken(t *testing.T) {
	h := withTokens(t)
	m := h.mint(ciToken)
	if m.CreatedBy != "ann" || m.Status != "live" || m.ExpiresAt.Sub(m.CreatedAt) != 30*24*time.Hour {
		t.Errorf("made %+v", m.AgentToken)
	}
	a, err := h.agent(m.Token)
	if err != nil || a.ID != "token:ci" || len(a.Servers) != 1 || len(a.Toolsets) != 1 || a.Rights.Role != 0 {
		t.Errorf("the agent is %+v, %v", a, err)
	}
	list := h.Send("/admin/tokens", "").Body
	stored, err := h.Console.Tokens.Store.Token(t.Context(), m.ID)
	require.OK(t, err)
	for _, secret := range []string{m.Token, m.Token[4:20], stored.Hash} {
		if strings.Contains(list, secret) || strings.Contains(h.Log.String(), secret) {
			t.Errorf("a secret is in the list or the log")
		}
	}
	if !strings.Contains(list, m.ID) || !strings.Contains(h.Log.String(), m.ID) || !strings.Contains(h.Log.String(), "actor=ann") {
		t.Errorf("list %s\nlog %s", list, h.Log)
	}
}

// The list says which key each token has, and the state of the keys.
func TestTokensNameTheirKey(t *testing.T) {
	h := withTokens(t)
	old := h.mint(ciToken)
	next, err := token.NewKey(strings.Repeat("n", token.MinKey))
	require.OK(t, err)
	since := h.Clock.Now()
	v := secret.Versions{Current: secret.Version{Text: next.Text, Since: since}, Previous: secret.Version{Text: tokentest.Key(t).Text}}
	h.Console.Tokens.Keys = token.NewKeyRing(func(context.Context) (token.Keys, error) { return token.ReadKeys(v, 30) }, nil, nil)
	h.Open()
	fresh := h.mint(ciToken)
	type list struct {
		Tokens []admin.AgentToken
		Keys   *admin.TokenKeys
	}
	got := admintest.Into[list](h.Fixture, "/admin/tokens", "")
	for _, x := range got.Tokens {
		if want := map[string]string{old.ID: "previous", fresh.ID: "current"}[x.ID]; x.Key != want || x.Status != "live" {
			t.Errorf("%s is %s, under the key %q, want %q", x.Name, x.Status, x.Key, want)
		}
	}
	k := got.Keys
	if k == nil || k.Previous == nil || k.Previous.Live != 1 || k.Current.Live != 1 || k.Void != 0 || k.Current.ID != next.ID() || !k.Previous.Until.Equal(since.Add(30*24*time.Hour)) {
		t.Errorf("keys %+v", k)
	}
	h.Console.Tokens.Keys = token.NewKeyRing(func(context.Context) (token.Keys, error) { return token.Keys{}, errors.New("down") }, nil, nil)
	h.Open()
	if got := admintest.Into[list](h.Fixture, "/admin/tokens", ""); got.Keys != nil || len(got.Tokens) != 2 || got.Tokens[0].Key != "" || got.Tokens[0].Status != "live" {
		t.Errorf("without keys: %+v", got)
	}
}

func TestRevokeToken(t *testing.T) {
	h := withTokens(t)
	m := h.mint(ciToken)
	got := admintest.Into[admin.AgentToken](h.Fixture, "/admin/tokens/"+m.ID+"/revoke", `{}`)
	if got.Status != "revoked" || got.RevokedBy != "ann" {
		t.Errorf("revoked %+v", got)
	}
	var e *identity.Error
	if _, err := h.agent(m.Token); !errors.As(err, &e) || e.Kind != identity.Invalid {
		t.Errorf("a revoked token is accepted: %v", err)
	}
	again := admintest.Into[admin.AgentToken](h.Fixture, "/admin/tokens/"+m.ID+"/revoke", `{}`)
	if again.RevokedAt != got.RevokedAt {
		t.Errorf("a second revocation changed the time to %v", again.RevokedAt)
	}
	h.Problem(http.StatusNotFound, "/admin/tokens/none/revoke", `{}`)
}

func TestTokensInOpenAPI(t *testing.T) {
	for _, tt := range []struct {
		fixture *fixture
		want    bool
	}{{newFixture(t), false}, {withTokens(t), true}} {
		got := strings.Contains(tt.fixture.Send("/admin/openapi.json", "").Body, `"/admin/tokens/{id}/revoke"`)
		if code := tt.fixture.Send("/admin/tokens", "").Status; got != tt.want || (code == http.StatusOK) != tt.want {
			t.Errorf("in the document %v, answer %d; want %v", got, code, tt.want)
		}
	}
}

// A grant belongs to a token's name, so the answer to a revocation lists the grants that a later
// token of this name will have.
func TestRevokeTokenListsGrants(t *testing.T) {
	h := withTokens(t)
	ci := request.Agent{Way: identity.WayToken, ID: "token:ci"}
	id := h.Asks(ci, "mail:send", "", "")
	path := "/admin/requests/" + id
	hash := admintest.Into[decide.Request](h.Fixture, path, "").Hash
	admintest.Into[decide.Request](h.Fixture, path+"/decide", fmt.Sprintf(`{"verdict":"allowed","hash":%q,"minutes":60}`, hash))
	type answer struct {
		Status  string
		Granted []decide.Grant
		Unread  bool `json:"granted_unread"`
	}
	revoke := func() answer {
		t.Helper()
		return admintest.Into[answer](h.Fixture, "/admin/tokens/"+h.mint(ciToken).ID+"/revoke", "{}")
	}
	got := revoke()
	if len(got.Granted) != 1 || got.Status != "revoked" || got.Granted[0].Request != id || got.Granted[0].Tool != "mail:send" || got.Granted[0].Verdict != request.Allowed {
		t.Errorf("revoked: %+v", got)
	}
	h.Approvals.OnDocs = documenttest.DocsOf("GRANT#", func() error { return errors.New("down") })
	if got := revoke(); got.Status != "revoked" || !got.Unread || !strings.Contains(h.Log.String(), "down") {
		t.Errorf("while the store fails: %+v", got)
	}
	h.Approvals.OnDocs = nil
	admintest.Into[decide.Request](h.Fixture, path+"/decide", `{"verdict":"revoked"}`)
	if got := revoke(); got.Granted == nil || len(got.Granted) != 0 || got.Unread {
		t.Errorf("after the grant has ended: %+v", got)
	}
}
