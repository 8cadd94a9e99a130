package connection_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/secrettest"
)

const redirect = "http://127.0.0.1:4711/callback"

// A fixture has a gateway's vault, an issuer, and a server that requires the issuer's tokens.
type fixture struct {
	docs   *documenttest.Store
	issuer *issuertest.Issuer
	server oauth.Server
	table  string
	key    []byte // nil: there is no file

	mu     sync.Mutex
	now    time.Time
	events []connection.Event
}

func newFixture(t testing.TB, h issuertest.Habits) *fixture {
	f := &fixture{
		docs:  new(documenttest.Store),
		now:   time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		table: "folder",
	}
	t.Cleanup(func() { f.checkStored(t) })
	h.Now = f.clock
	f.issuer = issuertest.New(t, h)
	s := newServer(t, f.issuer.Front("read"))
	f.server = oauth.Server{Name: "files", URL: s + "/mcp"}
	return f
}

// checkStored fails the test if a document contains a secret in plain text.
func (f *fixture) checkStored(t testing.TB) {
	t.Helper()
	for _, d := range f.docs.All() {
		secrettest.Absent(t, "the document "+d.Part, string(d.Data))
	}
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) wait(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

// service returns the service of one process.
func (f *fixture) service() *connection.Service {
	return f.serviceWith(f.docs, &connection.LocalKey{
		Read: func() ([]byte, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.key == nil {
				return nil, connection.ErrNoKey
			}
			return f.key, nil
		},
		Make: func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.key = []byte(fmt.Sprintf("%032d", len(f.events)))
			return nil
		},
	})
}

// serviceWith returns a service with another store or key.
func (f *fixture) serviceWith(docs document.Store, keys connection.Keys) *connection.Service {
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return connection.New(connection.Options{
		Docs: docs, Table: f.table, Now: f.clock, HTTP: &http.Client{CheckRedirect: noRedirect},
		Jitter: func(time.Duration) time.Duration { return 0 }, Keys: keys,
		Event: func(_ context.Context, e connection.Event) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.events = append(f.events, e)
		},
	})
}

func (f *fixture) request() connection.Request {
	return connection.Request{Server: f.server, Redirect: redirect, By: "ada"}
}

func (f *fixture) find(string) (oauth.Server, bool) { return f.server, true }

// signIn signs in as a person with a browser.
func (f *fixture) signIn(t testing.TB, s *connection.Service) connection.State {
	t.Helper()
	p, err := s.Start(t.Context(), f.request())
	require.OK(t, err)
	st, err := s.Finish(t.Context(), p.Sealed, issuertest.Query(t, p.URL), f.find)
	require.OK(t, err)
	return st
}

// token returns the token for a call.
func (f *fixture) token(t *testing.T, s *connection.Service) string {
	t.Helper()
	text, err := s.Token(t.Context(), f.server)
	require.OK(t, err)
	return text.Reveal()
}

// accepted reports whether the server accepts the token.
func (f *fixture) accepted(t *testing.T, token string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.server.URL, nil)
	require.OK(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	require.OK(t, err)
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// A person signs in, the token is used and renewed, and the person signs out. Nothing that is
// stored or shown contains a token.
func TestSignIn(t *testing.T) {
	for name, h := range map[string]issuertest.Habits{
		"plain":                          {},
		"an issuer with a path":          {Path: "/tenant"},
		"without metadata":               {NoMetadata: true},
		"constant refresh tokens":        {KeepRefresh: true},
		"scope required in a refresh":    {ScopeOnRefresh: true},
		"tokens as a form":               {Form: true},
		"expires_in as a text":           {TextExpires: true},
		"errors with status 200":         {ErrorIn200: true},
		"a registration with a password": {Metadata: map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_post"}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, h)
			if h.NoMetadata { // then the server is its own issuer
				f.server.URL = f.issuer.URL + "/mcp"
				f.server.Settings.Scopes = []string{"read"}
			}
			s := f.service()
			if text, err := s.Token(t.Context(), f.server); err != nil || text.Reveal() != "" {
				t.Fatalf("before the sign-in: %q, %v", text.Reveal(), err)
			}
			st := f.signIn(t, s)
			if st.Status != connection.Connected || st.By != "ada" || !st.Renewable {
				t.Errorf("state %+v", st)
			}
			first := f.token(t, s)
			f.wait(54 * time.Minute)
			if got := f.token(t, s); got != first {
				t.Error("a token was refreshed too early")
			}
			f.wait(2 * time.Minute)
			second := f.token(t, f.service()) // in another process
			if second == first || f.token(t, s) != second {
				t.Error("a token was not refreshed when it was due")
			}
			if !h.NoMetadata && !f.accepted(t, second) {
				t.Error("the server does not accept the token")
			}
			f.checkStored(t)
			was, revoke, err := s.SignOut(t.Context(), f.server, "ada")
			if !was || err != nil || (revoke == nil) == h.NoMetadata {
				t.Errorf("sign-out: %v, %v, %v", was, revoke, err)
			}
			if text, err := f.service().Token(t.Context(), f.server); err != nil ||
				text.Reveal() != "" {
				t.Errorf("after the sign-out: %q, %v", text.Reveal(), err)
			}
		})
	}
}

// A failed sign-in stores nothing. Its error gives the reason without any text of the issuer.
func TestSignInRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		habits issuertest.Habits
		set    oauth.Settings
		code   oauth.Code
	}{
		"no S256":                    {issuertest.Habits{Metadata: map[string]any{"code_challenge_methods_supported": []string{"plain"}}}, oauth.Settings{}, oauth.NoPKCE},
		"metadata of another issuer": {issuertest.Habits{Metadata: map[string]any{"issuer": "https://other.example"}}, oauth.Settings{}, oauth.IssuerMismatch},
		"an endpoint without https":  {issuertest.Habits{Metadata: map[string]any{"token_endpoint": "http://evil.example/token"}}, oauth.Settings{}, oauth.BadMetadata},
		"no registration":            {issuertest.Habits{NoRegistration: true}, oauth.Settings{}, oauth.NoClient},
		"registration forbidden":     {issuertest.Habits{}, oauth.Settings{NoRegister: true}, oauth.NoClient},
		"iss is missing":             {issuertest.Habits{NoIss: true}, oauth.Settings{}, oauth.IssuerMismatch},
		"iss of another issuer":      {issuertest.Habits{OtherIss: true}, oauth.Settings{}, oauth.IssuerMismatch},
		"the resource is refused":    {issuertest.Habits{NoResource: true}, oauth.Settings{}, oauth.InvalidTarget},
		"not a bearer token": {issuertest.Habits{Answer: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"access_token": %q, "token_type": "mac"}`, secrettest.New("access"))
		}}, oauth.Settings{}, oauth.BadAnswer},
		"a line end in the token": {issuertest.Habits{Answer: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"access_token": %q, "token_type": "bearer"}`, secrettest.New("a\r\nX: y"))
		}}, oauth.Settings{}, oauth.BadAnswer},
		"an endless answer": {issuertest.Habits{Answer: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Repeat(" ", 64<<10), `{"access_token": "x"}`)
		}}, oauth.Settings{}, oauth.BadAnswer},
		"a redirect": {issuertest.Habits{Answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://evil.example", http.StatusTemporaryRedirect)
		}}, oauth.Settings{}, oauth.BadAnswer},
		"the issuer is down": {issuertest.Habits{Answer: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
		}}, oauth.Settings{}, oauth.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tt.habits)
			f.server.Settings = tt.set
			s := f.service()
			p, err := s.Start(t.Context(), f.request())
			if err == nil {
				_, err = s.Finish(t.Context(), p.Sealed, issuertest.Query(t, p.URL), f.find)
			}
			if oauth.CodeOf(err) != tt.code {
				t.Fatalf("%v, want %s", err, tt.code)
			}
			secrettest.Absent(t, "the error", err.Error())
			if _, ok, err := s.State(t.Context(), f.server); ok || err != nil {
				t.Errorf("a connection is stored, or %v", err)
			}
		})
	}
}

// A callback is valid once, for its own sign-in, within ten minutes.
func TestCallback(t *testing.T) {
	f := newFixture(t, issuertest.Habits{})
	s := f.service()
	start := func() (connection.Pending, string) {
		p, err := s.Start(t.Context(), f.request())
		require.OK(t, err)
		return p, issuertest.Query(t, p.URL)
	}
	fails := func(what string, code oauth.Code, sealed, query string) {
		t.Helper()
		if _, err := s.Finish(t.Context(), sealed, query, f.find); oauth.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", what, err, code)
		}
	}
	one, oneQuery := start()
	two, twoQuery := start() // another tab
	fails("the state of another tab", oauth.BadCallback, one.Sealed, twoQuery)
	fails("a forged state", oauth.BadCallback, strings.Repeat("A", 200), oneQuery)
	fails("nothing", oauth.BadCallback, one.Sealed, "")
	fails("two codes", oauth.BadCallback, one.Sealed, oneQuery+"&code=x")
	fails(
		"declined",
		oauth.AccessDenied,
		one.Sealed,
		strings.Replace(oneQuery, "code=", "error=access_denied&x=", 1),
	)
	_, err := s.Finish(t.Context(), one.Sealed, oneQuery, f.find)
	require.OK(t, err)
	fails("a second use", oauth.InvalidGrant, one.Sealed, oneQuery)
	f.wait(10 * time.Minute)
	fails("too late", oauth.Expired, two.Sealed, twoQuery)
	other := func(string) (oauth.Server, bool) {
		return oauth.Server{Name: "files", URL: "https://other.example"}, true
	}
	three, threeQuery := start()
	if _, err := s.Finish(t.Context(), three.Sealed, threeQuery, other); oauth.CodeOf(
		err,
	) != oauth.BadCallback {
		t.Errorf("a server at another URL: %v", err)
	}
	if st, _, _ := s.State(t.Context(), f.server); st.Status != connection.Connected {
		t.Errorf("the connection is %+v", st)
	}
}

// A document in another place, or sealed with another key, does not open. The gateway makes no new
// key that would hide this.
func TestRestored(t *testing.T) {
	f := newFixture(t, issuertest.Habits{})
	f.signIn(t, f.service())
	ended := func(what string, s *connection.Service) {
		t.Helper()
		_, err := s.Token(t.Context(), f.server)
		st, ok, stErr := s.State(t.Context(), f.server)
		if reasonOf(err) != connection.Restored || !ok || stErr != nil ||
			st.Reason != connection.Restored {
			t.Errorf("%s: %v; %+v %v %v", what, err, st, ok, stErr)
		}
	}
	f.table = "copy"
	ended("a copied table", f.service())
	f.table = "folder"
	key := f.key
	f.key = []byte(strings.Repeat("k", 32))
	ended("another key", f.service())
	f.key = nil
	ended("no key", f.service())
	if _, err := f.service().Start(t.Context(), f.request()); oauth.CodeOf(
		err,
	) != connection.KeyMissing ||
		f.key != nil {
		t.Errorf("a sign-in without the key: %v", err)
	}
	f.key = key
	if f.token(t, f.service()) == "" {
		t.Error("the old key does not open the connection")
	}
	moved := f.server
	moved.Name = "copy"
	d, err := document.Get(t.Context(), f.docs, connection.Key(f.server.Name, f.server.URL))
	require.OK(t, err)
	require.OK(
		t,
		f.docs.PutDocs(
			t.Context(),
			document.Doc{Key: connection.Key(moved.Name, moved.URL), Data: d.Data},
		),
	)
	if _, err := f.service().Token(t.Context(), moved); reasonOf(err) != connection.Restored {
		t.Errorf("a moved document: %v", err)
	}
}

// Two names of one URL are two connections.
func TestTwoAccounts(t *testing.T) {
	f := newFixture(t, issuertest.Habits{})
	s := f.service()
	f.signIn(t, s)
	first := f.token(t, s)
	one := f.server
	f.server.Name = "other"
	if text, err := s.Token(t.Context(), f.server); err != nil || text.Reveal() != "" {
		t.Fatalf("%q, %v", text.Reveal(), err)
	}
	f.signIn(t, s)
	second := f.token(t, s)
	f.server = one
	if f.token(t, s) != first || first == second {
		t.Error("a name got the token of the other account")
	}
}

// If the issuer of a server changes, a person must agree.
func TestIssuerChanged(t *testing.T) {
	f := newFixture(t, issuertest.Habits{})
	s := f.service()
	f.signIn(t, s)
	next := issuertest.New(t, issuertest.Habits{Now: f.clock})
	f.server.Settings.Issuer = next.URL
	r := f.request()
	if _, err := s.Start(t.Context(), r); oauth.CodeOf(err) != oauth.IssuerChanged {
		t.Fatalf("%v", err)
	}
	r.Confirm = true
	p, err := s.Start(t.Context(), r)
	require.OK(t, err)
	_, err = s.Finish(t.Context(), p.Sealed, issuertest.Query(t, p.URL), f.find)
	require.OK(t, err)
	if next.Registered != 1 {
		t.Error("the gateway did not register at the new issuer")
	}
}

// A later sign-in uses the registration again, unless the callback differs.
func TestRegistration(t *testing.T) {
	f := newFixture(t, issuertest.Habits{})
	f.signIn(t, f.service())
	f.signIn(t, f.service())
	if n := f.issuer.Registered; n != 1 {
		t.Errorf("%d registrations", n)
	}
	r := f.request()
	r.Redirect = "http://127.0.0.1:4712/callback"
	_, err := f.service().Start(t.Context(), r)
	require.OK(t, err)
	if n := f.issuer.Registered; n != 2 {
		t.Errorf("%d registrations", n)
	}
}

func newServer(t testing.TB, front func(http.Handler) http.Handler) string {
	t.Helper()
	s := httptest.NewServer(front(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	t.Cleanup(s.Close)
	return s.URL
}
