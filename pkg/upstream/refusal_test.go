package upstream

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// If the gateway can sign in to a server, a refused call has its own reason. The client reports the
// call with the scopes that the server named, and its text tells an agent who can help.
func TestRefusedCall(t *testing.T) {
	const bearer401 = "Bearer"
	ended := func(code oauth.Code) error { return &oauth.EndedError{Reason: string(code)} }
	for name, tt := range map[string]struct {
		signIns   *connections
		status    int
		challenge string
		settings  *oauth.Settings // nil: the gateway does not sign in
		reason    string
		scopes    []string
		reports   int
		says      string
	}{
		"no sign-in": {&connections{}, 401, bearer401 + ` scope="write"`, &oauth.Settings{}, outcome.ReasonSignInRequired, []string{"write"}, 1,
			"the gateway's operator must give the gateway access"},
		"a server that the gateway does not sign in to": {&connections{}, 401, bearer401, nil, outcome.ReasonSignInRequired, nil, 0,
			"the gateway's operator must give the gateway access"},
		"a missing scope": {&connections{n: 1}, 403, `Bearer error="insufficient_scope", scope="a b"`, &oauth.Settings{},
			outcome.ReasonInsufficientScope, []string{"a", "b"}, 1, "must allow more and sign in again"},
		"a scope over the maximum": {&connections{n: 1}, 403, `Bearer error="insufficient_scope", scope="a b"`,
			&oauth.Settings{Scopes: []string{"a"}}, outcome.ReasonScopeNotAllowed, []string{"b"}, 1, "must allow more and sign in again"},
		"a plain 403": {&connections{n: 1}, 403, "", &oauth.Settings{}, outcome.ReasonForbidden, nil, 0, "contact its owner"},
		"a token that is not renewed": {&connections{n: 1}, 401, bearer401, &oauth.Settings{}, outcome.ReasonCredentialExpired, nil, 1,
			"must sign in again"},
		"a refused client": {&connections{n: 1, renewal: ended(oauth.InvalidClient)}, 401, bearer401, &oauth.Settings{},
			outcome.ReasonClientRefused, nil, 1, "must sign in again"},
		"a changed issuer": {&connections{err: ended(oauth.IssuerChanged)}, 200, "", &oauth.Settings{}, outcome.ReasonIssuerChanged, nil, 0,
			"must sign in again"},
		"an ended sign-in": {&connections{err: ended(oauth.InvalidGrant)}, 200, "", &oauth.Settings{}, outcome.ReasonCredentialExpired, nil, 0,
			"must sign in again"},
		"an issuer that does not answer": {&connections{n: 1, renewal: &oauth.Fault{Code: oauth.Unreachable}}, 401, bearer401, &oauth.Settings{},
			outcome.ReasonAuthzUnavailable, nil, 0, "call again"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Options{Connections: tt.signIns}, upstreamtest.Options{Front: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if tt.status == 200 {
						next.ServeHTTP(w, r)
						return
					}
					if tt.challenge != "" {
						w.Header().Set("WWW-Authenticate", tt.challenge)
					}
					w.WriteHeader(tt.status)
				})
			}})
			f.targets[0].SignIn, f.targets[0].Connected = tt.settings, true
			_, err := f.call(Call{Name: "echo"})
			failed, ok := errors.AsType[*outcome.CallError](err)
			if !ok {
				t.Fatal(err)
			}
			o := failed.Outcome
			if o.Reason != tt.reason || len(tt.signIns.refused) != tt.reports || failed.Delivered {
				t.Errorf("%s after %d reports, delivered: %t; want %s after %d", o.Reason, len(tt.signIns.refused), failed.Delivered, tt.reason, tt.reports)
			}
			if tt.scopes != nil && (o.Challenge == nil || !slices.Equal(o.Challenge.Scopes, tt.scopes)) {
				t.Errorf("challenge %+v, want the scopes %q", o.Challenge, tt.scopes)
			}
			if got := failed.Message("files"); !strings.Contains(got, tt.says) || !strings.Contains(got, "The call was not carried out") || strings.Contains(got, "secret-") {
				t.Errorf("text for the agent = %s", got)
			}
			if got := o.OperatorMessage("files"); strings.Contains(got, "secret-") {
				t.Errorf("an operator reads %s", got)
			}
		})
	}
}
