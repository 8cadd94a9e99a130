package testclients

import (
	"bufio"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/secrettest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// Clients start portcullis stdio in front of a gateway that accepts only tokens of oidc-provider.
// Before the sign-in each client gets the tool sign_in and the address, and after it the gateway's
// own tools.
func TestSignInOnStdio(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{
		upstreamtest.Tool("read_file", "Read a file.", `{"readOnlyHint":true}`, "path"),
	}})
	folder, addr, state := t.TempDir(), local.Addr(t), t.TempDir()
	programtest.WriteConfig(
		t,
		folder,
		`{"mcpServers": {"files": {"url": "`+s.URL+`", "approval": "off"}}}`,
	)
	scopes := []string{"portcullis:read", "portcullis:write", "portcullis:destructive"}
	p := programtest.StartWith(t, programtest.Access{Env: map[string]string{
		"PORTCULLIS_AUTH": "jwt", "PORTCULLIS_ISSUER": Issuer(t, scopes...),
		"PORTCULLIS_AUDIENCE": "http://" + addr + "/mcp", "PORTCULLIS_ALGORITHMS": "RS256",
		"PORTCULLIS_DEFAULT_SERVERS": "*", "PORTCULLIS_ADMIN_GROUP": "gatekeepers",
	}}, folder, "--addr", addr)
	// a client passes on only some variables of its environment
	command := []string{
		"env", "XDG_STATE_HOME=" + state,
		programtest.Build(t), "stdio", "--url", p.URL, "--no-browser",
	}
	clients := Clients
	if lanes != "full" {
		clients = []Client{Clients[0], Clients[5]}
	}
	list, signIn := Step{Method: "tools/list"}, call("sign_in", `{}`)
	read := call("call_tool_read", `{"name":"files:read_file","args":{"path":"/x"}}`)
	for _, c := range clients {
		got := c.Take(t, Endpoint{Command: command}, "", list, signIn)
		tools, address := string(got.Answers[0].Result), string(got.Answers[1].Result)
		if strings.Count(tools, `"inputSchema"`) != 1 || !strings.Contains(tools, `"sign_in"`) ||
			!strings.Contains(address, "The address: http://127.0.0.1:") {
			t.Errorf("%s before the sign-in: %s, %s", c.Name, tools, address)
		}
	}
	signInAtTerminal(t, command)
	for _, c := range clients {
		got := c.Take(t, Endpoint{Command: command}, "", list, read)
		if tools := string(got.Answers[0].Result); !strings.Contains(tools, `"retrieve_tools"`) ||
			strings.Contains(tools, `"sign_in"`) || got.Answers[1].Error != nil ||
			!strings.Contains(string(got.Answers[1].Result), "read_file") {
			t.Errorf("%s after the sign-in: %s, %+v", c.Name, tools, got.Answers[1])
		}
	}
	if n := len(s.Calls()); n != len(clients) {
		t.Errorf("%d calls reached the server, want %d", n, len(clients))
	}
	secrettest.AbsentBelow(t, state)
}

// signInAtTerminal signs in with the command, and pastes the address of the callback.
func signInAtTerminal(t *testing.T, command []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], "--sign-in")...)
	cmd.Env = os.Environ()
	in, err := cmd.StdinPipe()
	require.OK(t, err)
	screen, err := cmd.StderrPipe()
	require.OK(t, err)
	out := &local.Buffer{}
	cmd.Stdout = out
	require.OK(t, cmd.Start())
	lines := bufio.NewScanner(screen)
	for lines.Scan() && !strings.Contains(lines.Text(), "://") {
	}
	address := strings.TrimSpace(lines.Text())
	u, err := url.Parse(address)
	require.OK(t, err)
	callback := u.Query().Get("redirect_uri")
	query := openIssuer(t, address, callback, "kim")
	_, err = in.Write([]byte(callback + "?" + query + "\n"))
	require.OK(t, err)
	rest := ""
	for lines.Scan() {
		rest += lines.Text()
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "signed in at gateway ") {
		t.Fatalf("%v: %s%s", err, out, rest)
	}
	secrettest.Absent(t, "the terminal", out.String()+rest)
}
