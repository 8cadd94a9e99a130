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

const (
	issuer   = "https://issuer.example"
	server   = "https://mcp.example/v1/mcp"
	redirect = "http://127.0.0.1:4711/callback"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A web answers requests with the pages of a test, and keeps the requests. An address without a
// page has the status 404. A page is a body, or begins with a status.
type web struct {
	pages map[string]string
	asked []string
	sent  []*http.Request
	forms []url.Values
}

func (w *web) Do(req *http.Request) (*http.Response, error) {
	w.asked, w.sent = append(w.asked, req.URL.String()), append(w.sent, req)
	if req.Body != nil {
		data, _ := io.ReadAll(req.Body)
		form, _ := url.ParseQuery(string(data))
		w.forms = append(w.forms, form)
	}
	page, ok := w.pages[req.URL.String()]
	status := http.StatusOK
	switch {
	case !ok:
		status = http.StatusNotFound
	case page == "down":
		return nil, &url.Error{Op: "Get", URL: req.URL.String(), Err: io.ErrUnexpectedEOF}
	case len(page) > 4 && page[3] == ' ':
		status = int(page[0]-'0')*100 + int(page[1]-'0')*10 + int(page[2]-'0')
		page = page[4:]
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(page)), Request: req}, nil
}

// client returns the gateway as a client in a web.
func client(pages map[string]string) (*oauth.Client, *web) {
	w := &web{pages: pages}
	return &oauth.Client{HTTP: w, Agent: "test", Now: func() time.Time { return began }}, w
}

// metadata returns the metadata of an issuer, with further members.
func metadata(name string, members ...string) string {
	return `{"issuer":"` + name + `","authorization_endpoint":"` + name + `/authorize","token_endpoint":"` + name +
		`/token","code_challenge_methods_supported":["S256"]` + strings.Join(append([]string{""}, members...), ",") + `}`
}

func parse(t testing.TB, address string) *url.URL {
	u, err := url.Parse(address)
	require.OK(t, err)
	return u
}

// The gateway reads the metadata of a server at the address of the challenge. Without one, it tries two places.
func TestResourcePlaces(t *testing.T) {
	const root = "https://mcp.example/.well-known/oauth-protected-resource"
	ok := `{"resource":"` + server + `","authorization_servers":["` + issuer + `"]}`
	for name, c := range map[string]struct {
		url, named string
		pages      map[string]string
		asked      []string
		code       oauth.Code
		none       bool
	}{
		"own":              {server, "", map[string]string{root + "/v1/mcp": ok}, []string{root + "/v1/mcp"}, "", false},
		"root":             {server, "", map[string]string{root: ok}, []string{root + "/v1/mcp", root}, "", false},
		"root_after_page":  {server, "", map[string]string{root + "/v1/mcp": "<html>", root: ok}, []string{root + "/v1/mcp", root}, "", false},
		"named":            {server, "https://mcp.example/meta", map[string]string{"https://mcp.example/meta": ok}, []string{"https://mcp.example/meta"}, "", false},
		"named_absent":     {server, "https://mcp.example/meta", nil, []string{"https://mcp.example/meta"}, oauth.BadMetadata, true},
		"named_elsewhere":  {server, "https://evil.example/meta", nil, nil, oauth.BadMetadata, true},
		"named_other_port": {server, "https://mcp.example:8443/meta", nil, nil, oauth.BadMetadata, true},
		"named_http":       {server, "http://mcp.example/meta", nil, nil, oauth.BadMetadata, true},
		"named_user":       {server, "https://a@mcp.example/meta", nil, nil, oauth.BadMetadata, true},
		"absent":           {server, "", nil, []string{root + "/v1/mcp", root}, "", true},
		"redirect":         {server, "", map[string]string{root: "302 "}, []string{root + "/v1/mcp", root}, oauth.BadMetadata, true},
		"down":             {server, "", map[string]string{root + "/v1/mcp": "down"}, []string{root + "/v1/mcp", root}, oauth.Unreachable, true},
		"no_path":          {"https://mcp.example", "", nil, []string{root}, "", true},
		"final_slash":      {"https://mcp.example/a/", "", nil, []string{root + "/a", root}, "", true},
		"escaped":          {"https://mcp.example/a%2Fb?key=1", "", nil, []string{root + "/a%2Fb", root}, "", true},
		"too_long":         {server, "", map[string]string{root: ok + strings.Repeat(" ", 64<<10)}, []string{root + "/v1/mcp", root}, oauth.BadAnswer, true},
	} {
		t.Run(name, func(t *testing.T) {
			gateway, w := client(c.pages)
			r, err := gateway.ReadResource(t.Context(), parse(t, c.url), c.named)
			if oauth.CodeOf(err) != c.code || (r == nil) != c.none || !slices.Equal(w.asked, c.asked) {
				t.Errorf("%+v, %v; asked %q", r, err, w.asked)
			}
		})
	}
}

// The metadata must describe the server: its URL, or a prefix of its path by whole segments.
func TestResourcePrefix(t *testing.T) {
	for resource, want := range map[string]bool{
		"https://mcp.example/v1/mcp":                           true,
		"https://mcp.example/v1/mcp/":                          true,
		"https://MCP.example:443/v1":                           true,
		"https://mcp.example/":                                 true,
		"https://mcp.example":                                  true,
		"https://mcp.example/v1/mc":                            false,
		"https://mcp.example/v1/mcp/x":                         false,
		"https://mcp.example/V1":                               false,
		"https://mcp.example/v1%2Fmcp":                         false,
		"https://mcp.example/v1/../v1":                         false,
		"https://mcp.example/v1?key=1":                         false,
		"https://mcp.example/v1#a":                             false,
		"https://a@mcp.example/v1":                             false,
		"http://mcp.example/v1":                                false,
		"https://mcp.example:444/v1":                           false,
		"https://mcp.example.evil/v1":                          false,
		"https:mcp.example/v1":                                 false,
		"mcp.example/v1":                                       false,
		"":                                                     false,
		"https://mcp.example/v1/" + strings.Repeat("/", 2<<10): false,
	} {
		c, _ := client(map[string]string{
			"https://mcp.example/meta": `{"resource":"` + resource + `","authorization_servers":["` + issuer + `"]}`,
		})
		r, err := c.ReadResource(t.Context(), parse(t, server), "https://mcp.example/meta")
		if (r != nil) != want || !want && oauth.CodeOf(err) != oauth.ResourceMismatch {
			t.Errorf("%q: %+v, %v", resource, r, err)
		}
	}
}

// The places of an issuer's metadata have the order of the specification. The first one that has
// metadata decides.
func TestIssuerPlaces(t *testing.T) {
	const at, oidc, auth = "https://issuer.example", "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"
	for name, c := range map[string]struct {
		issuer string
		pages  map[string]string
		asked  []string
		code   oauth.Code
	}{
		"root":             {at, map[string]string{at + auth: metadata(at)}, []string{at + auth}, ""},
		"root_oidc":        {at, map[string]string{at + oidc: metadata(at)}, []string{at + auth, at + oidc}, ""},
		"path":             {at + "/t", map[string]string{at + auth + "/t": metadata(at + "/t")}, []string{at + auth + "/t"}, ""},
		"path_oidc":        {at + "/t", map[string]string{at + oidc + "/t": metadata(at + "/t")}, []string{at + auth + "/t", at + oidc + "/t"}, ""},
		"path_oidc_inside": {at + "/t", map[string]string{at + "/t" + oidc: metadata(at + "/t")}, []string{at + auth + "/t", at + oidc + "/t", at + "/t" + oidc}, ""},
		"path_not_root":    {at + "/t", map[string]string{at + auth: metadata(at + "/t")}, []string{at + auth + "/t", at + oidc + "/t", at + "/t" + oidc}, oauth.BadMetadata},
		"final_slash":      {at + "/t/", map[string]string{at + auth + "/t": metadata(at + "/t/")}, []string{at + auth + "/t"}, ""},
		"page_first":       {at, map[string]string{at + auth: "<html>", at + oidc: metadata(at)}, []string{at + auth, at + oidc}, ""},
		"redirect_first":   {at, map[string]string{at + auth: "302 ", at + oidc: metadata(at)}, []string{at + auth, at + oidc}, ""},
		"only_page":        {at, map[string]string{at + auth: "<html>"}, []string{at + auth, at + oidc}, oauth.BadMetadata},
		"down":             {at, map[string]string{at + auth: "503 x", at + oidc: metadata(at)}, []string{at + auth}, oauth.Unreachable},
		"absent":           {at, nil, []string{at + auth, at + oidc}, oauth.BadMetadata},
		"other_issuer":     {at, map[string]string{at + auth: metadata("https://evil.example"), at + oidc: metadata(at)}, []string{at + auth}, oauth.IssuerMismatch},
		"slash_differs":    {at, map[string]string{at + auth: metadata(at + "/")}, []string{at + auth}, oauth.IssuerMismatch},
		"not_https":        {"http://issuer.example", nil, nil, oauth.BadMetadata},
		"not_a_url":        {"issuer.example", nil, nil, oauth.BadMetadata},
	} {
		t.Run(name, func(t *testing.T) {
			gateway, w := client(c.pages)
			d, err := gateway.Discover(t.Context(), parse(t, server), oauth.Challenge{}, oauth.Settings{Issuer: c.issuer})
			asked := slices.DeleteFunc(w.asked, func(a string) bool { return strings.HasPrefix(a, "https://mcp.example/") })
			if oauth.CodeOf(err) != c.code || err == nil && d.Issuer.Issuer != c.issuer || !slices.Equal(asked, c.asked) {
				t.Errorf("%+v, %v; asked %q", d, err, asked)
			}
		})
	}
}

// Metadata that could send a code or a token to a wrong place are refused.
func TestIssuerRules(t *testing.T) {
	for name, c := range map[string]struct {
		members string
		code    oauth.Code
	}{
		"plain":            {`"x":1`, ""},
		"no_pkce":          {`"code_challenge_methods_supported":["plain"]`, oauth.NoPKCE},
		"pkce_unknown":     {`"code_challenge_methods_supported":null`, oauth.NoPKCE},
		"token_http":       {`"token_endpoint":"http://issuer.example/token"`, oauth.BadMetadata},
		"token_loopback":   {`"token_endpoint":"http://127.0.0.1/token"`, ""},
		"token_absent":     {`"token_endpoint":""`, oauth.BadMetadata},
		"token_user":       {`"token_endpoint":"https://a:b@issuer.example/token"`, oauth.BadMetadata},
		"authorize_script": {`"authorization_endpoint":"javascript:alert(1)"`, oauth.BadMetadata},
		"authorize_space":  {`"authorization_endpoint":"https://issuer.example/a b"`, oauth.BadMetadata},
		"authorize_hash":   {`"authorization_endpoint":"https://issuer.example/#a"`, oauth.BadMetadata},
		"authorize_long":   {`"authorization_endpoint":"https://issuer.example/` + strings.Repeat("a", 2<<10) + `"`, oauth.BadMetadata},
		"register_file":    {`"registration_endpoint":"file:///etc/passwd"`, oauth.BadMetadata},
		"revoke_http":      {`"revocation_endpoint":"http://issuer.example/revoke"`, oauth.BadMetadata},
		"wrong_type":       {`"token_endpoint":7`, oauth.BadMetadata},
	} {
		t.Run(name, func(t *testing.T) {
			gateway, _ := client(map[string]string{issuer + "/.well-known/oauth-authorization-server": metadata(issuer, c.members)})
			_, err := gateway.Discover(t.Context(), parse(t, server), oauth.Challenge{}, oauth.Settings{Issuer: issuer})
			if oauth.CodeOf(err) != c.code {
				t.Errorf("%v", err)
			}
		})
	}
}

// Discover follows the metadata, and falls back to the specification 2025-03-26.
func TestDiscover(t *testing.T) {
	const own = "https://mcp.example"
	resource := `{"resource":"` + own + `/v1","authorization_servers":["ftp://a","` + issuer + `"],"scopes_supported":["read","read","bad scope","write"]}`
	pages := map[string]string{
		own + "/.well-known/oauth-protected-resource":      resource,
		issuer + "/.well-known/oauth-authorization-server": metadata(issuer, `"scopes_supported":["offline_access"]`),
	}
	for name, c := range map[string]struct {
		pages    map[string]string
		ch       oauth.Challenge
		set      oauth.Settings
		resource string
		token    string
		scopes   []string
		guess    bool
		code     oauth.Code
	}{
		"metadata":          {pages: pages, resource: own + "/v1", token: issuer + "/token", scopes: []string{"read", "write", "offline_access"}},
		"challenge_scopes":  {pages: pages, ch: oauth.Challenge{Scopes: []string{"a", "a"}}, resource: own + "/v1", token: issuer + "/token", scopes: []string{"a", "offline_access"}},
		"configured_scopes": {pages: pages, ch: oauth.Challenge{Scopes: []string{"a"}}, set: oauth.Settings{Scopes: []string{"b"}}, resource: own + "/v1", token: issuer + "/token", scopes: []string{"b", "offline_access"}},
		"omit":              {pages: pages, set: oauth.Settings{Resource: oauth.ResourceOmit}, token: issuer + "/token", scopes: []string{"read", "write", "offline_access"}},
		"configured":        {pages: pages, set: oauth.Settings{Resource: "urn:a"}, resource: "urn:a", token: issuer + "/token", scopes: []string{"read", "write", "offline_access"}},
		"endpoints": {
			set: oauth.Settings{Issuer: issuer, Authorization: issuer + "/a", Token: issuer + "/t"}, resource: server, token: issuer + "/t", guess: true,
		},
		"guess":          {resource: server, token: own + "/token", guess: true},
		"own_metadata":   {pages: map[string]string{own + "/.well-known/oauth-authorization-server": metadata(own+"/x", `"issuer":"`+own+`/"`)}, resource: server, token: own + "/x/token"},
		"no_issuer":      {pages: map[string]string{own + "/.well-known/oauth-protected-resource": `{"resource":"` + own + `","authorization_servers":["http://a.example"]}`}, code: oauth.BadMetadata},
		"issuer_unknown": {pages: map[string]string{own + "/.well-known/oauth-protected-resource": resource}, code: oauth.BadMetadata},
		"mismatch":       {pages: map[string]string{own + "/.well-known/oauth-protected-resource": `{"resource":"https://bank.example"}`}, set: oauth.Settings{Issuer: issuer}, code: oauth.ResourceMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			gateway, _ := client(c.pages)
			d, err := gateway.Discover(t.Context(), parse(t, "https://user:secret@mcp.example/v1/mcp?key=secret#x"), c.ch, c.set)
			if oauth.CodeOf(err) != c.code {
				t.Fatalf("%v", err)
			}
			if c.code == "" && (d.Resource != c.resource || d.Issuer.Token != c.token || d.Issuer.Guessed != c.guess || !slices.Equal(d.Scopes, c.scopes)) {
				t.Errorf("%+v", d)
			}
		})
	}
}

// A new registration says what the gateway is, and is used until its secret expires.
func TestRegister(t *testing.T) {
	const at = issuer + "/register"
	for name, c := range map[string]struct {
		answer    string
		supported []string
		auth      string
		expires   time.Time
		code      oauth.Code
	}{
		"public":         {`201 {"client_id":"a"}`, nil, "none", time.Time{}, ""},
		"secret":         {`201 {"client_id":"a","client_secret":"s"}`, nil, "client_secret_basic", time.Time{}, ""},
		"post":           {`201 {"client_id":"a","client_secret":"s","token_endpoint_auth_method":"client_secret_post"}`, nil, "client_secret_post", time.Time{}, ""},
		"post_supported": {`200 {"client_id":"a","client_secret":"s"}`, []string{"client_secret_post"}, "client_secret_post", time.Time{}, ""},
		"unknown_method": {`201 {"client_id":"a","client_secret":"s","token_endpoint_auth_method":"private_key_jwt"}`, nil, "client_secret_basic", time.Time{}, ""},
		"expires":        {`201 {"client_id":"a","client_secret":"s","client_secret_expires_at":1900000000}`, nil, "client_secret_basic", time.Unix(1900000000, 0), ""},
		"never":          {`201 {"client_id":"a","client_secret":"s","client_secret_expires_at":0}`, nil, "client_secret_basic", time.Time{}, ""},
		"refused":        {`400 {"error":"invalid_redirect_uri"}`, nil, "", time.Time{}, oauth.NotRegistered},
		"no_id":          {`201 {}`, nil, "", time.Time{}, oauth.BadAnswer},
		"not_json":       {`201 <html>`, nil, "", time.Time{}, oauth.BadAnswer},
		"down":           {`503 x`, nil, "", time.Time{}, oauth.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			gateway, _ := client(map[string]string{at: c.answer})
			r, made, err := gateway.Client(t.Context(), oauth.Issuer{Issuer: issuer, Registration: at, TokenAuth: c.supported}, oauth.Settings{}, redirect, "", oauth.Registration{})
			if oauth.CodeOf(err) != c.code || made != (c.code == "") {
				t.Fatalf("%v, %v", made, err)
			}
			if made && (r.ID != "a" || r.Auth != c.auth || !r.Expires.Equal(c.expires) || !r.Live(redirect, nil, began) || !r.Dynamic) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// The client is the configured one, the document, the stored registration or a new one, in this
// order.
func TestClientOrder(t *testing.T) {
	const at, doc = issuer + "/register", "https://gateway.example/oauth/client.json"
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
		"configured":         {full, oauth.Settings{ClientID: "own"}, doc, stored, "own", "none", ""},
		"configured_secret":  {full, oauth.Settings{ClientID: "own", Secret: secret.New("s")}, doc, stored, "own", "client_secret_basic", ""},
		"configured_by_post": {oauth.Issuer{TokenAuth: []string{"client_secret_post"}}, oauth.Settings{ClientID: "own", Secret: secret.New("s")}, "", stored, "own", "client_secret_post", ""},
		"configured_auth":    {full, oauth.Settings{ClientID: "own", Secret: secret.New("s"), Auth: "post"}, "", stored, "own", "client_secret_post", ""},
		"document":           {full, oauth.Settings{}, doc, stored, doc, "none", ""},
		"no_document":        {full, oauth.Settings{}, "", stored, "stored", "none", ""},
		"stored":             {noDoc, oauth.Settings{}, doc, stored, "stored", "none", ""},
		"stored_expired":     {noDoc, oauth.Settings{}, doc, old, "new", "none", ""},
		"stored_scopes":      {noDoc, oauth.Settings{Scopes: []string{"a"}}, doc, oauth.Registration{ID: "stored", Redirect: redirect, Auth: "none", Scopes: []string{"a", "b"}}, "stored", "none", ""},
		"more_scopes":        {noDoc, oauth.Settings{Scopes: []string{"a"}}, doc, stored, "new", "none", ""},
		"other_redirect":     {noDoc, oauth.Settings{}, doc, oauth.Registration{ID: "stored", Redirect: "http://127.0.0.1:1/callback"}, "new", "none", ""},
		"never":              {noDoc, oauth.Settings{NoRegister: true}, doc, oauth.Registration{}, "", "", oauth.NoClient},
		"no_endpoint":        {oauth.Issuer{Issuer: issuer}, oauth.Settings{}, doc, oauth.Registration{}, "", "", oauth.NoClient},
	} {
		t.Run(name, func(t *testing.T) {
			gateway, _ := client(map[string]string{at: `201 {"client_id":"new"}`})
			r, made, err := gateway.Client(t.Context(), c.issuer, c.set, redirect, c.document, c.stored)
			if oauth.CodeOf(err) != c.code || r.ID != c.id || r.Auth != c.auth || made != (c.id == "new") {
				t.Errorf("%+v, %v, %v", r, made, err)
			}
			if c.code != "" && !strings.Contains(err.Error(), redirect) {
				t.Errorf("the redirect to register is missing: %v", err)
			}
		})
	}
}

// The gateway registers the scopes of all servers that use the registration. If the issuer does not
// know them, it registers none, and does not try again at each sign-in.
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
		stored := oauth.Registration{ID: "stored", Redirect: redirect, Auth: "none", Scopes: []string{"b", "c"}}
		want := []string{"a b c"}
		if isStrict {
			want = append(want, "")
		}
		for range 2 {
			var err error
			stored, _, err = c.Client(t.Context(), oauth.Issuer{Issuer: issuer, Registration: at}, oauth.Settings{Scopes: []string{"a", "b"}}, redirect, "", stored)
			require.OK(t, err)
		}
		if !slices.Equal(sent, want) || stored.ID != "new" {
			t.Errorf("%s: registered %q, %+v", name, sent, stored)
		}
	}
}

// The client proves its identity with its method, and only with this one.
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
		for name, value := range map[string]string{"grant_type": "refresh_token", "refresh_token": "old", "scope": "a b", "resource": server} {
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
