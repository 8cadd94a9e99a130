package oauth_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

// The gateway reads the metadata of a server at the address in the challenge. Without such an
// address, it tries two places.
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
		"own": {
			server, "", map[string]string{root + "/v1/mcp": ok}, []string{root + "/v1/mcp"}, "",
			false,
		},
		"root": {
			server, "", map[string]string{root: ok}, []string{root + "/v1/mcp", root}, "", false,
		},
		"root_after_page": {
			server, "", map[string]string{root + "/v1/mcp": "<html>", root: ok},
			[]string{root + "/v1/mcp", root}, "", false,
		},
		"named": {
			server, "https://mcp.example/meta", map[string]string{"https://mcp.example/meta": ok},
			[]string{"https://mcp.example/meta"}, "", false,
		},
		"named_absent": {
			server, "https://mcp.example/meta", nil, []string{"https://mcp.example/meta"},
			oauth.BadMetadata, true,
		},
		"named_elsewhere": {
			server, "https://evil.example/meta", nil, nil, oauth.BadMetadata, true,
		},
		"named_other_port": {
			server, "https://mcp.example:8443/meta", nil, nil, oauth.BadMetadata, true,
		},
		"named_http": {server, "http://mcp.example/meta", nil, nil, oauth.BadMetadata, true},
		"named_user": {
			server, "https://a@mcp.example/meta", nil, nil, oauth.BadMetadata, true,
		},
		"absent": {server, "", nil, []string{root + "/v1/mcp", root}, "", true},
		"redirect": {
			server, "", map[string]string{root: "302 "}, []string{root + "/v1/mcp", root},
			oauth.BadMetadata, true,
		},
		"down": {
			server, "", map[string]string{root + "/v1/mcp": "down"},
			[]string{root + "/v1/mcp", root}, oauth.Unreachable, true,
		},
		"no_path": {"https://mcp.example", "", nil, []string{root}, "", true},
		"final_slash": {
			"https://mcp.example/a/", "", nil, []string{root + "/a", root}, "", true,
		},
		"escaped": {
			"https://mcp.example/a%2Fb?key=1", "", nil, []string{root + "/a%2Fb", root}, "", true,
		},
		"too_long": {
			server, "", map[string]string{root: ok + strings.Repeat(" ", 64<<10)},
			[]string{root + "/v1/mcp", root}, oauth.BadAnswer, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			gateway, w := client(c.pages)
			r, err := gateway.ReadResource(t.Context(), parse(t, c.url), c.named)
			isRight := oauth.CodeOf(err) == c.code && (r == nil) == c.none
			if !isRight || !slices.Equal(w.asked, c.asked) {
				t.Errorf("%+v, %v; asked %q", r, err, w.asked)
			}
		})
	}
}

// The "resource" of the metadata must be the server's URL, or a URL whose path is a prefix of the
// server's path by whole segments.
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
			"https://mcp.example/meta": `{"resource":"` + resource +
				`","authorization_servers":["` + issuer + `"]}`,
		})
		r, err := c.ReadResource(t.Context(), parse(t, server), "https://mcp.example/meta")
		if (r != nil) != want || !want && oauth.CodeOf(err) != oauth.ResourceMismatch {
			t.Errorf("%q: %+v, %v", resource, r, err)
		}
	}
}

// The gateway tries the places of an issuer's metadata in the order of the specification. The first
// place with metadata decides.
func TestIssuerPlaces(t *testing.T) {
	const at, oidc = "https://issuer.example", "/.well-known/openid-configuration"
	const auth = "/.well-known/oauth-authorization-server"
	for name, c := range map[string]struct {
		issuer string
		pages  map[string]string
		asked  []string
		code   oauth.Code
	}{
		"root": {
			at, map[string]string{at + auth: metadata(at)}, []string{at + auth}, "",
		},
		"root_oidc": {
			at, map[string]string{at + oidc: metadata(at)}, []string{at + auth, at + oidc}, "",
		},
		"path": {
			at + "/t", map[string]string{at + auth + "/t": metadata(at + "/t")},
			[]string{at + auth + "/t"}, "",
		},
		"path_oidc": {
			at + "/t", map[string]string{at + oidc + "/t": metadata(at + "/t")},
			[]string{at + auth + "/t", at + oidc + "/t"}, "",
		},
		"path_oidc_inside": {
			at + "/t", map[string]string{at + "/t" + oidc: metadata(at + "/t")},
			[]string{at + auth + "/t", at + oidc + "/t", at + "/t" + oidc}, "",
		},
		"path_not_root": {
			at + "/t", map[string]string{at + auth: metadata(at + "/t")},
			[]string{at + auth + "/t", at + oidc + "/t", at + "/t" + oidc}, oauth.BadMetadata,
		},
		"final_slash": {
			at + "/t/", map[string]string{at + auth + "/t": metadata(at + "/t/")},
			[]string{at + auth + "/t"}, "",
		},
		"page_first": {
			at, map[string]string{at + auth: "<html>", at + oidc: metadata(at)},
			[]string{at + auth, at + oidc}, "",
		},
		"redirect_first": {
			at, map[string]string{at + auth: "302 ", at + oidc: metadata(at)},
			[]string{at + auth, at + oidc}, "",
		},
		"only_page": {
			at, map[string]string{at + auth: "<html>"}, []string{at + auth, at + oidc},
			oauth.BadMetadata,
		},
		"down": {
			at, map[string]string{at + auth: "503 x", at + oidc: metadata(at)}, []string{at + auth},
			oauth.Unreachable,
		},
		"absent": {at, nil, []string{at + auth, at + oidc}, oauth.BadMetadata},
		"other_issuer": {
			at,
			map[string]string{at + auth: metadata("https://evil.example"), at + oidc: metadata(at)},
			[]string{at + auth}, oauth.IssuerMismatch,
		},
		"slash_differs": {
			at, map[string]string{at + auth: metadata(at + "/")}, []string{at + auth},
			oauth.IssuerMismatch,
		},
		"not_https": {"http://issuer.example", nil, nil, oauth.BadMetadata},
		"not_a_url": {"issuer.example", nil, nil, oauth.BadMetadata},
	} {
		t.Run(name, func(t *testing.T) {
			gateway, w := client(c.pages)
			d, err := gateway.Discover(
				t.Context(), parse(t, server), oauth.Challenge{}, oauth.Settings{Issuer: c.issuer},
			)
			asked := slices.DeleteFunc(
				w.asked,
				func(a string) bool { return strings.HasPrefix(a, "https://mcp.example/") },
			)
			isRight := oauth.CodeOf(err) == c.code && (err != nil || d.Issuer.Issuer == c.issuer)
			if !isRight || !slices.Equal(asked, c.asked) {
				t.Errorf("%+v, %v; asked %q", d, err, asked)
			}
		})
	}
}

// The gateway refuses metadata that could send a code or a token to a wrong place.
func TestIssuerRules(t *testing.T) {
	for name, c := range map[string]struct {
		members string
		code    oauth.Code
	}{
		"plain":          {`"x":1`, ""},
		"no_pkce":        {`"code_challenge_methods_supported":["plain"]`, oauth.NoPKCE},
		"pkce_unknown":   {`"code_challenge_methods_supported":null`, oauth.NoPKCE},
		"token_http":     {`"token_endpoint":"http://issuer.example/token"`, oauth.BadMetadata},
		"token_loopback": {`"token_endpoint":"http://127.0.0.1/token"`, ""},
		"token_absent":   {`"token_endpoint":""`, oauth.BadMetadata},
		"token_user": {
			`"token_endpoint":"https://a:b@issuer.example/token"`, oauth.BadMetadata,
		},
		"authorize_script": {`"authorization_endpoint":"javascript:alert(1)"`, oauth.BadMetadata},
		"authorize_space": {
			`"authorization_endpoint":"https://issuer.example/a b"`, oauth.BadMetadata,
		},
		"authorize_hash": {
			`"authorization_endpoint":"https://issuer.example/#a"`, oauth.BadMetadata,
		},
		"authorize_long": {
			`"authorization_endpoint":"https://issuer.example/` + strings.Repeat("a", 2<<10) + `"`,
			oauth.BadMetadata,
		},
		"register_file": {`"registration_endpoint":"file:///etc/passwd"`, oauth.BadMetadata},
		"revoke_http": {
			`"revocation_endpoint":"http://issuer.example/revoke"`, oauth.BadMetadata,
		},
		"wrong_type": {`"token_endpoint":7`, oauth.BadMetadata},
	} {
		t.Run(name, func(t *testing.T) {
			gateway, _ := client(
				map[string]string{
					issuer + "/.well-known/oauth-authorization-server": metadata(issuer, c.members),
				},
			)
			_, err := gateway.Discover(
				t.Context(), parse(t, server), oauth.Challenge{}, oauth.Settings{Issuer: issuer},
			)
			if oauth.CodeOf(err) != c.code {
				t.Errorf("%v", err)
			}
		})
	}
}

const own = "https://mcp.example"

var listing = `{"resource":"` + own + `/v1","authorization_servers":["ftp://a","` + issuer +
	`"],"scopes_supported":["read","read","bad scope","write"]}`
var metadataPages = map[string]string{
	own + "/.well-known/oauth-protected-resource": listing,
	issuer + "/.well-known/oauth-authorization-server": metadata(
		issuer, `"scopes_supported":["offline_access"]`,
	),
}

var discoveries = map[string]struct {
	pages    map[string]string
	ch       oauth.Challenge
	set      oauth.Settings
	resource string
	token    string
	scopes   []string
	guess    bool
	code     oauth.Code
}{
	"metadata": {
		pages: metadataPages, resource: own + "/v1", token: issuer + "/token",
		scopes: []string{"read", "write", "offline_access"},
	},
	"challenge_scopes": {
		pages: metadataPages, ch: oauth.Challenge{Scopes: []string{"a", "a"}}, resource: own + "/v1",
		token: issuer + "/token", scopes: []string{"a", "offline_access"},
	},
	"configured_scopes": {
		pages: metadataPages, ch: oauth.Challenge{Scopes: []string{"a"}},
		set: oauth.Settings{Scopes: []string{"b"}}, resource: own + "/v1",
		token: issuer + "/token", scopes: []string{"b", "offline_access"},
	},
	"omit": {
		pages: metadataPages, set: oauth.Settings{Resource: oauth.ResourceOmit},
		token: issuer + "/token", scopes: []string{"read", "write", "offline_access"},
	},
	"configured": {
		pages: metadataPages, set: oauth.Settings{Resource: "urn:a"}, resource: "urn:a",
		token: issuer + "/token", scopes: []string{"read", "write", "offline_access"},
	},
	"endpoints": {
		set: oauth.Settings{
			Issuer:        issuer,
			Authorization: issuer + "/a",
			Token:         issuer + "/t",
		},
		resource: server, token: issuer + "/t", guess: true,
	},
	"guess": {resource: server, token: own + "/token", guess: true},
	"own_metadata": {
		pages: map[string]string{
			own + "/.well-known/oauth-authorization-server": metadata(
				own+"/x", `"issuer":"`+own+`/"`,
			),
		},
		resource: server, token: own + "/x/token",
	},
	"no_issuer": {
		pages: map[string]string{
			own + "/.well-known/oauth-protected-resource": `{"resource":"` + own +
				`","authorization_servers":["http://a.example"]}`,
		},
		code: oauth.BadMetadata,
	},
	"issuer_unknown": {
		pages: map[string]string{own + "/.well-known/oauth-protected-resource": listing},
		code:  oauth.BadMetadata,
	},
	"mismatch": {
		pages: map[string]string{
			own +
				"/.well-known/oauth-protected-resource": `{"resource":"https://bank.example"}`,
		},
		set: oauth.Settings{Issuer: issuer}, code: oauth.ResourceMismatch,
	},
}

// Discover follows the metadata, and falls back to the specification 2025-03-26.
func TestDiscover(t *testing.T) {
	for name, c := range discoveries {
		t.Run(name, func(t *testing.T) {
			gateway, _ := client(c.pages)
			d, err := gateway.Discover(
				t.Context(), parse(t, "https://user:secret@mcp.example/v1/mcp?key=secret#x"), c.ch,
				c.set,
			)
			if oauth.CodeOf(err) != c.code {
				t.Fatalf("%v", err)
			}
			isRight := d.Resource == c.resource && d.Issuer.Token == c.token &&
				d.Issuer.Guessed == c.guess
			if c.code == "" && (!isRight || !slices.Equal(d.Scopes, c.scopes)) {
				t.Errorf("%+v", d)
			}
		})
	}
}
