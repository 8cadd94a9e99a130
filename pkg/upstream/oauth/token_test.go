package oauth_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// answers are answers of token endpoints: the seeds of [FuzzToken].
var answers = map[string]struct {
	answer          string
	access, refresh string
	life            time.Duration
	scopes          []string
	code            oauth.Code
}{
	"plain": {
		`{"access_token":"a","token_type":"Bearer","expires_in":3600,"refresh_token":"r",` +
			`"scope":"x y"}`,
		"a", "r", time.Hour, []string{"x", "y"}, "",
	},
	"only_token":       {`{"access_token":"a"}`, "a", "", 0, nil, ""},
	"text_expires":     {`{"access_token":"a","expires_in":"3600"}`, "a", "", time.Hour, nil, ""},
	"fraction_expires": {`{"access_token":"a","expires_in":3600.9}`, "a", "", time.Hour, nil, ""},
	"exponent_expires": {`{"access_token":"a","expires_in":3.6e3}`, "a", "", time.Hour, nil, ""},
	"null_expires":     {`{"access_token":"a","expires_in":null}`, "a", "", 0, nil, ""},
	"zero_expires":     {`{"access_token":"a","expires_in":0}`, "a", "", 0, nil, ""},
	"negative_expires": {`{"access_token":"a","expires_in":-5}`, "a", "", 0, nil, ""},
	"empty_expires":    {`{"access_token":"a","expires_in":""}`, "a", "", 0, nil, ""},
	"words_expires":    {`{"access_token":"a","expires_in":"one hour"}`, "a", "", 0, nil, ""},
	"nan_expires":      {`{"access_token":"a","expires_in":"NaN"}`, "a", "", 0, nil, ""},
	"object_expires":   {`{"access_token":"a","expires_in":{}}`, "a", "", 0, nil, ""},
	"huge_expires": {
		`{"access_token":"a","expires_in":1e300}`, "a", "", 3650 * 24 * time.Hour, nil, "",
	},
	"type_case": {`{"access_token":"a","token_type":"bearer"}`, "a", "", 0, nil, ""},
	"type_other": {
		`{"access_token":"a","token_type":"DPoP"}`, "", "", 0, nil, oauth.BadAnswer,
	},
	"scope_empty": {`{"access_token":"a","scope":""}`, "a", "", 0, []string{}, ""},
	"scope_comma": {`{"access_token":"a","scope":"x,y"}`, "a", "", 0, []string{"x", "y"}, ""},
	"form": {
		`access_token=a&token_type=bearer&expires_in=3600&refresh_token=r&scope=x+y`, "a", "r",
		time.Hour, []string{"x", "y"}, "",
	},
	"form_line": {"access_token=a\n", "a", "", 0, nil, ""},
	"form_error": {
		`error=bad_verification_code&error_description=secret`, "", "", 0, nil, oauth.InvalidGrant,
	},
	"form_both": {`access_token=a&error=invalid_grant`, "", "", 0, nil, oauth.InvalidGrant},
	"error_in_200": {
		`{"error":"invalid_grant","error_description":"secret"}`, "", "", 0, nil,
		oauth.InvalidGrant,
	},
	"error_beside": {
		`{"access_token":"a","error":"invalid_scope"}`, "", "", 0, nil, oauth.InvalidScope,
	},
	"github_in_200":   {`{"error":"bad_refresh_token"}`, "", "", 0, nil, oauth.InvalidGrant},
	"unknown_error":   {`400 {"error":"secret words"}`, "", "", 0, nil, oauth.BadAnswer},
	"invalid_grant":   {`400 {"error":"invalid_grant"}`, "", "", 0, nil, oauth.InvalidGrant},
	"invalid_client":  {`401 {"error":"invalid_client"}`, "", "", 0, nil, oauth.InvalidClient},
	"bare_401":        {`401 {}`, "", "", 0, nil, oauth.InvalidClient},
	"invalid_target":  {`400 {"error":"invalid_target"}`, "", "", 0, nil, oauth.InvalidTarget},
	"slow_down":       {`400 {"error":"slow_down"}`, "", "", 0, nil, oauth.Unreachable},
	"rate_limit":      {`429 {"error":"invalid_grant"}`, "", "", 0, nil, oauth.Unreachable},
	"server_error":    {`500 {"error":"invalid_grant"}`, "", "", 0, nil, oauth.Unreachable},
	"redirect":        {`302 {"access_token":"a"}`, "", "", 0, nil, oauth.BadAnswer},
	"token_in_400":    {`400 {"access_token":"a"}`, "", "", 0, nil, oauth.BadAnswer},
	"no_token":        {`{}`, "", "", 0, nil, oauth.BadAnswer},
	"null":            {`null`, "", "", 0, nil, oauth.BadAnswer},
	"list":            {`[]`, "", "", 0, nil, oauth.BadAnswer},
	"page":            {`<html>`, "", "", 0, nil, oauth.BadAnswer},
	"number_token":    {`{"access_token":7}`, "", "", 0, nil, oauth.BadAnswer},
	"header_in_token": {`{"access_token":"a\r\nX: 1"}`, "", "", 0, nil, oauth.BadAnswer},
	"space_in_token":  {`{"access_token":"a b"}`, "", "", 0, nil, oauth.BadAnswer},
	"header_in_refresh": {
		`{"access_token":"a","refresh_token":"r\n"}`, "", "", 0, nil, oauth.BadAnswer,
	},
	"long_token": {
		`{"access_token":"` + strings.Repeat("a", 17<<10) + `"}`, "", "", 0, nil, oauth.BadAnswer,
	},
	"long_answer": {
		`{"access_token":"a"}` + strings.Repeat(" ", 64<<10), "", "", 0, nil, oauth.BadAnswer,
	},
	"silence": {"down", "", "", 0, nil, oauth.Unreachable},
}

var grant = oauth.Grant{
	Issuer: issuer, Token: issuer + "/token", Client: oauth.Registration{ID: "id", Auth: "none"},
}

func TestToken(t *testing.T) {
	for name, want := range answers {
		c, _ := client(map[string]string{issuer + "/token": want.answer})
		got, err := c.Refresh(t.Context(), grant, secret.New("old"), nil)
		life := time.Duration(0)
		if !got.Expires.IsZero() {
			life = got.Expires.Sub(began)
		}
		isRight := got.Access.Reveal() == want.access && got.Refresh.Reveal() == want.refresh
		if oauth.CodeOf(err) != want.code || !isRight ||
			life != want.life || !slices.Equal(got.Scopes, want.scopes) {
			t.Errorf("%s: life %s, scopes %q, %v", name, life, got.Scopes, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error has text of the issuer: %q", name, err)
		}
	}
}

// FuzzToken checks that every answer is a token that can be sent, or a fault.
func FuzzToken(f *testing.F) {
	for _, a := range answers {
		f.Add(a.answer)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		c, _ := client(map[string]string{issuer + "/token": answer})
		got, err := c.Refresh(t.Context(), grant, secret.New("old"), nil)
		if err != nil {
			isFault(t, err)
			return
		}
		for _, token := range []string{got.Access.Reveal(), got.Refresh.Reveal()} {
			if strings.ContainsFunc(token, isNotPlain) {
				t.Errorf("token %q", token)
			}
		}
		if got.Access.Reveal() == "" || !got.Expires.IsZero() && got.Expires.Before(began) {
			t.Errorf("%+v", got)
		}
		areScopes(t, got.Scopes)
	})
}

// isFault checks that an error has one of the codes, and a text on one line.
func isFault(t *testing.T, err error) {
	t.Helper()
	if oauth.CodeOf(err) == "" || strings.ContainsAny(err.Error(), "\r\n") {
		t.Errorf("%q", err)
	}
}

// isNotPlain reports whether a token or a scope must not contain the rune.
func isNotPlain(r rune) bool { return r <= ' ' || r >= 0x7f }

// areScopes checks that scopes can be sent in one parameter.
func areScopes(t *testing.T, scopes []string) {
	t.Helper()
	for _, scope := range scopes {
		if scope == "" || strings.ContainsFunc(scope, isNotPlain) {
			t.Errorf("scope %q", scope)
		}
	}
}

// callbacks are queries of callbacks: the seeds of [FuzzCallback]. The tests replace STATE with the
// state of the sign-in.
var callbacks = map[string]struct {
	query string
	named bool // the issuer declares that its callbacks name it
	code  oauth.Code
}{
	"plain":           {"code=c&state=STATE", false, ""},
	"further":         {"code=c&state=STATE&session_state=x&a=1&a=2", false, ""},
	"iss":             {"code=c&state=STATE&iss=https%3A%2F%2Fissuer.example", true, ""},
	"iss_unannounced": {"code=c&state=STATE&iss=https%3A%2F%2Fissuer.example", false, ""},
	"iss_missing":     {"code=c&state=STATE", true, oauth.IssuerMismatch},
	"iss_other": {
		"code=c&state=STATE&iss=https%3A%2F%2Fevil.example", true, oauth.IssuerMismatch,
	},
	"iss_unexpected": {
		"code=c&state=STATE&iss=https%3A%2F%2Fevil.example", false, oauth.IssuerMismatch,
	},
	"iss_slash": {
		"code=c&state=STATE&iss=https%3A%2F%2Fissuer.example%2F", true, oauth.IssuerMismatch,
	},
	"iss_case": {
		"code=c&state=STATE&iss=https%3A%2F%2FISSUER.example", true, oauth.IssuerMismatch,
	},
	"iss_port": {
		"code=c&state=STATE&iss=https%3A%2F%2Fissuer.example%3A443", true, oauth.IssuerMismatch,
	},
	"iss_empty": {"code=c&state=STATE&iss=", false, oauth.IssuerMismatch},
	"iss_twice": {
		"code=c&state=STATE&iss=https%3A%2F%2Fissuer.example&iss=x", true, oauth.BadCallback,
	},
	"state_missing": {"code=c", false, oauth.BadCallback},
	"state_other":   {"code=c&state=x", false, oauth.BadCallback},
	"state_longer":  {"code=c&state=STATEx", false, oauth.BadCallback},
	"state_twice":   {"code=c&state=STATE&state=STATE", false, oauth.BadCallback},
	"code_twice":    {"code=c&code=d&state=STATE", false, oauth.BadCallback},
	"code_empty":    {"code=&state=STATE", false, oauth.BadCallback},
	"nothing":       {"state=STATE", false, oauth.BadCallback},
	"empty":         {"", false, oauth.BadCallback},
	"garbage":       {"%zz", false, oauth.BadCallback},
	"semicolon":     {"code=c;state=STATE", false, oauth.BadCallback},
	"long": {
		"state=STATE&code=" + strings.Repeat("c", 8<<10), false, oauth.BadCallback,
	},
	"denied": {
		"error=access_denied&state=STATE&error_description=secret", false, oauth.AccessDenied,
	},
	"denied_with_code": {"error=access_denied&code=c&state=STATE", false, oauth.AccessDenied},
	"error_forged":     {"error=access_denied&state=x", false, oauth.BadCallback},
	"error_other_iss": {
		"error=access_denied&state=STATE&iss=https%3A%2F%2Fevil.example", true,
		oauth.IssuerMismatch,
	},
	"error_without_iss": {"error=access_denied&state=STATE", true, oauth.IssuerMismatch},
	"scope":             {"error=invalid_scope&state=STATE", false, oauth.InvalidScope},
	"target":            {"error=invalid_target&state=STATE", false, oauth.InvalidTarget},
	"client":            {"error=unauthorized_client&state=STATE", false, oauth.InvalidClient},
	"down":              {"error=temporarily_unavailable&state=STATE", false, oauth.Unreachable},
	"unknown":           {"error=secret&state=STATE", false, oauth.Refused},
	"error_empty":       {"error=&code=c&state=STATE", false, oauth.Refused},
}

// flow returns a sign-in, its client and the fake web that the client uses.
func flow(named bool) (oauth.Flow, *oauth.Client, *web) {
	c, w := client(map[string]string{issuer + "/token": `{"access_token":"a"}`})
	f := c.NewFlow(oauth.Discovery{Resource: server, Issuer: oauth.Issuer{
		Issuer: issuer, Authorization: issuer + "/authorize?tenant=1", Token: issuer +
			"/token", NamesItself: named,
	}, Scopes: []string{"read", "offline_access"}}, grant.Client, redirect)
	return f, c, w
}

// The gateway checks the state and the issuer before it uses the code or the error.
func TestCallback(t *testing.T) {
	for name, want := range callbacks {
		f, c, w := flow(want.named)
		_, err := c.Finish(t.Context(), f, strings.ReplaceAll(want.query, "STATE", f.State))
		if oauth.CodeOf(err) != want.code || (want.code == "") != (len(w.asked) == 1) {
			t.Errorf("%s: %v; asked %q", name, err, w.asked)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error has text of the issuer: %q", name, err)
		}
	}
	for age, want := range map[time.Duration]oauth.Code{
		oauth.FlowLife - 1: "", oauth.FlowLife: oauth.Expired, -oauth.FlowLife - 1: oauth.Expired,
	} {
		f, c, _ := flow(false)
		f.Began = began.Add(-age)
		if _, err := c.Finish(t.Context(), f, "code=c&state="+f.State); oauth.CodeOf(err) != want {
			t.Errorf("after %s: %v", age, err)
		}
	}
}

// The exchange of the code has the verifier, redirect address and resource of the authorization
// request.
func TestFlow(t *testing.T) {
	f, c, w := flow(false)
	u, err := url.Parse(f.URL())
	require.OK(t, err)
	q := u.Query()
	for name, want := range map[string]string{
		"tenant": "1", "response_type": "code", "client_id": "id", "redirect_uri": redirect,
		"state": f.State, "code_challenge_method": "S256", "scope": "read offline_access",
		"resource": server, "prompt": "consent",
	} {
		if got := q.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	other, _, _ := flow(false)
	isRepeated := other.State == f.State || other.Verifier == f.Verifier
	if isRepeated || strings.Contains(f.URL(), f.Verifier) {
		t.Error("the verifier is in the URL, or a secret was used twice")
	}
	_, err = c.Finish(t.Context(), f, "code=c&state="+f.State)
	require.OK(t, err)
	for name, want := range map[string]string{
		"grant_type": "authorization_code", "code": "c", "code_verifier": f.Verifier,
		"redirect_uri": redirect, "resource": server, "client_id": "id",
	} {
		if got := w.forms[0].Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if w.sent[0].Method != http.MethodPost {
		t.Error(w.sent[0].Method)
	}
}

// FuzzCallback checks that only a callback with the state and a code reaches the issuer.
func FuzzCallback(f *testing.F) {
	for _, c := range callbacks {
		f.Add(c.query, c.named)
	}
	f.Fuzz(func(t *testing.T, query string, named bool) {
		flow, c, w := flow(named)
		query = strings.ReplaceAll(query, "STATE", flow.State)
		_, err := c.Finish(t.Context(), flow, query)
		if err != nil {
			isFault(t, err)
			if len(w.asked) > 0 {
				t.Errorf("asked %q: %v", w.asked, err)
			}
			return
		}
		q, err := url.ParseQuery(query)
		if err != nil || q.Get("state") != flow.State || q.Get("code") == "" || q.Has("error") ||
			q.Has("iss") && q.Get("iss") != issuer || named && !q.Has("iss") {
			t.Errorf("%q was used", query)
		}
	})
}

// FuzzMetadata checks that discovery ends with safe addresses, or with a fault. Discovery must read
// the metadata of the resource only at the server's host.
func FuzzMetadata(f *testing.F) {
	f.Add(`{"resource":"`+server+`","authorization_servers":["`+issuer+`"]}`, metadata(issuer))
	f.Add(
		`{"resource":"https://mcp.example","authorization_servers":["https://issuer.example/t"],`+
			`"scopes_supported":["a b"]}`,
		metadata(issuer+"/t"),
	)
	f.Add("404 ", metadata("https://mcp.example", `"scopes_supported":["offline_access"]`))
	f.Add("404 ", "404 ")
	f.Add("<html>", "<html>")
	f.Add(`{"resource":7}`, `{"issuer":[]}`)
	f.Add(
		`{"resource":"https://bank.example","authorization_servers":["https://bank.example"]}`,
		metadata("https://bank.example"),
	)
	f.Add(
		`{"resource":"https://mcp.example/v1/","authorization_servers":["https://issuer.example"]}`,
		metadata(issuer, `"token_endpoint":"http://169.254.169.254/"`),
	)
	f.Fuzz(func(t *testing.T, resource, issuer string) {
		c, _ := client(nil)
		c.HTTP = doer(func(req *http.Request) (*http.Response, error) {
			page := issuer
			if strings.Contains(req.URL.Path, "oauth-protected-resource") {
				page = resource
				if req.URL.Host != "mcp.example" {
					t.Errorf("asked %s", req.URL)
				}
			}
			return (&web{pages: map[string]string{req.URL.String(): page}}).Do(req)
		})
		d, err := c.Discover(t.Context(), parse(t, server), oauth.Challenge{}, oauth.Settings{})
		if err != nil {
			isFault(t, err)
			return
		}
		i := d.Issuer
		for _, address := range []string{
			i.Issuer, i.Authorization, i.Token, i.Registration, i.Revocation,
		} {
			if address != "" && !isSafe(address) {
				t.Errorf("address %q", address)
			}
		}
		u, err := url.Parse(d.Resource)
		if err != nil || oauth.Origin(u) != "https://mcp.example:443" {
			t.Errorf("resource %q", d.Resource)
		}
		areScopes(t, d.Scopes)
	})
}

// isSafe reports whether a code or a token can be sent to an address.
func isSafe(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.User == nil &&
		(u.Scheme == "https" || u.Scheme == "http" && hostname.IsLoopback(u.Hostname()))
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(req *http.Request) (*http.Response, error) { return d(req) }
