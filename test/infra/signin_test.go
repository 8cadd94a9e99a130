package infra

import (
	"encoding/json"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// checkSignIn adds a second server and signs in to it at the deployed functions. The functions find
// the key by its alias, and share the connection. At the end, the config has only the first server
// again.
func (s *stack) checkSignIn(mail string) {
	s.t.Helper()
	var key struct {
		KeyMetadata struct{ Enabled bool }
	}
	kms := awsjson.New(emulator.Config(s.endpoint), "kms")
	require.OK(
		s.t,
		kms.Call(
			s.t.Context(),
			"TrentService.DescribeKey",
			map[string]string{"KeyId": "alias/" + s.name + "-sign-in"},
			&key,
		),
	)
	if !key.KeyMetadata.Enabled {
		s.t.Error("the key is not enabled")
	}
	issuer := issuertest.New(s.t, issuertest.Habits{OtherSite: true})
	tool := upstreamtest.Tool("get_file", "Read a file.", `{"readOnlyHint":true}`)
	files := upstreamtest.New(s.t, upstreamtest.Options{
		Front: issuer.Front("read"), Tools: []json.RawMessage{tool},
	})
	dir := s.folder(mail)
	path := filepath.Join(dir, "config", "mcp_config.json")
	data, err := os.ReadFile(path)
	require.OK(s.t, err)
	both := strings.Replace(string(data), `"mail":`, `"files":{"url":"`+files.URL+`"},"mail":`, 1)
	require.OK(s.t, os.WriteFile(path, []byte(both), 0o600))
	s.make("push-config", "DIR="+dir, "BUCKET="+s.outputs["BucketName"])
	var server struct {
		Outcome struct{ Reason string }
	}
	local.Until(s.t, "the server demands a sign-in", func() bool {
		a := s.Send("/admin/servers/files", "")
		_ = json.Unmarshal([]byte(a.Body), &server)
		return server.Outcome.Reason == "sign_in_required"
	})
	s.t.Run("browser", func(t *testing.T) { s.signInAndOut(t, issuer) })
	s.make("push-config", "DIR="+s.folder(mail), "BUCKET="+s.outputs["BucketName"])
	local.Until(s.t, "the first config is in use again", func() bool { return s.synced() == 2 })
}

// signInAndOut signs in to the server in a browser at the console of the stack, and signs out. The
// admin function does that, and the mcp function serves the calls.
func (s *stack) signInAndOut(t *testing.T, issuer *issuertest.Issuer) {
	console, err := url.Parse(s.URL)
	require.OK(t, err)
	browsertest.Serve(t, console.Host, &httputil.ReverseProxy{
		Transport: s, Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Host = r.In.Host },
	})
	tab := browsertest.Open(t, s.URL, issuer.URL)
	tab.Forgive(`status 401 of .*/admin/servers/files`)
	tab.Goto("/admin/servers/files")
	tab.Fill(`input[name=key]`, s.Admin)
	tab.Loads("the token", func() { tab.Click("main button") })
	tab.SeeText("main", "Sign-in required.")
	tab.Shot("stack-1-required")
	tab.Loads("the button", func() { tab.ClickText("main button", "Sign in") })
	tab.SeeText("main", strings.TrimPrefix(issuer.URL, "http://"))
	tab.Shot("stack-2-issuer")
	tab.ClickText("main a", "Continue at")
	tab.SeeText("h1", "Signed in to files")
	if at := tab.Location(); !strings.HasPrefix(at, s.URL+"/admin/sign-in/callback?") {
		t.Error("the issuer sent the browser to another address")
	}
	tab.Shot("stack-3-signed-in")
	local.Until(t, "the sync function loads the server", func() bool { return s.synced() == 3 })
	tab.Loads("the server", func() { tab.ClickText("main a", "Continue") })
	if text := tab.Text("main"); !strings.Contains(text, "signed in") ||
		strings.Contains(text, "Sign-in required") {
		t.Errorf("after the sign-in the page of the server says %s", text)
	}
	tab.Shot("stack-4-server")
	agent := s.client(t.Context())
	defer agent.Close()
	call := map[string]any{"name": "files:get_file", "args": map[string]any{}}
	if text, refused := s.call(agent, "call_tool_read", call); refused || text != "get_file" {
		t.Errorf("a call of the server answers %s", text)
	}
	tab.Loads("the button", func() { tab.ClickText("main button", "Disconnect") })
	tab.SeeText(".message", "deleted here and revoked at the issuer")
	tab.Shot("stack-5-disconnected")
	if text, refused := s.call(agent, "call_tool_read", call); !refused ||
		!strings.Contains(text, "not carried out") {
		t.Errorf("after the sign-out a call answers %s", text)
	}
}
