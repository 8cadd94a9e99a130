package functions_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
)

// cookies are the cookies of a browser, by name.
type cookies map[string]string

// take stores the cookies that an answer sets, and deletes the cookies that it expires.
func (c cookies) take(a agenttest.Answer) {
	for _, cookie := range a.Cookies() {
		c[cookie.Name] = cookie.Value
		if cookie.MaxAge < 0 {
			delete(c, cookie.Name)
		}
	}
}

// header returns the header with all cookies.
func (c cookies) header() string {
	var all []string
	for name, value := range c {
		all = append(all, name+"="+value)
	}
	return "Cookie: " + strings.Join(all, "; ")
}

// People sign in at an issuer through two instances of the admin function. One sends the browser to
// the issuer, and the other receives the callback. The answer to the callback sets one cookie and
// deletes others, each as a separate entry of payload 2.0.
func (g suite) peopleSignInAtIssuer(t *testing.T) {
	w := g.fixture(t)
	w.Sync(t)
	i := identitytest.Start(t)
	const secret = "s3cret of the client"
	i.Client("console", secret, lambdatest.BaseURL+"/admin/login/callback")
	w.Parameter("/portcullis/console", secret)
	settings := []string{
		"PORTCULLIS_ISSUER", i.URL, "PORTCULLIS_ADMIN_CLIENT_ID", "console", "PORTCULLIS_ADMIN_CLIENT_SECRET", "ssm:/portcullis/console",
		"PORTCULLIS_VIEWERS", "staff", "PORTCULLIS_APPROVERS", "mailers=mail", "PORTCULLIS_OPERATORS", "ops",
	}
	here, there := w.Start(t, "admin", settings...), w.Start(t, "admin", settings...)
	signIn := func(subject string, groups ...string) (cookies, agenttest.Answer) {
		t.Helper()
		i.Become(subject, map[string]any{"preferred_username": subject, "groups": groups})
		jar := cookies{}
		a := here.Send("/admin/login", "issuer=1", admintest.Browser, admintest.Form, "Authorization: ")
		jar.take(a)
		to := regexp.MustCompile(`url=(\S+)`).FindStringSubmatch(a.Header.Get("Refresh"))
		if to == nil || len(jar) != 1 {
			t.Fatalf("start of the sign-in: %d %v, cookies %v: %s", a.Status, a.Header, jar, a.Body)
		}
		back := i.Visit(to[1])
		a = there.Send(back.RequestURI(), "", admintest.Browser, "Authorization: ", jar.header())
		if a.Status == http.StatusSeeOther && len(a.Cookies()) < 2 {
			t.Errorf("the answer sets %v, want a session and an expired sign-in cookie", a.Cookies())
		}
		jar.take(a)
		return jar, a
	}

	ann, a := signIn("ann", "mailers", "people")
	if a.Status != http.StatusSeeOther || len(ann) != 1 || ann["__Host-portcullis"] == "" {
		t.Fatalf("callback of ann: %d %v, cookies %v: %s", a.Status, a.Header, ann, a.Body)
	}
	for _, f := range []*lambdatest.Function{here, there} {
		if who := greeted(f, ann.header()); who != "ann" {
			t.Errorf("the inbox greets %q", who)
		}
	}
	page := here.Send("/admin/tools/mail/send_mail", "", admintest.Browser, "Authorization: ", ann.header()).Body
	form := url.Values{"note": {"seen"}}
	for _, name := range []string{"csrf", "hash", "rev"} {
		field := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(page)
		if field == nil {
			t.Fatalf("no form has %s: %s", name, page)
		}
		form.Set(name, field[1])
	}
	decide := func(f *lambdatest.Function, path string) agenttest.Answer {
		return f.Send(path, form.Encode(), admintest.Browser, admintest.Form, "Authorization: ", ann.header())
	}
	if a := decide(here, "/admin/tools/github/search_issues/disable"); a.Status != http.StatusForbidden {
		t.Errorf("an approver of mail decides about github: %d %s", a.Status, a.Body)
	}
	if a := decide(there, "/admin/tools/mail/send_mail/approve"); a.Status != http.StatusSeeOther {
		t.Errorf("an approver of mail cannot decide about mail: %d %s", a.Status, a.Body)
	}
	if said := here.Send("/admin/audit", "").Body; !strings.Contains(said, `"actor":"ann"`) {
		t.Errorf("the audit does not name ann: %s", said)
	}

	for _, f := range []*lambdatest.Function{here, there} {
		if log := f.Output(); strings.Contains(log, secret) || strings.Contains(log, ann["__Host-portcullis"]) {
			t.Error("a secret is in the log")
		}
	}
	if w.proxy.Checked() == 0 {
		t.Error("the proxy checked no AWS call against an IAM role")
	}
}
