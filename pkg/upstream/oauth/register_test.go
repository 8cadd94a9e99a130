package oauth_test

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A new registration describes the gateway. The gateway uses the registration until its secret
// expires.
func TestRegister(t *testing.T) {
	const at = issuer + "/register"
	for name, c := range map[string]struct {
		answer    string
		supported []string
		auth      string
		expires   time.Time
		code      oauth.Code
	}{
		"public": {`201 {"client_id":"a"}`, nil, "none", time.Time{}, ""},
		"secret": {
			`201 {"client_id":"a","client_secret":"s"}`, nil, "client_secret_basic", time.Time{},
			"",
		},
		"post": {
			`201 {"client_id":"a","client_secret":"s","token_endpoint_auth_method":"client_secret_post"}`,
			nil, "client_secret_post", time.Time{}, "",
		},
		"post_supported": {
			`200 {"client_id":"a","client_secret":"s"}`, []string{"client_secret_post"},
			"client_secret_post", time.Time{}, "",
		},
		"unknown_method": {
			`201 {"client_id":"a","client_secret":"s","token_endpoint_auth_method":"private_key_jwt"}`,
			nil, "client_secret_basic", time.Time{}, "",
		},
		"expires": {
			`201 {"client_id":"a","client_secret":"s","client_secret_expires_at":1900000000}`, nil,
			"client_secret_basic", time.Unix(1900000000, 0), "",
		},
		"never": {
			`201 {"client_id":"a","client_secret":"s","client_secret_expires_at":0}`, nil,
			"client_secret_basic", time.Time{}, "",
		},
		"refused": {
			`400 {"error":"invalid_redirect_uri"}`, nil, "", time.Time{}, oauth.NotRegistered,
		},
		"no_id":    {`201 {}`, nil, "", time.Time{}, oauth.BadAnswer},
		"not_json": {`201 <html>`, nil, "", time.Time{}, oauth.BadAnswer},
		"down":     {`503 x`, nil, "", time.Time{}, oauth.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			gateway, _ := client(map[string]string{at: c.answer})
			r, made, err := gateway.Client(
				t.Context(), oauth.Issuer{Issuer: issuer, Registration: at, TokenAuth: c.supported},
				oauth.Settings{}, redirect, "", oauth.Registration{},
			)
			if oauth.CodeOf(err) != c.code || made != (c.code == "") {
				t.Fatalf("%v, %v", made, err)
			}
			isRight := r.ID == "a" && r.Auth == c.auth && r.Expires.Equal(c.expires) && r.Dynamic
			if made && (!isRight || !r.Live(redirect, nil, began)) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// The client is the first of these: the configured client, the document, the stored registration, a
// new registration.
func TestClientOrder(t *testing.T) {
	const at, doc = issuer + "/register", "https://gateway.example/.well-known/oauth-client.json"
	stored := oauth.Registration{ID: "stored", Redirect: redirect, Auth: "none"}
	old := stored
	old.Expires = began
	full := oauth.Issuer{Issuer: issuer, Registration: at, Documents: true}
	noDoc := oauth.Issuer{Issuer: issuer, Registration: at}
	for name, c := range map[string]struct {
		issuer   oauth.Issuer
		set      oauth.Settings
		document string
		stored   oauth.Registration
		id, auth string
		code     oauth.Code
	}{
		"configured": {
			full, oauth.Settings{ClientID: "own"}, doc, stored, "own", "none", "",
		},
		"configured_secret": {
			full, oauth.Settings{ClientID: "own", Secret: secret.New("s")}, doc, stored, "own",
			"client_secret_basic", "",
		},
		"configured_by_post": {
			oauth.Issuer{TokenAuth: []string{"client_secret_post"}},
			oauth.Settings{ClientID: "own", Secret: secret.New("s")}, "", stored, "own",
			"client_secret_post", "",
		},
		"configured_auth": {
			full, oauth.Settings{ClientID: "own", Secret: secret.New("s"), Auth: "post"}, "",
			stored, "own", "client_secret_post", "",
		},
		"document":       {full, oauth.Settings{}, doc, stored, doc, "none", ""},
		"no_document":    {full, oauth.Settings{}, "", stored, "stored", "none", ""},
		"stored":         {noDoc, oauth.Settings{}, doc, stored, "stored", "none", ""},
		"stored_expired": {noDoc, oauth.Settings{}, doc, old, "new", "none", ""},
		"stored_scopes": {
			noDoc, oauth.Settings{Scopes: []string{"a"}}, doc,
			oauth.Registration{
				ID: "stored", Redirect: redirect, Auth: "none", Scopes: []string{"a", "b"},
			},
			"stored", "none", "",
		},
		"more_scopes": {
			noDoc, oauth.Settings{Scopes: []string{"a"}}, doc, stored, "new", "none", "",
		},
		"other_redirect": {
			noDoc, oauth.Settings{}, doc,
			oauth.Registration{ID: "stored", Redirect: "http://127.0.0.1:1/callback"}, "new",
			"none", "",
		},
		"never": {
			noDoc, oauth.Settings{NoRegister: true}, doc, oauth.Registration{}, "", "",
			oauth.NoClient,
		},
		"no_endpoint": {
			oauth.Issuer{Issuer: issuer}, oauth.Settings{}, doc, oauth.Registration{}, "", "",
			oauth.NoClient,
		},
	} {
		t.Run(name, func(t *testing.T) {
			gateway, _ := client(map[string]string{at: `201 {"client_id":"new"}`})
			r, made, err := gateway.Client(
				t.Context(), c.issuer, c.set, redirect, c.document, c.stored,
			)
			isRight := r.ID == c.id && r.Auth == c.auth && made == (c.id == "new")
			if oauth.CodeOf(err) != c.code || !isRight {
				t.Errorf("%+v, %v, %v", r, made, err)
			}
			if c.code != "" && !strings.Contains(err.Error(), redirect) {
				t.Errorf("the redirect to register is missing: %v", err)
			}
		})
	}
}

// The gateway registers the scopes of all servers that use the registration. If the issuer does not
// know these scopes, the gateway registers none, and does not try again at each sign-in.
func TestRegisteredScopes(t *testing.T) {
	const at = issuer + "/register"
	for name, isStrict := range map[string]bool{"taken": false, "refused": true} {
		var sent []string
		c, _ := client(nil)
		c.HTTP = doer(func(req *http.Request) (*http.Response, error) {
			data, err := io.ReadAll(req.Body)
			require.OK(t, err)
			scope := require.JSON[struct{ Scope string }](t, data).Scope
			sent = append(sent, scope)
			page := `201 {"client_id":"new"}`
			if isStrict && scope != "" {
				page = `400 {"error":"invalid_client_metadata"}`
			}
			return (&web{pages: map[string]string{at: page}}).Do(req)
		})
		stored := oauth.Registration{
			ID: "stored", Redirect: redirect, Auth: "none", Scopes: []string{"b", "c"},
		}
		want := []string{"a b c"}
		if isStrict {
			want = append(want, "")
		}
		for range 2 {
			var err error
			stored, _, err = c.Client(
				t.Context(), oauth.Issuer{Issuer: issuer, Registration: at},
				oauth.Settings{Scopes: []string{"a", "b"}}, redirect, "", stored,
			)
			require.OK(t, err)
		}
		if !slices.Equal(sent, want) || stored.ID != "new" {
			t.Errorf("%s: registered %q, %+v", name, sent, stored)
		}
	}
}

// The client proves its identity only with its own method.
func TestClientAuthentication(t *testing.T) {
	for method, want := range map[string]struct {
		header string
		form   url.Values
	}{
		"client_secret_basic": {"Basic aWQlM0ExOnMlMkYrcw==", url.Values{}},
		"client_secret_post":  {"", url.Values{"client_id": {"id:1"}, "client_secret": {"s/ s"}}},
		"none":                {"", url.Values{"client_id": {"id:1"}}},
	} {
		c, w := client(map[string]string{issuer + "/token": `{"access_token":"a"}`})
		g := oauth.Grant{
			Issuer: issuer, Token: issuer + "/token", Resource: server,
			Client: oauth.Registration{ID: "id:1", Secret: secret.New("s/ s"), Auth: method},
		}
		_, err := c.Refresh(t.Context(), g, secret.New("old"), []string{"a", "b"})
		require.OK(t, err)
		for name, value := range map[string]string{
			"grant_type": "refresh_token", "refresh_token": "old", "scope": "a b", "resource": server,
		} {
			want.form.Set(name, value)
		}
		if got := w.sent[0].Header.Get("Authorization"); got != want.header {
			t.Errorf("%s: Authorization %q", method, got)
		}
		if diff := cmp.Diff(want.form, w.forms[0]); diff != "" {
			t.Errorf("%s: %s", method, diff)
		}
	}
}
