package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// One destructive tool needs the approval of two people, and a policy denies another tool. No
// gateway runs, so the command opens the folder itself.
func TestTwoPeopleSession(t *testing.T) {
	fs := upstreamtest.New(t, upstreamtest.Options{Tools: firstTools()})
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, servers{"fs": fs}.config(each(`, "approval": "manual"`), `, "review": {"four_eyes": "destructive"}`))
	programtest.WritePolicy(t, dir, `@id("no-lists") @reason("lists leak") @contact("#platform") forbid(principal, action, resource == Tool::"fs:list_files");`)
	p := start(t, dir)
	require.OK(t, p.stop())
	s := newTerminal(t, map[string]string{dir: "DIR"})
	do := func(code int, args ...string) string {
		t.Helper()
		return s.must(code, append(args, "--dir", dir, "--actor", "kim")...)
	}
	hash := func(id string) string { return s.hashAt(dir, id) }
	do(0, "tools", "--state", "new")
	do(3, "diff", "fs:delete_file")
	do(1, "approve", "fs:delete_file", "--hash", hash("fs:delete_file"))
	do(1, "approve", "fs:delete_file", "fs:write_file")
	do(1, "approve", "fs:list_files", "--hash", hash("fs:list_files"))
	do(1, "approve", "fs:list_files", "fs:read_file")
	do(0, "approve", "fs:read_file", "--hash", hash("fs:read_file"), "--note", "read it")
	do(0, "stop", "fs", "--reason", "it is slow")
	do(0, "stop")
	do(0, "audit", "--actor", "kim")
	s.check("decide-two")
}

// Text of a server is printed, but its control characters have no effect on a terminal.
func TestTerminalObeysNobody(t *testing.T) {
	const evil = "Read\x1b[2J a file.\u202e\u200b\nKIND  \x9b31m [-all-] \u009b0m\r\x00"
	named := func(extra string) json.RawMessage {
		return upstreamtest.Tool("read", evil+extra, readOnly, "a\x1b[0m", "b\u202e")
	}
	fs := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{named("")}})
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, servers{"fs": fs}.config(each(`, "approval": "on_change"`), ""))
	p := start(t, dir)
	fs.SetTools([]json.RawMessage{named(" And \x1b]0;more\x07.")})
	p.Ask(200, "/admin/sync", `{}`, nil)
	s := newTerminal(t, nil)
	for _, args := range [][]string{{"diff", "fs:read"}, {"diff", "fs:read", "--raw"}, {"diff", "fs:read", "-o", "json"}, {"tools"}, {"tools", "-o", "json"}, {"approve", "fs:read"}} {
		s.run(append(args, "--dir", dir)...)
	}
	out := s.text.String()
	if i := strings.IndexFunc(out, func(r rune) bool {
		return r != '\n' && (r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x202e || r == 0x200b)
	}); i >= 0 {
		t.Errorf("a terminal obeys %q", out[max(0, i-40):min(len(out), i+20)])
	}
	for _, want := range []string{"⟨U+001B⟩", `\u001b`, "hold signs such as {+"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not contain %q:\n%s", want, out)
		}
	}
}

func TestNearestNames(t *testing.T) {
	names := []string{"fs:read_file", "fs:write_file", "docs:read_file", "fs:resource:file:///a", "tickets:assign"}
	for want, near := range map[string]string{
		"fs:read_fil": "fs:read_file", "fs:reed_file": "fs:read_file", "FS:read_file": "docs:read_file fs:read_file",
		"x:read_file": "docs:read_file fs:read_file", "nothing:at_all": "", "fs:resource:file:///b": "fs:resource:file:///a", "a:b": "",
	} {
		got := nearest(want, names)
		// the most similar one first
		if want == "FS:read_file" || want == "fs:reed_file" || want == "fs:read_fil" {
			got = got[:min(len(got), len(strings.Fields(near)))]
		}
		if strings.Join(got, " ") != near {
			t.Errorf("near %s: %q, want %q", want, got, near)
		}
	}
}
