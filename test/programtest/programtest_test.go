package programtest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestMain(m *testing.M) { os.Exit(programtest.Main(m.Run)) }

func TestProgram(t *testing.T) {
	server := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("ping", "Answer a ping.", `{"readOnlyHint":true}`)}})
	dir := t.TempDir()
	config := func(more string) string { return fmt.Sprintf(`{"mcpServers": {"s": {"url": %q%s}}}`, server.URL, more) }
	programtest.WriteConfig(t, dir, config(""))
	p := programtest.Start(t, dir, "--actor", "kim")
	answers := func(want string) {
		t.Helper()
		if got := p.Call("call_tool_read", `{"name": "s:ping"}`); !strings.Contains(got.Text, want) {
			t.Errorf("the call answers %s, want %s", got.Raw, want)
		}
	}
	answers("ping")
	if !strings.HasPrefix(p.Link, p.URL+"/admin/login?code=") {
		t.Errorf("sign-in link %q", p.Link)
	}
	p.Configure(config(`, "disabled_tools": ["ping"]`))
	answers("disabled_by_config")
	url := p.URL
	p.Kill()
	if _, err := http.DefaultTransport.RoundTrip(request(t, url)); err == nil {
		t.Error("the gateway answers after the kill")
	}
	p.Start()
	if p.URL != url {
		t.Errorf("after the restart the gateway is at %s, want %s as before", p.URL, url)
	}
	answers("disabled_by_config")
	p.Stop()
}

func TestTokens(t *testing.T) {
	p := programtest.StartWith(t, programtest.Tokens(), t.TempDir())
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	p.Ask(http.StatusUnauthorized, "/mcp", ping, nil)
	p.Ask(http.StatusOK, "/mcp", ping, nil, "Authorization: Bearer "+p.Token("agent", false))
	if p.Link != "" {
		t.Errorf("the program with tokens prints a sign-in link: %q", p.Link)
	}
}

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
