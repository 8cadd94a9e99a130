package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// connections supplies the tokens of a test: secret-1, then secret-2 and so on after each renewal.
type connections struct {
	mu      sync.Mutex
	n       int   // of the current token; 0: no sign-in
	asked   int   // calls of Token
	err     error // of Token
	renewal error // of Renew
	old     bool  // Token always returns secret-1, as for a caller that read the connection before
	refused []outcome.Outcome
}

func (c *connections) Token(context.Context, oauth.Server) (secret.Text, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.n == 0 || c.err != nil {
		return secret.Text{}, c.err
	}
	if c.old {
		return secret.New("secret-1"), nil
	}
	return secret.New(fmt.Sprint("secret-", c.n)), nil
}

func (c *connections) Secrets(oauth.Server) []string { return []string{"secret-1", "secret-2"} }

func (c *connections) Refused(_ context.Context, _ oauth.Server, o outcome.Outcome) {
	c.refused = append(c.refused, o)
}

func (c *connections) Renew(_ context.Context, _ oauth.Server, rejected secret.Text) (secret.Text, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.renewal != nil {
		return secret.Text{}, c.renewal
	}
	if rejected.Reveal() == fmt.Sprint("secret-", c.n) {
		c.n++
	}
	return secret.New(fmt.Sprint("secret-", c.n)), nil
}

// newSignInFixture returns a fixture whose server accepts one token.
func newSignInFixture(t *testing.T, c *connections, accepted *string) *fixture {
	f := newFixture(t, Options{Connections: c}, upstreamtest.Options{Front: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Authorization"); got != "Bearer "+*accepted {
				w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprint(w, "not valid: ", got)
				return
			}
			next.ServeHTTP(w, r)
		})
	}})
	f.targets[0].SignIn = &oauth.Settings{}
	return f
}

// A load uses the token of a sign-in. A call uses it if the last load found the sign-in.
func TestToken(t *testing.T) {
	c, accepted := &connections{n: 1}, "secret-1"
	f := newSignInFixture(t, c, &accepted)
	if out := f.available(); !out.Connected {
		t.Error("the outcome is not Connected")
	}
	if asked := c.asked; f.fails(Call{Name: "x"}).Outcome.Status != outcome.Denied ||
		c.asked != asked {
		t.Error("a call of a server without a sign-in read a token")
	}
	f.targets[0].Connected = true
	f.works()
}

// If the server refuses a token, the client renews it once and repeats the call.
func TestTokenRenewed(t *testing.T) {
	c, accepted := &connections{n: 1}, "secret-2"
	f := newSignInFixture(t, c, &accepted)
	f.targets[0].Connected = true
	f.works()
	accepted = "secret-9"
	e := f.fails(Call{Name: "x"})
	if o := e.Outcome; o.Status != outcome.Denied || o.Reason != outcome.ReasonCredentialExpired ||
		e.Delivered {
		t.Errorf("%+v", e)
	}
	if c.n != 3 || strings.Contains(e.Error(), "secret-") {
		t.Errorf("current token = %d, want 3; error %v", c.n, e)
	}
}

// A caller that read the connection before the renewal gets the renewed token.
func TestTokenRenewedAfterRead(t *testing.T) {
	c, accepted := &connections{n: 1, old: true}, "secret-2"
	f := newSignInFixture(t, c, &accepted)
	f.targets[0].Connected = true
	f.works()
}

// If a token cannot be read or renewed, this decides the outcome, and the client sends nothing
// without a token.
func TestTokenFails(t *testing.T) {
	silent := &oauth.Fault{Code: oauth.Unreachable, Text: "the issuer does not answer"}
	for name, tt := range map[string]struct {
		token, renewal error
		status         outcome.Status
		reason         string
	}{
		"ended":                       {&oauth.EndedError{Reason: "invalid_grant"}, nil, outcome.Denied, outcome.ReasonCredentialExpired},
		"the store is down":           {errors.New("no answer"), nil, outcome.Transient, outcome.ReasonAuthzUnavailable},
		"renewal: the issuer is down": {nil, silent, outcome.Transient, outcome.ReasonAuthzUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			c, accepted := &connections{n: 1, err: tt.token, renewal: tt.renewal}, "secret-9"
			f := newSignInFixture(t, c, &accepted)
			out := f.load()
			if out.Status != tt.status || out.Reason != tt.reason || !out.Connected {
				t.Errorf("load: %+v", out)
			}
			f.targets[0].Connected = true
			e := f.fails(Call{Name: "x"})
			if e.Outcome.Status != tt.status || e.Outcome.Reason != tt.reason || e.Delivered {
				t.Errorf("call: %+v", e)
			}
			if n := len(f.servers[0].Requests()); tt.token != nil && n != 0 {
				t.Errorf("%d requests without a token", n)
			}
		})
	}
}

// A configured Authorization header, or auth.type none, excludes a sign-in.
func TestNoSignIn(t *testing.T) {
	c, accepted := &connections{n: 1}, "fixed"
	f := newSignInFixture(t, c, &accepted)
	f.targets[0].SignIn = nil
	f.targets[0].Headers = map[string]string{"Authorization": "Bearer fixed"}
	if out := f.available(); out.Connected || c.asked != 0 {
		t.Errorf("%d reads of a token, %+v", c.asked, out)
	}
}
