package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// quiet is an environment in which nothing is read or seen.
func quiet() *environment {
	return &environment{getenv: noEnv, stdin: strings.NewReader(""), stdout: new(strings.Builder), stderr: new(strings.Builder)}
}

func TestFolderIsAskedOrOpened(t *testing.T) {
	_, config := ping(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, config(""))
	open := func() *gateway {
		t.Helper()
		g, err := gatewayFlags{placeFlags{Dir: dir}, "kim"}.open(t.Context(), quiet(), "test")
		require.OK(t, err)
		var page struct{ Tools []any }
		require.OK(t, g.read(t.Context(), "/admin/tools", nil, nil, &page))
		return g
	}
	before := open()
	if before.local == nil {
		t.Errorf("no gateway runs, and %s is asked", before.base)
	}
	before.close()
	p := start(t, dir)
	if g := open(); g.local != nil || g.base != p.URL {
		t.Errorf("the gateway of the folder runs at %s, and %q is asked", p.URL, g.base)
	}
	if info, err := os.Stat(filepath.Join(dir, serveInfoFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	left, err := os.ReadFile(filepath.Join(dir, serveInfoFile))
	require.OK(t, err)
	require.OK(t, p.stop())
	if _, err := os.Stat(filepath.Join(dir, serveInfoFile)); err == nil {
		t.Error("the file outlived the gateway")
	}
	// As after kill -9, with another process that has the number of the one that is gone.
	require.OK(t, os.WriteFile(filepath.Join(dir, serveInfoFile), left, 0o600))
	after := open()
	if after.local == nil {
		t.Errorf("a gateway that was killed is asked at %s", after.base)
	}
	after.close()
	if _, err := os.Stat(filepath.Join(dir, serveInfoFile)); err == nil {
		t.Error("what a killed gateway left was not removed")
	}
}

func TestTwoCommandsTakeTurns(t *testing.T) {
	_, config := ping(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, config(""))
	g, err := gatewayFlags{placeFlags{Dir: dir}, "kim"}.open(t.Context(), quiet(), "test")
	require.OK(t, err)
	time.AfterFunc(300*time.Millisecond, g.close)
	second, err := gatewayFlags{placeFlags{Dir: dir}, "kim"}.open(t.Context(), quiet(), "test")
	require.OK(t, err)
	second.close()
	held, err := bolt.Open(filepath.Join(dir, approvalsFile), nil)
	require.OK(t, err)
	defer held.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := (gatewayFlags{placeFlags{Dir: dir}, "kim"}).open(ctx, quiet(), "test"); err == nil || !strings.Contains(err.Error(), "another process holds the file") {
		t.Errorf("a held file: %v", err)
	}
}

func TestGatewayThatFails(t *testing.T) {
	answers := func(status int, contentType, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cut.Close()
	for name, test := range map[string]struct {
		url  string
		body any
		want string
	}{
		"dead":         {"http://127.0.0.1:1", nil, "no gateway answers at http://127.0.0.1:1: nothing listens there; start it with portcullis serve"},
		"cut off":      {cut.URL, nil, "does not answer"},
		"cut off POST": {cut.URL, 1, "may have carried it out"},
		"no token":     {answers(401, "application/problem+json", `{"detail":"who are you"}`), nil, "does not take the credential (who are you); set PORTCULLIS_TOKEN"},
		"no right":     {answers(403, "application/problem+json", `{"detail":"operators alone"}`), nil, "test: operators alone"},
		"parts":        {answers(422, "application/problem+json", `{"detail":"bad","errors":[{"location":"body.x","message":"missing"}]}`), nil, "bad; body.x missing"},
		"other server": {answers(404, "text/html", `<h1>nginx</h1>`), nil, "does --url name a Portcullis gateway?"},
		"redirect":     {answers(302, "text/html", ``), nil, "answers 302"},
		"no JSON":      {answers(200, "text/html", `<h1>hi</h1>`), nil, "test: the gateway's answer cannot be read"},
		"no JSON POST": {answers(200, "text/html", `<h1>hi</h1>`), 1, "may have carried it out, and its answer cannot be read"},
		"no URL":       {"gate.example.com", nil, "want a URL"},
		"no such host": {"http://nowhere.invalid", nil, "does not answer"},
	} {
		g := &gateway{command: "test", base: test.url, send: overNetwork, bearer: func() (secret.Text, error) { return secret.New("pct_x"), nil }}
		var out any
		if err := g.read(t.Context(), "/admin/tools", nil, test.body, &out); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "pct_x") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestGatewayThatIsSilent(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer s.Close()
	defer close(release)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	require.OK(t, err)
	if _, err := within(50*time.Millisecond, overNetwork, req); err == nil || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("a gateway that is silent: %v", err)
	}
	g := &gateway{command: "test", base: s.URL, send: overNetwork, bearer: func() (secret.Text, error) { return secret.Text{}, nil }}
	for want, body := range map[string]any{"nothing was changed": nil, "look before you repeat it": 1} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := g.read(ctx, "/admin/tools", nil, body, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("interrupted: %v, want %q", err, want)
		}
		cancel()
	}
}

func TestActorOfAGatewayThatRuns(t *testing.T) {
	_, config := ping(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, config(""))
	start(t, dir)
	env := quiet()
	g, err := gatewayFlags{placeFlags{Dir: dir}, "somebody else"}.open(t.Context(), env, "test")
	require.OK(t, err)
	defer g.close()
	if said := env.stderr.(*strings.Builder).String(); !strings.Contains(said, "not --actor") {
		t.Errorf("--actor counts for nothing, and it said %q", said)
	}
}
