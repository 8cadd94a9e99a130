package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/internal/cli/tokenfile"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/relay"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A faultyGateway only publishes metadata, which a test chooses.
type faultyGateway struct {
	*httptest.Server
	mu       sync.Mutex
	resource string // "": the gateway's own
	issuer   string
}

func newFaultyGateway(t *testing.T, issuer string) *faultyGateway {
	g := &faultyGateway{issuer: issuer}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		resource := g.resource
		if resource == "" {
			resource = g.URL + "/mcp"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"resource": resource, "authorization_servers": []string{g.issuer},
		})
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *faultyGateway) set(resource, issuer string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resource, g.issuer = resource, issuer
}

// A signInClock is a clock of a test.
type signInClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *signInClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *signInClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// signInAt returns the sign-in at a gateway. Its state folder is below home.
func signInAt(
	t *testing.T, address, home string, browse func(context.Context, string) error,
) (*gatewaySignIn, *signInClock) {
	t.Helper()
	env := &environment{
		getenv: func(name string) string { return map[string]string{"XDG_STATE_HOME": home}[name] },
		stderr: &local.Buffer{}, browse: browse,
	}
	ctx, cancel := context.WithCancel(t.Context())
	s, err := newGatewaySignIn(ctx, env, stdioCmd{}, address, slog.New(slog.DiscardHandler))
	require.OK(t, err)
	c := &signInClock{now: time.Now()}
	s.now = c.Now
	t.Cleanup(func() {
		cancel()
		s.running.Wait()
	})
	return s, c
}

// refuse reports a refusal of the gateway with status 401. It returns the text for the agent.
func refuse(t *testing.T, s *gatewaySignIn, token string) string {
	t.Helper()
	h := http.Header{"Www-Authenticate": {fmt.Sprintf("Bearer resource_metadata=%q",
		strings.TrimSuffix(s.server.URL, "/mcp")+"/.well-known/oauth-protected-resource/mcp")}}
	got, err := s.Refused(t.Context(), secret.New(token), http.StatusUnauthorized, h)
	e, ok := errors.AsType[*relay.SignInError](err)
	if !ok {
		t.Fatalf("Refused = %q, %v", got.Reveal(), err)
	}
	return e.Text(t.Context())
}

// agree is a browser whose person agrees to everything.
func agree(t *testing.T) func(context.Context, string) error {
	return func(_ context.Context, address string) error {
		go agreeAt(t, address)
		return nil
	}
}

// decline is a browser whose person declines.
func decline(t *testing.T) func(context.Context, string) error {
	return func(_ context.Context, address string) error {
		u, err := url.Parse(address)
		require.OK(t, err)
		back := url.Values{
			"error": {"access_denied"}, "state": u.Query()["state"], "iss": {"http://" + u.Host},
		}
		go agreeAt(t, u.Query().Get("redirect_uri")+"?"+back.Encode())
		return nil
	}
}

// A failingSignIn is a sign-in at the test issuer that fails. The last text is the reason.
type failingSignIn struct {
	habits   issuertest.Habits
	metadata string // the resource in the gateway's metadata; "": the gateway
	isDown   bool   // no issuer answers
	isLocked bool   // the state folder cannot be written
	leaves   bool   // the person never comes back
	browse   func(*testing.T) func(context.Context, string) error
	want     string
}

var failingSignIns = map[string]failingSignIn{
	"no registration": {
		habits: issuertest.Habits{NoRegistration: true},
		want: "the issuer ADDRESS does not register clients automatically: register Portcullis " +
			"there with the redirect URI http://ADDRESS/callback, and start portcullis stdio " +
			"with its --client-id",
	},
	"issuer down": {isDown: true, want: "ADDRESS does not answer"},
	"metadata of another gateway": {
		metadata: "https://victim.example/mcp",
		want:     "the server's metadata describe another resource",
	},
	"no PKCE": {
		habits: issuertest.Habits{
			Metadata: map[string]any{"code_challenge_methods_supported": nil},
		},
		want: "the issuer ADDRESS does not support PKCE with S256, so a stolen authorization " +
			"code could be used",
	},
	"answer of another issuer": {
		habits: issuertest.Habits{OtherIss: true}, browse: agree,
		want: "the callback comes from another issuer than ADDRESS",
	},
	"answer without issuer": {
		habits: issuertest.Habits{NoIss: true}, browse: agree,
		want: "the callback does not name its issuer, but ADDRESS always does",
	},
	"declined":          {browse: decline, want: "the sign-in at ADDRESS was declined"},
	"nobody comes back": {leaves: true, want: "nobody came back from ADDRESS in time"},
	"no folder": {
		isLocked: true,
		want: "the folder HOME/portcullis cannot be written: your user makes it writable, or " +
			"sets XDG_STATE_HOME to another folder",
	},
}

// A failed sign-in says what happened, and who does what next.
func TestStdioSignInFaults(t *testing.T) {
	for name, tt := range failingSignIns {
		t.Run(name, func(t *testing.T) {
			i := issuertest.New(t, tt.habits)
			g, home := newFaultyGateway(t, i.URL), t.TempDir()
			g.set(tt.metadata, i.URL)
			if tt.isDown {
				g.set("", "http://"+local.Addr(t))
			}
			var browse func(context.Context, string) error
			if tt.browse != nil {
				browse = tt.browse(t)
			}
			s, _ := signInAt(t, g.URL+"/mcp", home, browse)
			if tt.leaves {
				s.patience = 0
			}
			if tt.isLocked { // the mode of a folder does not stop root
				lock := "sign-in-" + s.pendingKey().ID + ".lock"
				require.OK(t, os.MkdirAll(filepath.Join(s.dir, lock), 0o700))
			}
			refuse(t, s, "")
			s.running.Wait()
			got := strings.ReplaceAll(refuse(t, s, ""), home, "HOME")
			got = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(got, "ADDRESS")
			want := "The sign-in at gateway ADDRESS failed: " + tt.want +
				". The request was not carried out. " + callAgain
			if got != want {
				t.Errorf("text %q, want %q", got, want)
			}
			if token, err := s.Token(t.Context()); err != nil || token.Reveal() != "" {
				t.Errorf("after a failed sign-in: a token, or %v", err)
			}
		})
	}
}

// A token never goes over a network in clear.
func TestStdioSignInNeedsHTTPS(t *testing.T) {
	s, _ := signInAt(t, "http://gateway.example/mcp", t.TempDir(), nil)
	const want = "The sign-in at gateway gateway.example failed: the URL begins with http://, " +
		"and a token would go over the network in clear. The request was not carried out. Your " +
		"user starts the command with an https URL."
	if got := refuse(t, s, ""); got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

// A gateway elsewhere cannot make the command send requests to services of this machine.
func TestIssuerClientStaysAway(t *testing.T) {
	i := issuertest.New(t, issuertest.Habits{})
	for isLocal, want := range map[bool]bool{true: true, false: false} {
		body := strings.NewReader(`{"redirect_uris":["x"]}`)
		at := i.URL + "/register"
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, body)
		require.OK(t, err)
		resp, err := issuerClient{isLocal: isLocal}.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != want {
			t.Errorf("gateway on this machine %t: %v", isLocal, err)
		}
	}
	if i.Registered != 1 {
		t.Errorf("%d requests came", i.Registered)
	}
}

// An agent that repeats its call does not open one window after another.
func TestStdioSignInPauses(t *testing.T) {
	i := issuertest.New(t, issuertest.Habits{})
	opened := 0
	var at string
	browse := func(_ context.Context, address string) error {
		opened, at = opened+1, address
		return errors.New("no display")
	}
	s, clock := signInAt(t, newFaultyGateway(t, i.URL).URL+"/mcp", t.TempDir(), browse)
	s.patience = 0
	refuse(t, s, "")
	s.running.Wait()
	for range 3 {
		refuse(t, s, "")
	}
	if opened != 1 {
		t.Errorf("%d windows, want 1", opened)
	}
	s.patience = time.Hour
	clock.advance(afterPerson)
	agreeAt(t, addressIn(t, refuse(t, s, "")))
	s.running.Wait()
	if at == "" || opened != 2 ||
		!strings.Contains(s.env.stderr.(*local.Buffer).String(), "open the address yourself") {
		t.Errorf("%d windows, log %s", opened, s.env.stderr)
	}
	// the issuer's token is of no use: another sign-in would not help
	token, err := s.Token(t.Context())
	require.OK(t, err)
	i.NoRefresh = true
	i.EndAll()
	text := refuse(t, s, token.Reveal())
	if !strings.Contains(text, "refuses the token that its own issuer gave") {
		t.Errorf("a new token is refused: %s", text)
	}
}

// Another issuer of the same gateway gets no sign-in before the person has agreed by a sign-out. A
// lost key or a damaged file costs only a new sign-in.
func TestStdioSignInAfterChanges(t *testing.T) {
	first, second := issuertest.New(t, issuertest.Habits{}), issuertest.New(t, issuertest.Habits{})
	g, home := newFaultyGateway(t, first.URL), t.TempDir()
	signIn := func() string { // in a new process
		s, _ := signInAt(t, g.URL+"/mcp", home, agree(t))
		before, err := s.Token(t.Context())
		require.OK(t, err)
		refuse(t, s, before.Reveal())
		s.running.Wait()
		token, err := s.Token(t.Context())
		require.OK(t, err)
		if token.Reveal() == "" {
			return refuse(t, s, "")
		}
		return "signed in"
	}
	state := filepath.Join(home, "portcullis")
	for _, step := range []struct {
		name   string
		before func()
		want   string
	}{
		{"first", func() {}, "signed in"},
		{"damaged file", func() {
			require.OK(t, os.WriteFile(filepath.Join(state, tokenfile.Name), []byte("{"), 0o600))
		}, "signed in"},
		{"lost key", func() {
			require.OK(t, os.Remove(filepath.Join(state, folder.VaultFile)))
		}, "signed in"},
		{"another issuer", func() {
			first.EndAll()
			g.set("", second.URL)
		}, "and is now " + strings.TrimPrefix(second.URL, "http://") + ": if the gateway's " +
			"operator announced this, your user runs portcullis stdio --url " + g.URL + "/mcp " +
			"--sign-out, and then signs in again"},
		{"after the sign-out", func() {
			s, _ := signInAt(t, g.URL+"/mcp", home, nil)
			was, _, err := s.service.SignOut(t.Context(), s.server, "ada")
			if err != nil || !was {
				t.Errorf("sign-out: %t, %v", was, err)
			}
		}, "signed in"},
	} {
		step.before()
		if got := signIn(); !strings.Contains(got, step.want) {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
	if second.Registered != 1 {
		t.Errorf("the second issuer registered %d clients", second.Registered)
	}
}

// The folder follows the specification of XDG.
func TestStateFolder(t *testing.T) {
	for value, want := range map[string]string{
		"/state": "/state/portcullis", "relative": "", "": "",
	} {
		got, err := stateFolder(func(string) string { return value })
		require.OK(t, err)
		if want != "" && got != want || !filepath.IsAbs(got) || filepath.Base(got) != "portcullis" {
			t.Errorf("XDG_STATE_HOME=%q: %s", value, got)
		}
	}
}

// The client is the configured one, or the gateway's own document.
func TestStdioSignInClient(t *testing.T) {
	i := issuertest.New(t, issuertest.Habits{NoRegistration: true})
	s, _ := signInAt(t, newFaultyGateway(t, i.URL).URL+"/mcp", t.TempDir(), nil)
	s.server.Settings.ClientID = "mine"
	address := addressIn(t, refuse(t, s, ""))
	u, err := url.Parse(address)
	require.OK(t, err)
	i.AddClient("mine", u.Query().Get("redirect_uri"))
	agreeAt(t, address)
	s.running.Wait()
	if token, err := s.Token(t.Context()); err != nil || token.Reveal() == "" {
		t.Errorf("with a configured client: token %q, %v", token.Reveal(), err)
	}

	const (
		id  = "https://gateway.example/.well-known/oauth-client.json"
		own = `{"client_id":"` + id + `"}`
	)
	for _, tt := range []struct{ name, url, clientID, document, want string }{
		{"published", "https://gateway.example/mcp/readonly", "", own, id},
		{"not published", "https://gateway.example/mcp", "", "", ""},
		{"of another client", "https://gateway.example/mcp", "", `{"client_id":"x"}`, ""},
		{"client configured", "https://gateway.example/mcp", "mine", own, ""},
		{"issuers cannot read it", "http://127.0.0.1:8080/mcp", "", own, ""},
	} {
		s, _ := signInAt(t, tt.url, t.TempDir(), nil)
		s.server.Settings.ClientID, s.http = tt.clientID, documentAt{id: tt.document}
		if got := s.document(t.Context()); got != tt.want {
			t.Errorf("%s: document %q, want %q", tt.name, got, tt.want)
		}
	}
}

// documentAt serves documents by their addresses.
type documentAt map[string]string

func (d documentAt) Do(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if body := d[req.URL.String()]; body != "" {
		_, _ = w.WriteString(body)
	} else {
		w.WriteHeader(http.StatusNotFound)
	}
	return w.Result(), nil
}
