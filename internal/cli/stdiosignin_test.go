package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/tokenfile"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/secrettest"
	"github.com/portcullis-mcp/portcullis/test/testclients"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A signInWorld is a gateway with an issuer, and the folder in which portcullis stdio keeps its
// sign-ins.
type signInWorld struct {
	t      *testing.T
	issuer *issuertest.Issuer
	url    string // of the gateway
	state  string
	env    map[string]string
}

func newSignInWorld(t *testing.T, h issuertest.Habits) *signInWorld {
	t.Helper()
	w := &signInWorld{t: t, issuer: issuertest.New(t, h), state: t.TempDir()}
	w.url = upstreamtest.New(t, upstreamtest.Options{
		Tools: []json.RawMessage{
			upstreamtest.Tool("echo", "Says it again.", `{"readOnlyHint":true}`, "text"),
		},
		Front: w.issuer.Front("read"),
	}).URL
	w.env = map[string]string{"XDG_STATE_HOME": w.state}
	return w
}

func (w *signInWorld) getenv(name string) string { return w.env[name] }

// A stdioClient is a client of the SDK, connected to portcullis stdio in this process.
type stdioClient struct {
	*mcp.ClientSession
	log     *local.Buffer
	changed chan struct{} // gets a value for each notification about tools
	end     func() error
}

// connect starts portcullis stdio as a client does.
func (w *signInWorld) connect(
	browse func(context.Context, string) error,
	args ...string,
) *stdioClient {
	w.t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &stdioClient{log: &local.Buffer{}, changed: make(chan struct{}, 9)}
	ended := make(chan error, 1)
	env := &environment{getenv: w.getenv, stdin: inR, stdout: outW, stderr: c.log, browse: browse}
	go func() {
		ended <- run(w.t.Context(), append([]string{"stdio", "--url", w.url}, args...), env)
		_ = outW.Close()
	}()
	sdk := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			c.changed <- struct{}{}
		},
	})
	session, err := sdk.Connect(w.t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW}, nil)
	require.OK(w.t, err)
	c.ClientSession = session
	c.end = sync.OnceValue(func() error {
		_ = session.Close()
		_ = inW.Close()
		return <-ended
	})
	w.t.Cleanup(func() {
		if err := c.end(); err != nil {
			w.t.Errorf("stdio ended with %v", err)
		}
		secrettest.Absent(w.t, "the log", c.log.String())
	})
	return c
}

// text calls a tool and returns its first text.
func (c *stdioClient) text(t *testing.T, tool string) (text string, isError bool) {
	t.Helper()
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
	require.OK(t, err)
	return r.Content[0].(*mcp.TextContent).Text, r.IsError
}

// names returns the names of the listed tools.
func (c *stdioClient) names(t *testing.T) string {
	t.Helper()
	r, err := c.ListTools(t.Context(), nil)
	require.OK(t, err)
	var names []string
	for _, tool := range r.Tools {
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

// addressIn returns the address in a text for an agent.
func addressIn(t *testing.T, text string) string {
	t.Helper()
	_, address, ok := strings.Cut(text, "The address: ")
	if _, err := url.Parse(address); !ok || err != nil {
		t.Fatalf("no address in %q", text)
	}
	return address
}

// agreeAt is a person who opens an address and agrees to everything.
func agreeAt(t *testing.T, address string) (page string) {
	t.Helper()
	resp, err := http.Get(address)
	require.OK(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.OK(t, err)
	return string(body)
}

// While nobody is signed in, the client gets answers, and calls return the address. After the
// sign-in the client learns of the new tools. The next process uses the stored token.
func TestStdioSignIn(t *testing.T) {
	w := newSignInWorld(t, issuertest.Habits{})
	c := w.connect(nil)
	if got := c.InitializeResult(); !strings.Contains(got.Instructions, "Call the tool sign_in") ||
		got.ServerInfo.Name != "portcullis" {
		t.Errorf("handshake %+v", got)
	}
	if got := c.names(t); got != "sign_in" {
		t.Errorf("tools %q before the sign-in", got)
	}
	text, isError := c.text(t, "echo")
	if !isError || !strings.Contains(text, "The request was not carried out.") {
		t.Errorf("call answers %q, error %t", text, isError)
	}
	address := addressIn(t, text)
	if text, isError = c.text(t, "sign_in"); isError || addressIn(t, text) != address {
		t.Errorf("sign_in answers %q, error %t", text, isError)
	}
	if !strings.Contains(c.log.String(), address) {
		t.Errorf("the log lacks the address: %s", c.log)
	}
	if _, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "x:y"}); err == nil ||
		!strings.Contains(err.Error(), address) {
		t.Errorf("a resource: %v", err)
	}

	if page := agreeAt(t, address); !strings.Contains(
		page,
		"You are signed in at the gateway 127.0.0.1",
	) {
		t.Errorf("page %s", page)
	}
	<-c.changed
	if text, isError = c.text(t, "sign_in"); isError ||
		!strings.Contains(text, "List the tools again") {
		t.Errorf("sign_in answers %q after the sign-in", text)
	}
	if got := c.names(t); got != "echo" {
		t.Errorf("tools %q after the sign-in", got)
	}
	if text, isError = c.text(t, "echo"); isError {
		t.Errorf("call answers %q", text)
	}
	require.OK(t, c.end())

	next := w.connect(nil)
	if got := next.names(t); got != "echo" || w.issuer.Count(&w.issuer.Registered) != 1 {
		t.Errorf("the next process lists %q", got)
	}
	asked := w.issuer.Asked[0]
	if asked.Get("resource") != w.url || asked.Get("code_challenge_method") != "S256" {
		t.Errorf("authorization request %v", asked)
	}
	secrettest.AbsentBelow(t, w.state)
	path := filepath.Join(w.state, "portcullis", tokenfile.Name)
	info, err := os.Stat(path)
	require.OK(t, err)
	data, err := os.ReadFile(path)
	require.OK(t, err)
	if info.Mode().Perm() != 0o600 || !strings.Contains(string(data), w.url) {
		t.Errorf("mode %v of %s", info.Mode(), data)
	}
}

// call calls the tool echo until it succeeds, as an agent does whose user signs in meanwhile.
func (c *stdioClient) call(t *testing.T) {
	t.Helper()
	var text string
	local.Until(t, "a call after the sign-in", func() bool {
		var isError bool
		text, isError = c.text(t, "echo")
		return !isError
	})
	if strings.Contains(text, "sign-in") {
		t.Errorf("call answers %q", text)
	}
}

// The command renews a token that the gateway refuses, without a person. If the issuer refuses the
// renewal, a person signs in again, and the client's session goes on.
func TestStdioSignInEnds(t *testing.T) {
	w := newSignInWorld(t, issuertest.Habits{})
	c := w.connect(browseTo(t))
	c.call(t)
	w.issuer.EndAccess()
	if text, isError := c.text(t, "echo"); isError {
		t.Errorf("with an expired token a call answers %q", text)
	}
	if n := len(w.issuer.Asked); n != 1 || w.issuer.Count(&w.issuer.Refreshed) != 1 {
		t.Errorf("%d sign-ins, %d renewals", n, w.issuer.Refreshed)
	}
	require.OK(t, c.end())
	c = w.connect(nil)
	w.issuer.EndAll()
	text, isError := c.text(t, "echo")
	if !isError {
		t.Fatalf("after the end of the sign-in a call answers %q", text)
	}
	if got := c.names(t); got != "sign_in" {
		t.Errorf("tools %q after the end of the sign-in", got)
	}
	agreeAt(t, addressIn(t, text))
	c.call(t)
}

// Two processes of one gateway show the same address, and share the sign-in and each renewal.
func TestStdioSignInTwice(t *testing.T) {
	w := newSignInWorld(t, issuertest.Habits{})
	one, two := w.connect(nil), w.connect(nil)
	text, _ := one.text(t, "sign_in")
	other, _ := two.text(t, "sign_in")
	address := addressIn(t, text)
	if addressIn(t, other) != address {
		t.Errorf("two addresses: %q and %q", text, other)
	}
	agreeAt(t, address)
	one.call(t)
	two.call(t)
	for range 2 {
		w.issuer.EndAccess()
		var calls sync.WaitGroup
		for _, c := range []*stdioClient{one, two, one, two} {
			calls.Go(func() {
				if text, isError := c.text(t, "echo"); isError {
					t.Errorf("call answers %q", text)
				}
			})
		}
		calls.Wait()
	}
	i := w.issuer
	if i.Count(&i.Refreshed) != 2 || i.Count(&i.Reused) != 0 || i.Count(&i.Registered) != 1 ||
		len(i.Asked) != 1 {
		t.Errorf(
			"%d renewals, %d reused tokens, %d clients, %d sign-ins",
			i.Refreshed,
			i.Reused,
			i.Registered,
			len(i.Asked),
		)
	}
}

// A call that needs another scope asks the person for it, in front of a real gateway. If the issuer
// does not grant the scope, the gateway's own refusal reaches the client.
func TestStdioStepUp(t *testing.T) {
	t.Parallel()
	for _, granted := range []bool{true, false} {
		g := startGuarded(t, "search", map[string]string{"PORTCULLIS_SIGN_IN_SCOPES": "read"})
		if g.issuer.Grant("portcullis:read"); granted {
			g.issuer.Grant("portcullis:read", "portcullis:destructive")
		}
		w := &signInWorld{t: t, url: g.URL, env: map[string]string{"XDG_STATE_HOME": t.TempDir()}}
		c := w.connect(browseTo(t))
		var answer string
		local.Until(t, "the call", func() bool {
			r, err := c.CallTool(t.Context(), &mcp.CallToolParams{
				Name: "call_tool_destructive",
				Arguments: map[string]any{
					"name": "files:delete_file",
					"args": map[string]any{"path": "/x"},
				},
			})
			if answer = fmt.Sprint(err); err == nil {
				answer = r.Content[0].(*mcp.TextContent).Text
			}
			return !strings.Contains(answer, "sign-in")
		})
		want, calls := "It needs the scope portcullis:destructive.", 0
		if granted {
			want, calls = "delete_file", 1
		}
		if n := len(g.files.Calls()); n != calls || !strings.Contains(answer, want) {
			t.Errorf("granted %t: %d calls reached the server, answer %s", granted, n, answer)
		}
		if asked := g.issuer.Asked(); len(asked) != 2 || asked[0] != "portcullis:read" ||
			!strings.Contains(asked[1], "portcullis:destructive") {
			t.Errorf("granted %t: scopes asked for: %q", granted, asked)
		}
	}
}

// A person signs in and out at a terminal, and the command in a client uses the sign-in.
func TestStdioSignInSession(t *testing.T) {
	w := newSignInWorld(t, issuertest.Habits{})
	s := newTerminal(t, map[string]string{w.state: "STATE", w.url: "GATEWAY"})
	s.env = w.env
	s.browse = browseTo(t)
	s.must(0, "stdio", "--url", w.url, "--sign-out")
	s.must(0, "stdio", "--url", w.url, "--sign-in")
	w.connect(nil).call(t)
	s.must(0, "stdio", "--url", w.url, "--sign-out")
	if n := w.issuer.Count(&w.issuer.Revoked); n != 1 {
		t.Errorf("the issuer revoked %d tokens", n)
	}
	waiting := w.connect(nil)
	if got := waiting.names(t); got != "sign_in" {
		t.Errorf("tools %q after the sign-out", got)
	}
	s.stdin = "http://127.0.0.1:1/callback?code=x&state=forged\n"
	s.must(1, "stdio", "--url", w.url, "--sign-in", "--no-browser")
	s.stdin = "nonsense\n"
	s.must(1, "stdio", "--url", w.url, "--sign-in", "--no-browser")
	s.must(0, "stdio", "--url", w.url, "--sign-in") // the waiting command notices it
	<-waiting.changed
	waiting.call(t)
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer tokens.Close()
	s.must(1, "stdio", "--url", tokens.URL, "--sign-in")
	s.must(2, "stdio", "--sign-out")
	s.must(2, "stdio", "--url", w.url, "--sign-in", "--sign-out")
	s.check("stdio-sign-in")
}

// With a credential nobody signs in, and no file is written.
func TestStdioCredential(t *testing.T) {
	for _, tt := range []struct {
		name, token string
		args        []string
		want        string
	}{
		{"PORTCULLIS_TOKEN", "t0ken", nil, "The gateway refused the credential in " +
			"PORTCULLIS_TOKEN"},
		{"header", "", []string{"--header", "Authorization: Bearer t0ken"}, "The gateway " +
			"requires a credential"},
	} {
		w := newSignInWorld(t, issuertest.Habits{})
		w.env[client.TokenVariable] = tt.token
		var out, log local.Buffer
		err := run(t.Context(), append([]string{"stdio", "--url", w.url}, tt.args...), &environment{
			getenv: w.getenv, stdout: &out, stderr: &log,
			stdin: strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"),
		})
		files, _ := os.ReadDir(w.state)
		if err != nil || !strings.Contains(out.String(), tt.want) || len(files) > 0 ||
			len(w.issuer.Asked) > 0 {
			t.Errorf("%s: %v, answer %s, files %v", tt.name, err, &out, files)
		}
	}
}

// The issuer oidc-provider grants a client only the scopes that it registered.
func TestStdioStrictIssuer(t *testing.T) {
	t.Parallel()
	all := []string{"portcullis:read", "portcullis:write", "portcullis:destructive"}
	g := startGuarded(t, "search", map[string]string{
		"PORTCULLIS_SIGN_IN_SCOPES": "read", "PORTCULLIS_ISSUER": testclients.Issuer(t, all...),
	})
	w := &signInWorld{t: t, url: g.URL, env: map[string]string{"XDG_STATE_HOME": t.TempDir()}}
	c := w.connect(func(_ context.Context, address string) error {
		jar, err := cookiejar.New(nil)
		go func() {
			if resp, err := (&http.Client{Jar: jar}).Get(address); err != nil ||
				resp.StatusCode != http.StatusOK {
				t.Errorf("browser: %v, %v", resp, err)
			}
		}()
		return err
	})
	for _, tt := range []struct{ variant, tool string }{
		{"call_tool_read", "files:read_file"}, {"call_tool_destructive", "files:delete_file"},
	} {
		local.Until(t, tt.tool, func() bool {
			r, err := c.CallTool(t.Context(), &mcp.CallToolParams{
				Name:      tt.variant,
				Arguments: map[string]any{"name": tt.tool, "args": map[string]any{"path": "/x"}},
			})
			return err == nil && !r.IsError
		})
	}
	if n := len(g.files.Calls()); n != 2 {
		t.Errorf("%d calls reached the server, want 2", n)
	}
}
