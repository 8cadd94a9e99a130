package functions_test

import (
	"net/http"
	"net/url"
	"os/exec"
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
	for auth, key := range map[string]string{"none": "", "token": "a key that is for tests alone, of 32 bytes and more"} {
		t.Run(auth, func(t *testing.T) {
			w := g.fixture(t)
			settings := []string{"PORTCULLIS_AUTH", auth, "PORTCULLIS_TOKEN_KEY", key}
			here, there, mcp := w.Start(t, "admin", settings...), w.Start(t, "admin", settings...), w.Start(t, "mcp", settings...)
			actor, secret, reads := "bootstrap", adminToken.Reveal(), 1
			var made struct{ ID, Token string }
			if auth == "token" {
				reads++ // a request reads the token in addition to the session
				here.Ask(http.StatusCreated, "/admin/tokens", `{"name":"kim","servers":[],"tiers":[],"admin":true,"days":1}`, &made)
				actor, secret = "token:kim", made.Token
			}
			one, two := signIn(t, here, secret), signIn(t, there, secret)
			for _, f := range []*lambdatest.Function{here, there} {
				if a, b := greeted(f, one), greeted(f, two); a != actor || b != actor {
					t.Errorf("the inbox greets %q and %q, want %q", a, b, actor)
				}
			}
			w.proxy.Calls()
			here.Send("/admin/openapi.json", "", "Authorization: ", one)
			if cost := w.proxy.Calls(); cost["dynamodb GetItem"] != reads || cost["dynamodb PutItem"]+cost["dynamodb Query"] > 0 {
				t.Errorf("a request of a signed-in person makes the calls %v", cost)
			}
			page := there.Send("/admin", "", admintest.Browser, "Authorization: ", one).Body
			proof := regexp.MustCompile(`name="csrf" value="([^"]*)"`).FindStringSubmatch(page)
			if proof == nil {
				t.Fatalf("no form of the page has a CSRF token: %s", page)
			}
			if a := there.Send("/admin/logout", "csrf="+proof[1], admintest.Browser, admintest.Form, "Authorization: ", one); a.Status != http.StatusSeeOther {
				t.Errorf("logout: %d %s", a.Status, a.Body)
			}
			if a, b := greeted(here, one), greeted(here, two); a != "" || b != actor {
				t.Errorf("after the logout the inbox greets %q and %q", a, b)
			}
			const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
			if a := mcp.Send("/mcp", ping, two); auth == "token" && a.Status != http.StatusUnauthorized {
				t.Errorf("/mcp accepts the cookie: %d %s", a.Status, a.Body)
			}
			if auth == "token" {
				there.Ask(http.StatusOK, "/admin/tokens/"+made.ID+"/revoke", "{}", nil)
				if a := greeted(here, two); a != "" {
					t.Errorf("after the token is revoked the inbox greets %q", a)
				}
			}
			for _, f := range []*lambdatest.Function{here, there, mcp} {
				for _, s := range []string{secret, one, two} {
					if strings.Contains(f.Output(), s[strings.Index(s, "=")+1:]) {
						t.Error("a secret is in the log")
					}
				}
			}
			if w.proxy.Checked() == 0 {
				t.Error("no call was checked against a role")
			}
		})
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

// Only the admin function contains code for sign-in and pages.
func (g suite) linksNoSignIn(t *testing.T) {
	dir := t.TempDir()
	for function, want := range map[string]bool{"mcp": false, "sync": false, "admin": true} {
		program := filepath.Join(dir, function) // built with symbols
		build := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc", "-o", program, "../../functions/"+function)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", function, err, out)
		}
		symbols, err := exec.CommandContext(t.Context(), "go", "tool", "nm", program).Output()
		require.OK(t, err)
		for _, code := range []string{"pkg/people/signin.(*Sessions)", "pkg/people/signin.(*Store)", "pkg/people/console.", "html/template.", "pkg/people/signin.", "golang.org/x/oauth2.", "pkg/aws/cloudwatch.(*Source)"} {
			if got := strings.Contains(string(symbols), code); got != want {
				t.Errorf("%s contains code of %s: %v, want %v", function, code, got, want)
			}
		}
	}
}
