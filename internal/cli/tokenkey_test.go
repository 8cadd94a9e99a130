package cli

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The command replaces the key in the folder, twice. The output names the tokens before they become
// invalid.
func TestTokenRotate(t *testing.T) {
	_, config := ping(t)
	dir, root := t.TempDir(), token.New()
	programtest.WriteConfig(t, dir, config(""))
	env := map[string]string{"PORTCULLIS_AUTH": "token", "PORTCULLIS_BOOTSTRAP_SHA256": token.Digest(root)}
	var said string
	do := func(fails bool, args ...string) string {
		t.Helper()
		var out, errors bytes.Buffer
		err := run(t.Context(), args, &environment{getenv: func(name string) string {
			return map[string]string{client.TokenVariable: root.Reveal(), "PORTCULLIS_AUTH": "token", "PORTCULLIS_BOOTSTRAP_SHA256": token.Digest(root)}[name]
		}, stdout: &out, stderr: &errors})
		if said = errors.String(); err != nil {
			said += err.Error()
		}
		if (err != nil) != fails {
			t.Fatalf("%v: %v\n%s%s", args, err, out.String(), said)
		}
		return out.String()
	}
	taken := func(p *program, text string) bool {
		return p.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization: Bearer "+text).Status != http.StatusUnauthorized
	}

	p := startWith(t, env, dir)
	text := strings.TrimSpace(do(false, "token", "make", "--name", "ci", "--servers", "s", "--url", p.URL))
	if !taken(p, text) {
		t.Error("the gateway refuses the token before the rotation")
	}
	if out := do(false, "token", "rotate", "--dir", dir); !strings.Contains(out, "1 live token is now under the previous one") {
		t.Errorf("rotate says %s", out)
	}
	if do(true, "token", "rotate", "--dir", dir); !strings.Contains(said, "nothing was done: ") {
		t.Errorf("a second rotation directly after the first: %s", said)
	}
	require.OK(t, p.stop())
	info, err := os.Stat(filepath.Join(dir, folder.TokenFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}

	env["PORTCULLIS_TOKEN_PREVIOUS_DAYS"] = "7"
	p = startWith(t, env, dir)
	if !taken(p, text) {
		t.Error("a token from before the rotation is refused")
	}
	if out := do(false, "doctor", "--dir", dir); !strings.Contains(out, "tokens_end: 1 agent token\n") || strings.Contains(out, "tokens_void") {
		t.Errorf("doctor does not say that the token ends in 7 days:\n%s", out)
	}
	if list := do(false, "token", "--url", p.URL); !strings.Contains(list, "previous") || !strings.Contains(said, "1 live token is under the previous key") {
		t.Errorf("the list does not say that it is under the previous key: %s%s", list, said)
	}
	if do(true, "token", "rotate", "--dir", dir); !strings.Contains(said, "nothing was done: 1 live token is still under the previous key") {
		t.Errorf("a second rotation: %s", said)
	}
	if do(true, "token", "rotate", "--url", p.URL); !strings.Contains(said, "docs/operate.md") {
		t.Errorf("a gateway elsewhere: %s", said)
	}
	do(false, "token", "rotate", "--dir", dir, "--force")
	require.OK(t, p.stop())

	p = startWith(t, env, dir)
	if taken(p, text) {
		t.Error("the gateway accepts a token of two keys ago")
	}
	if list := do(false, "token", "--url", p.URL); !strings.Contains(list, token.Void) || !strings.Contains(said, "1 token is void") {
		t.Errorf("the list does not say that it is void: %s%s", list, said)
	}
	if out := do(false, "doctor", "--dir", dir); !strings.Contains(out, "tokens_void: 1 agent token\n") || strings.Contains(out, "tokens_end") {
		t.Errorf("doctor does not say that the token is void:\n%s", out)
	}
	require.OK(t, p.stop())
	require.OK(t, os.WriteFile(filepath.Join(dir, folder.TokenFile), []byte("short\n"), 0o600))
	if do(true, "token", "--dir", dir); !strings.Contains(said, folder.TokenFile+": the key of agent tokens has 5 bytes") || !strings.Contains(said, "all agent tokens are invalid") {
		t.Errorf("token list with a damaged key: %s", said)
	}
	if out := do(true, "doctor", "--dir", dir); !strings.Contains(out, folder.TokenFile) || strings.Contains(out, "doctor: ") {
		t.Errorf("doctor with a damaged key:\n%s", out)
	}
}
