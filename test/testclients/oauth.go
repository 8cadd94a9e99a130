package testclients

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/secrettest"
)

// An Admission contains the requests and the answers of a client that had to discover how to sign
// in.
type Admission struct {
	Instructions string
	Answers      []Answer // one for each step
	Asked        []string // scopes of each authorization request
}

// Issuer starts oidc-provider on loopback until the test ends, and returns the issuer's URL. The
// issuer grants a client only the scopes that the client registered.
func Issuer(t testing.TB, scopes ...string) string {
	t.Helper()
	return IssuerOf(t, 0, scopes...)
}

// IssuerOf does the same as [Issuer], but the tokens are opaque, so servers look them up. A token
// is valid for life seconds, and each refresh token works once.
func IssuerOf(t testing.TB, life int, scopes ...string) string {
	t.Helper()
	node, addr := findNode(t), local.Addr(t)
	_, port, _ := strings.Cut(addr, ":")
	cmd := exec.CommandContext(t.Context(), node, append([]string{"issuer.mjs", port}, scopes...)...)
	cmd.Dir, cmd.Env = dir(), append(os.Environ(), fmt.Sprintf("LIFE=%d", life), "MARK="+secrettest.Mark())
	return "http://" + serve(t, addr, cmd)
}

// OAuth connects a client in one of the modes to url and takes the steps. The client gets no
// settings but the URL.
func OAuth(t testing.TB, mode, url string, steps ...Step) Admission {
	t.Helper()
	in, err := json.Marshal(map[string]any{"url": url, "mode": mode, "steps": steps})
	require.OK(t, err)
	out, err := run(t, "oauth.mjs", string(in))
	if err != nil {
		t.Fatalf("client in mode %s: %v", mode, err)
	}
	var a Admission
	if err := json.Unmarshal(out, &a); err != nil || len(a.Answers) != len(steps) {
		t.Fatalf("client in mode %s: %v\n%s", mode, err, out)
	}
	return a
}
