package functions_test

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Two instances of the admin function share the sessions of people. A person can sign in at one
// instance and sign out at the other.
func (g suite) peopleSignIn(t *testing.T) {
	w := g.fixture(t)
	settings := []string{
		"PORTCULLIS_AUTH", "token",
		"PORTCULLIS_TOKEN_KEY", "a key that is for tests alone, of 32 bytes and more",
	}
	here, there := w.Start(t, "admin", settings...), w.Start(t, "admin", settings...)
	var made struct{ ID, Token string }
	here.Ask(http.StatusCreated, "/admin/tokens", `{"name":"kim","servers":[],"tiers":[],"admin":true,"days":1}`, &made)
	one, two := signIn(t, here, made.Token), signIn(t, there, made.Token)
	for _, f := range []*lambdatest.Function{here, there} {
		if a, b := greeted(f, one), greeted(f, two); a != "token:kim" || b != "token:kim" {
			t.Errorf("the inbox greets %q and %q, want token:kim", a, b)
		}
	}
	// A request after a TTL also reads the config or the stops, so the cheapest of some counts.
	cost := map[string]int{"s3 GET": 1}
	for range 5 {
		w.proxy.Calls()
		here.Send("/admin/openapi.json", "", "Authorization: ", one)
		calls := w.proxy.Calls()
		if cost["s3 GET"] > 0 || calls["s3 GET"] == 0 && calls["dynamodb GetItem"] < cost["dynamodb GetItem"] {
			cost = calls
		}
	}
	// The session and the token.
	if cost["dynamodb GetItem"] != 2 || cost["dynamodb PutItem"]+cost["dynamodb Query"] > 0 {
		t.Errorf("a request of a signed-in person makes the calls %v", cost)
	}
	page := there.Send("/admin", "", admintest.Browser, "Authorization: ", one).Body
	proof := regexp.MustCompile(`name="csrf" value="([^"]*)"`).FindStringSubmatch(page)
	if proof == nil {
		t.Fatalf("no form of the page has a CSRF token: %s", page)
	}
	a := there.Send("/admin/logout", "csrf="+proof[1], admintest.Browser, admintest.Form, "Authorization: ", one)
	if a.Status != http.StatusSeeOther {
		t.Errorf("logout: %d %s", a.Status, a.Body)
	}
	if a, b := greeted(here, one), greeted(here, two); a != "" || b != "token:kim" {
		t.Errorf("after the logout the inbox greets %q and %q", a, b)
	}
	there.Ask(http.StatusOK, "/admin/tokens/"+made.ID+"/revoke", "{}", nil)
	if a := greeted(here, two); a != "" {
		t.Errorf("after the token is revoked the inbox greets %q", a)
	}
	for _, f := range []*lambdatest.Function{here, there} {
		for _, s := range []string{made.Token, one, two} {
			if strings.Contains(f.Output(), s[strings.Index(s, "=")+1:]) {
				t.Error("a secret is in the log")
			}
		}
	}
	if w.proxy.Checked() == 0 {
		t.Error("no call was checked against a role")
	}
}

// signIn sends the form of the sign-in page and returns the browser's cookie header.
func signIn(t *testing.T, f *lambdatest.Function, secret string) string {
	t.Helper()
	a := f.Send("/admin/login", url.Values{"key": {secret}}.Encode(), admintest.Browser, admintest.Form, "Authorization: ")
	if cookies := a.Cookies(); a.Status == http.StatusSeeOther && len(cookies) == 1 && cookies[0].Name == "__Host-portcullis" {
		return "Cookie: " + cookies[0].Name + "=" + cookies[0].Value
	}
	t.Fatalf("sign-in: %d %v %s", a.Status, a.Cookies(), a.Body)
	return ""
}

// greeted returns the name with which the inbox greets the owner of a cookie, or "".
func greeted(f *lambdatest.Function, cookie string) string {
	_, after, _ := strings.Cut(f.Send("/admin", "", admintest.Browser, "Authorization: ", cookie).Body, `<span class="actor">`)
	name, _, _ := strings.Cut(after, "<")
	return name
}

// Only the admin function contains code for sign-in and pages. A program without symbols still has
// the names of its functions, for stack traces.
func (g suite) linksNoSignIn(t *testing.T) {
	for function, want := range map[string]bool{"mcp": false, "sync": false, "admin": true} {
		program, err := os.ReadFile(filepath.Join(g.programs, function))
		require.OK(t, err)
		for _, code := range []string{
			"pkg/people/signin.(*Sessions)", "pkg/people/signin.(*Store)", "pkg/people/console.",
			"html/template.", "pkg/people/signin.", "golang.org/x/oauth2.",
			"pkg/aws/cloudwatch.(*Source)",
		} {
			if got := bytes.Contains(program, []byte(code)); got != want {
				t.Errorf("%s contains code of %s: %v, want %v", function, code, got, want)
			}
		}
	}
}
