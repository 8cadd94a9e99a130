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
// rotates refresh tokens. Calls still succeed after a token has expired, and fail after the
// sign-out. Two servers with the same URL have separate accounts.
func TestSignIn(t *testing.T) {
	issuer := IssuerOf(t, tokenLife, "read", "write", "offline_access")
	servers := map[string]any{}
	for kit, start := range Signed {
		if lanes != "" || kit == "go-sdk" {
			servers[kit] = map[string]any{"url": start(t, issuer), "approval": "off"}
		}
	}
	servers["second"] = servers["go-sdk"]
	config, err := json.Marshal(map[string]any{"mcpServers": servers})
	require.OK(t, err)
	folder := t.TempDir()
	programtest.WriteConfig(t, folder, string(config))
	p := programtest.Start(t, folder)
	for name := range servers {
		if o := known(p)[name].Outcome; o.Reason != outcome.ReasonSignInRequired {
			t.Errorf("%s is %s %s", name, o.Status, o.Reason)
		}
	}
	people := map[string]string{}
	for name := range servers {
		people[name] = "kim"
	}
	people["second"] = "lee"
	for name, person := range people {
		in := signIn(t, p, name, person)
		if c := in.Connection; in.Tools != 1 || c.Status != connection.Connected || !c.Renewable {
			t.Errorf("%s: %+v", name, in)
		}
	}
	first := map[string]time.Time{}
	for name := range people {
		first[name] = stateOf(p, name).Renewed
	}
	local.Until(t, "every server has a new token", func() bool {
		renewed := 0
		for name, person := range people {
			if got := whoami(t, p, name); !strings.Contains(got, "you are "+person) {
				t.Fatalf("%s answers %s", name, got)
			}
			if stateOf(p, name).Renewed.After(first[name]) {
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
func signIn(t *testing.T, p *programtest.Program, server, person string) (in decide.SignedIn) {
	t.Helper()
	const callback = "http://127.0.0.1:4711/callback"
	var begun decide.SignInStart
	p.Ask(
		http.StatusOK, "/admin/servers/"+server+"/sign-in", decide.SignInQuery{Redirect: callback},
		&begun,
	)
	query := openIssuer(t, begun.URL, callback, person)
	p.Ask(
		http.StatusOK, "/admin/sign-in", map[string]string{"state": begun.State, "query": query},
		&in,
	)
	return in
}

// openIssuer is a person's browser. It follows the issuer's redirects to the callback, and returns
// the query of the callback.
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
