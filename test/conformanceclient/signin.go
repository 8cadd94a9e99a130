package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

const (
	callback = "http://127.0.0.1:4711/callback"
	// The suite expects this client where the issuer supports metadata documents. No server reads
	// the document.
	document = "https://conformance-test.local/client-metadata.json"
)

// maxSignIns is how often a person signs in during a scenario. The suite permits three.
const maxSignIns = 3

// refusals contains the scenarios in which the gateway must refuse to sign in, each with its
// reason.
var refusals = map[string]oauth.Code{
	"auth/resource-mismatch":        oauth.ResourceMismatch,
	"auth/iss-supported-missing":    oauth.IssuerMismatch,
	"auth/iss-wrong-issuer":         oauth.IssuerMismatch,
	"auth/iss-unexpected":           oauth.IssuerMismatch,
	"auth/iss-normalized":           oauth.IssuerMismatch,
	"auth/metadata-issuer-mismatch": oauth.IssuerMismatch,
}

// extensions are the scenarios of extensions that the gateway does not have. The suite runs them,
// but does not score them.
var extensions = []string{
	"auth/client-credentials-jwt", "auth/client-credentials-basic", "auth/enterprise-managed-authorization",
	"auth/dpop", "auth/dpop-nonce", "auth/wif-jwt-bearer",
}

// noRedirect makes a client return a redirect instead of following it.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// newSignIns returns the sign-ins of a gateway with an empty store.
func newSignIns() *connection.Service {
	key := []byte(nil)
	return connection.New(connection.Options{
		Docs: new(documenttest.Store), Table: "suite", HTTP: &http.Client{
			CheckRedirect: noRedirect,
		},
		Keys: &connection.LocalKey{
			Read: func() ([]byte, error) {
				if key == nil {
					return nil, connection.ErrNoKey
				}
				return key, nil
			},
			Make: func() error {
				key = make([]byte, 32)
				return nil
			},
		},
	})
}

// signedIn loads the list and calls every tool of a server that demands a sign-in. A person signs
// in after each denial.
func (a *agent) signedIn(name string) error {
	settings, err := a.settings()
	if err != nil {
		return err
	}
	a.target.SignIn, a.target.Connected = &settings, true
	for n := 0; ; n++ {
		a.denied = nil
		switch out := a.load(); out.Status {
		case outcome.Available:
			if err := callAll(a); err != nil || a.denied == nil {
				return unrefused(name, err)
			}
		case outcome.Denied:
			a.denied = &out
		default:
			return fmt.Errorf(
				"the list was not loaded: %s %s: %s", out.Status, out.Reason, out.Error,
			)
		}
		if n == maxSignIns {
			fmt.Fprintf(os.Stderr, "still denied after %d sign-ins: %s\n", n, a.denied.Reason)
			return nil
		}
		if err := a.signIn(); err != nil {
			if code, ok := refusals[name]; ok && oauth.CodeOf(err) == code {
				fmt.Fprintln(os.Stderr, "refused:", err)
				return nil
			}
			return fmt.Errorf("sign in: %w", err)
		}
	}
}

// unrefused returns an error if a scenario ended without the refusal that it expects.
func unrefused(name string, err error) error {
	if code, ok := refusals[name]; ok && err == nil {
		return fmt.Errorf("the gateway signed in, but must refuse with %s", code)
	}
	return err
}

// settings returns the member auth of the server in a config: the client of the scenario's context,
// if it has one.
func (a *agent) settings() (s oauth.Settings, err error) {
	if a.context == "" {
		return s, nil
	}
	var c struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	err = json.Unmarshal([]byte(a.context), &c)
	return oauth.Settings{ClientID: c.ID, Secret: secret.New(c.Secret)}, err
}

// signIn signs in as a person: it presses "Sign in", opens the issuer's page, which sends the
// browser back immediately, and confirms a changed issuer.
func (a *agent) signIn() error {
	r := connection.Request{
		Server:   oauth.Server{Name: a.target.ID, URL: a.target.URL, Settings: *a.target.SignIn},
		Redirect: callback, Document: document, By: "the suite",
	}
	if c := a.denied.Challenge; c != nil {
		r.Challenge = oauth.Challenge{Metadata: c.Metadata, Scopes: c.Scopes}
	}
	p, err := a.signIns.Start(a.ctx, r)
	if oauth.CodeOf(err) == oauth.IssuerChanged {
		r.Confirm = true
		p, err = a.signIns.Start(a.ctx, r)
	}
	if err != nil {
		return err
	}
	query, err := browse(a.ctx, p.URL)
	if err != nil {
		return err
	}
	_, err = a.signIns.Finish(
		a.ctx, p.Sealed, query, func(string) (oauth.Server, bool) { return r.Server, true },
	)
	return err
}

// browse opens the issuer's page and returns the query with which the browser is sent back.
func browse(ctx context.Context, page string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{CheckRedirect: noRedirect}).Do(req)
	if err != nil {
		return "", err
	}
	_ = resp.Body.Close()
	back, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || resp.StatusCode/100 != 3 {
		return "", fmt.Errorf("the issuer answers %s", resp.Status)
	}
	return back.RawQuery, nil
}
