package console_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token/tokentest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

var personSam = signin.Person{Actor: "sam", Way: signin.WayKey}

// If the gateway accepts no tokens, the page says so, and how an operator can change that.
func TestTokensPageWithoutTokens(t *testing.T) {
	h := newFixture(t)
	says(t, h.Page(http.StatusNotFound, "/admin/tokens"), "This gateway accepts no agent tokens", "adds token to PORTCULLIS_AUTH")
	lacks(t, h.Page(http.StatusOK, "/admin"), "admin/tokens")
}

// withTokens returns a fixture with agent tokens.
func withTokens(t *testing.T) *fixture {
	t.Helper()
	h := newFixture(t)
	h.keepTokens()
	return h
}

// keepTokens adds agent tokens to the fixture.
func (h *fixture) keepTokens() {
	h.T.Helper()
	s := token.NewStore(new(documenttest.Store))
	h.Console.Tokens = &token.Registry{Store: s, Keys: token.OneKey(tokentest.Key(h.T)), Now: h.Clock.Now, Log: slog.New(slog.NewTextHandler(h.Log, nil))}
	h.Open()
}

// sole returns the only token.
func (h *fixture) sole() token.Token {
	h.T.Helper()
	all, err := h.Console.Tokens.Store.Tokens(h.T.Context())
	require.OK(h.T, err)
	if len(all) != 1 {
		h.T.Fatalf("there are %d tokens, want 1", len(all))
	}
	return all[0]
}

func TestTokensPage(t *testing.T) {
	h := withTokens(t)
	if page := h.Page(http.StatusOK, "/admin/tokens"); !strings.Contains(page, "There is no token") || !strings.Contains(page, `<a href="../admin/tokens" aria-current="page">Tokens</a>`) {
		t.Errorf("page = %s", page)
	}
	w := h.Submit("/admin/tokens", url.Values{
		"name": {" ci "}, "servers": {"fs, mail\nold"}, "tier": {"read", "write"}, "toolsets": {""}, "days": {"30"},
	})
	text := h.Field(strings.ReplaceAll(w.Body, `class="mono" size="48" readonly value`, `name="text" value`), "text")
	made := h.sole()
	if id, _ := tokentest.Key(t).Identify(secret.New(text)); w.Status != http.StatusCreated || id != made.ID || w.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %s", w.Status, w.Body)
	}
	if got := fmt.Sprint(made.Name, made.Servers, made.Tiers, made.Toolsets, made.Admin, made.CreatedBy, made.ExpiresAt.Sub(made.CreatedAt)); got != "ci[fs mail old] [read write] [] falseann720h0m0s" {
		t.Errorf("the fields of the new token are %s", got)
	}
	page := h.Page(http.StatusOK, "/admin/tokens")
	says(t, page, "token:ci", made.ID, `<span class="chip callable">live</span>`, "fs, mail, old", "by ann", "never", "20 December 2026")
	if strings.Contains(page, text) || strings.Contains(page, made.Hash) || strings.Contains(h.Log.String(), text) {
		t.Error("the text of the token is on the page again, or in the log")
	}
	// these headers select the API, which has the same address
	for _, headers := range []string{"Content-Type: application/json", "Accept: application/json"} {
		if w := h.Send("/admin/tokens", `{"name":"x","servers":[],"tiers":[],"days":0}`, headers); w.Status != http.StatusUnprocessableEntity || !strings.HasPrefix(w.Header.Get("Content-Type"), "application/problem+json") {
			t.Errorf("%s: %d %s", headers, w.Status, w.Body)
		}
	}
}

func TestTokensPageRefuses(t *testing.T) {
	h := withTokens(t)
	form := url.Values{"name": {`a "b"`}, "servers": {"fs"}, "tier": {"write", "root"}, "days": {"soon"}, "admin": {"1"}}
	w := h.Submit("/admin/tokens", form)
	for _, want := range []string{"No token was made", "want 1 to 64 letters", "tier &#34;root&#34;", "at most 365 days", `value="a &#34;b&#34;"`, `name="servers" autocomplete="off" value="fs"`, `value="write" checked`, `value="soon"`, `name="admin" value="1" checked`} {
		if w.Status != http.StatusUnprocessableEntity || !strings.Contains(w.Body, want) {
			t.Errorf("%d, the page lacks %q:\n%s", w.Status, want, w.Body)
		}
	}
	for _, days := range []string{"", "0", "-1", "366", "99999999999999999999", "1e9", "106752"} {
		form.Set("name", "ci")
		form["tier"] = nil
		form.Set("days", days)
		if w := h.Submit("/admin/tokens", form); w.Status != http.StatusUnprocessableEntity {
			t.Errorf("%q days: %d", days, w.Status)
		}
	}
	if all, err := h.Console.Tokens.Store.Tokens(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("tokens were made: %v, %v", all, err)
	}
}

func TestRevokePage(t *testing.T) {
	h := withTokens(t)
	h.Submit("/admin/tokens", url.Values{"name": {"ci"}, "days": {"1"}})
	made := h.sole()
	path := "/admin/tokens/" + made.ID + "/revoke"
	if page := h.Page(http.StatusOK, path); !strings.Contains(page, "Revoke token:ci") || !strings.Contains(page, `action="../../../admin/tokens/`+made.ID+`/revoke"`) || h.sole().RevokedBy != "" {
		t.Errorf("page = %s", page)
	}
	w := h.Submit(path, url.Values{"x": {""}})
	if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "../../tokens?revoked="+made.ID || h.sole().RevokedBy != "ann" {
		t.Fatalf("%d to %q", w.Status, w.Header.Get("Location"))
	}
	if page := h.Page(http.StatusOK, "/admin/tokens?revoked="+made.ID); !strings.Contains(page, "token:ci is revoked") || strings.Contains(page, path) {
		t.Errorf("page = %s", page)
	}
	lacks(t, h.Page(http.StatusOK, "/admin/tokens?revoked=none"), "is revoked")
	if page := h.Page(http.StatusOK, path); !strings.Contains(page, "already revoked") || strings.Contains(page, "Revoke it") {
		t.Errorf("page = %s", page)
	}
	says(t, h.Page(http.StatusNotFound, "/admin/tokens/none/revoke"), "no token with this id")
	if w := h.Submit("/admin/tokens/none/revoke", url.Values{"x": {""}}); w.Status != http.StatusNotFound {
		t.Errorf("%d", w.Status)
	}
}

// A grant applies to a token's name, and would apply to a later token with that name. So the person
// who revokes a token sees its grants and can end them.
func TestRevokedTokenPageEndsGrants(t *testing.T) {
	h := withTokens(t)
	ci := request.Agent{Way: identity.WayToken, ID: "token:ci"}
	id := h.Asks(ci, "mail:send", "", "")
	if status, page := h.verdict(id, "allowed 60"); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, page)
	}
	h.Submit("/admin/tokens", url.Values{"name": {"ci"}, "days": {"1"}})
	made := h.sole()
	lacks(t, h.Page(http.StatusOK, "/admin/tokens"), "End the grant")
	h.Submit("/admin/tokens/"+made.ID+"/revoke", url.Values{"x": {""}})
	const action = "/admin/requests/%s/decide"
	after := "/admin/tokens?revoked=" + made.ID
	says(t, h.Page(http.StatusOK, after), "1 grant to token:ci is still active", "mail:send", fmt.Sprintf(`action="..`+action+`"`, id), `name="verdict" value="revoked"`)
	if a := h.Submit(fmt.Sprintf(action, id), url.Values{"verdict": {"revoked"}}); a.Status != http.StatusSeeOther {
		t.Errorf("the button that ends the grant: %d %s", a.Status, a.Body)
	}
	lacks(t, h.Page(http.StatusOK, after), "End the grant")
	h.Approvals.OnDocs = documenttest.DocsOf("GRANT#", func() error { return errors.New("down") })
	says(t, h.Page(http.StatusOK, after), "The gateway cannot read the grants of token:ci now")
}

// Valid tokens come first. No token is missing, and none is on two pages.
func TestTokensPagePaging(t *testing.T) {
	h := withTokens(t)
	for i := range 60 {
		w := token.Spec{Name: fmt.Sprintf("agent-%02d", i), Servers: []string{"fs"}, Tiers: []string{"read"}, Days: 1 + i%2}
		_, _, err := h.Console.Tokens.Make(t.Context(), "ann", w)
		require.OK(t, err)
	}
	h.Clock.Wait(25 * time.Hour) // every second token has expired
	const find = `>token:(agent-\d+)`
	seen, pages := h.walk("/admin/tokens", find)
	if once(t, seen, 60); pages != 2 {
		t.Errorf("%d pages, want 2", pages)
	}
	page := h.Page(http.StatusOK, "/admin/tokens")
	first := regexp.MustCompile(find).FindAllStringSubmatch(page, -1)
	if first[0][1] != "agent-01" || first[30][1] != "agent-00" {
		t.Errorf("the order is %v", first)
	}
}

func TestTokensPageWithoutStore(t *testing.T) {
	h := withTokens(t)
	h.Console.Tokens.Store = downTokens()
	h.Open()
	for _, w := range []string{
		h.Send("/admin/tokens", "", browser).Body, h.Submit("/admin/tokens", url.Values{"name": {"ci"}, "days": {"1"}}).Body,
		h.Send("/admin/tokens/x/revoke", "", browser).Body, h.Submit("/admin/tokens/x/revoke", url.Values{"x": {""}}).Body,
	} {
		if !strings.Contains(w, "the log says more") || strings.Contains(w, "arn:") {
			t.Errorf("got page %s", w)
		}
	}
}

var errDown = errors.New("table arn:aws:x does not answer")

// downTokens returns tokens whose store does not answer.
func downTokens() *token.Store {
	return token.NewStore(&documenttest.Store{
		OnDocs: func(context.Context, []document.Key) error { return errDown },
		OnPut:  func(context.Context, []document.Doc) (bool, error) { return false, errDown },
		OnList: func(context.Context, string) error { return errDown },
	})
}

// The page shows which tokens depend on the previous key, and which tokens are void because their
// key no longer exists.
func TestTokensPageAfterARotation(t *testing.T) {
	h := withTokens(t)
	h.Submit("/admin/tokens", url.Values{"name": {"ci"}, "servers": {"fs"}, "tier": {"read"}, "days": {"30"}})
	lacks(t, h.Page(http.StatusOK, "/admin/tokens"), "key was replaced")
	next := secret.Version{Text: secret.New(strings.Repeat("n", token.MinKey)), Since: h.Clock.Now()}
	for days, want := range map[int][]string{
		30: {"The key was replaced", "1 live token is still under the previous key", `<span class="chip">previous key</span>`, "The gateway accepts the previous key until"},
		0:  {"1 token is void", `<span class="chip">void</span>`},
	} {
		v := secret.Versions{Current: next, Previous: secret.Version{Text: tokentest.Key(t).Text}}
		h.Console.Tokens.Keys = token.NewKeyRing(func(context.Context) (token.Keys, error) { return token.ReadKeys(v, days) }, nil, nil)
		h.Open()
		says(t, h.Page(http.StatusOK, "/admin/tokens"), want...)
	}
}
