package testclients

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// tokenLife is how many seconds a token of [TestSignIn] lives. On a slow machine the gateway only
// refreshes more often.
const tokenLife = 4

// An operator signs the gateway in to servers of five kits, at an issuer of another project that
// rotates refresh tokens. Two servers with the same URL have separate accounts.
func TestSignIn(t *testing.T) {
	issuer := IssuerOf(t, tokenLife, "read", "write", "offline_access")
	servers, people := map[string]string{}, map[string]string{}
	for kit, start := range Signed {
		if lanes != "" || kit == "go-sdk" {
			servers[kit], people[kit] = start(t, issuer), "kim"
		}
	}
	servers["second"], people["second"] = servers["go-sdk"], "lee"
	trySignIn(t, servers, people, openIssuer)
}

// A browser opens the page of an issuer as a person, and returns the query with which the issuer
// sends the person to the callback.
type browser func(t *testing.T, address, callback, person string) (query string)

// trySignIn signs in to servers, each as a person. Calls still succeed after a token has expired,
// and fail after the sign-out.
func trySignIn(t *testing.T, servers, people map[string]string, open browser) {
	t.Helper()
	entries := map[string]any{}
	for name, url := range servers {
		entries[name] = map[string]any{"url": url, "approval": "off"}
	}
	config, err := json.Marshal(map[string]any{"mcpServers": entries})
	require.OK(t, err)
	folder := t.TempDir()
	programtest.WriteConfig(t, folder, string(config))
	p := programtest.Start(t, folder)
	last, renewals := map[string]time.Time{}, map[string]int{}
	for name, person := range people {
		if o := known(p)[name].Outcome; o.Reason != outcome.ReasonSignInRequired {
			t.Errorf("%s is %s %s", name, o.Status, o.Reason)
		}
		in := signIn(t, p, name, person, open)
		if c := in.Connection; in.Tools != 1 || c.Status != connection.Connected || !c.Renewable {
			t.Errorf("%s: %+v", name, in)
		}
		last[name] = stateOf(p, name).Renewed
	}
	local.Until(t, "every token was renewed twice", func() bool {
		renewed := 0
		for name, person := range people {
			if got := whoami(t, p, name); !strings.Contains(got, "you are "+person) {
				t.Fatalf("%s answers %s", name, got)
			}
			if at := stateOf(p, name).Renewed; at.After(last[name]) {
				last[name] = at
				renewals[name]++
			}
			if renewals[name] > 1 { // the second time with the refresh token of the first
				renewed++
			}
		}
		return renewed == len(people)
	})
	for name := range people {
		var out decide.SignedOut
		p.Ask(http.StatusOK, "/admin/servers/"+name+"/sign-out", `{}`, &out)
		if got := whoami(t, p, name); !out.Was || !out.Revoked || strings.Contains(got, "you are") {
			t.Errorf("%s after the sign-out: %+v, and a call answers %s", name, out, got)
		}
		if st := stateOf(p, name); st != nil {
			t.Errorf("%s after the sign-out: %+v", name, st)
		}
	}
}

func whoami(t *testing.T, p *programtest.Program, server string) string {
	t.Helper()
	return callAny(t, p, server+":whoami", `{}`)
}

// stateOf returns the sign-in at a server, or nil if there is none.
func stateOf(p *programtest.Program, server string) *connection.State {
	var s decide.ServerDetail
	p.Ask(http.StatusOK, "/admin/servers/"+server, nil, &s)
	return s.Connection
}

// signIn signs the gateway in to a server as an operator whose browser has a person's session.
func signIn(
	t *testing.T, p *programtest.Program, server, person string, open browser,
) (in decide.SignedIn) {
	t.Helper()
	const callback = "http://127.0.0.1:4711/callback"
	var begun decide.SignInStart
	p.Ask(
		http.StatusOK, "/admin/servers/"+server+"/sign-in", decide.SignInQuery{Redirect: callback},
		&begun,
	)
	query := open(t, begun.URL, callback, person)
	p.Ask(
		http.StatusOK, "/admin/sign-in", map[string]string{"state": begun.State, "query": query},
		&in,
	)
	return in
}

// openIssuer is a [browser] that only follows the issuer's redirects.
func openIssuer(t *testing.T, address, callback, person string) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.OK(t, err)
	var query string
	browser := http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		r.Header.Set("X-Person", person)
		if strings.HasPrefix(r.URL.String(), callback+"?") {
			query = r.URL.RawQuery
			return http.ErrUseLastResponse
		}
		return nil
	}}
	resp, err := browser.Get(address)
	require.OK(t, err)
	_ = resp.Body.Close()
	if q, err := url.ParseQuery(query); err != nil || q.Get("code") == "" {
		t.Fatalf("the issuer answers %s with the query %q", resp.Status, query)
	}
	return query
}
