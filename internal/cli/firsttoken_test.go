package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A gateway accepts only agent tokens, but has no admin token. Its banner and the doctor report
// this, and print the command that creates the first admin token. That command works.
func TestFirstToken(t *testing.T) {
	_, config := ping(t)
	dir, s := t.TempDir(), newTerminal(t, nil)
	programtest.WriteConfig(t, dir, config(""))
	s.env["PORTCULLIS_AUTH"] = "token"
	found := func() (run string) {
		out, _ := s.run("doctor", "--dir", dir, "-o", "json")
		for _, f := range require.JSON[examination](t, out).Findings {
			if f.Code == noAdminCode {
				run = f.Run
			}
		}
		return run
	}
	line := found()
	p := startWith(t, s.env, dir)
	out := p.out.String()
	if strings.Contains(out, "portcullis is ready") || !strings.Contains(out, noAdmin) || !strings.Contains(out, line) || line == "" {
		t.Errorf("without an admin's token, and the line %q:\n%s", line, out)
	}
	s.env = map[string]string{} // the doctor's environment differs from the gateway's
	if got := found(); got != line {
		t.Errorf("while the gateway runs the doctor says %q, want %q", got, line)
	}
	require.OK(t, p.stop())

	setting, words, _ := strings.Cut(line, " ")
	s.env["PORTCULLIS_AUTH"] = strings.TrimPrefix(setting, "PORTCULLIS_AUTH=")
	_, words, _ = strings.Cut(words, "token make")
	made := s.must(0, append([]string{"token", "make"}, strings.Fields(words)...)...)
	p = startWith(t, s.env, dir)
	if out := p.out.String(); !strings.Contains(out, "portcullis is ready") || strings.Contains(out, noAdmin) {
		t.Errorf("with an admin's token:\n%s", out)
	}
	p.Admin = strings.TrimSpace(made)
	p.Ask(http.StatusOK, "/admin/health", nil, nil)
	if got := found(); got != "" {
		t.Errorf("with an admin's token the doctor says %q", got)
	}
	require.OK(t, p.stop())
	s.must(0, "token", "revoke", "admin", "--dir", dir)
	if got := found(); got != line {
		t.Errorf("after the token was revoked the doctor says %q, want %q", got, line)
	}
}
