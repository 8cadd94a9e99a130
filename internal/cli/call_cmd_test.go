package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// An operator calls tools, on a folder and at a running gateway, and finds the calls in the audit.
func TestCallSession(t *testing.T) {
	web := upstreamtest.New(
		t,
		upstreamtest.Options{Tools: rawTools("read_page", "send_mail", "wipe")},
	)
	dir := t.TempDir()
	programtest.WriteConfig(
		t,
		dir,
		`{"mcpServers": {"web": {"url": "`+web.URL+`", "approval": "off",
		"disabled_tools": ["wipe"]}}, "tools": {"confirm": ["web:send_mail"]}}`,
	)
	s := newTerminal(t, map[string]string{dir: "gate", osUser(): "ada"})
	s.must(0, "sync", "--dir", dir)
	s.must(0, "call", "web:read_page", "--dir", dir, "--actor", "kim")
	p := start(t, dir, "--actor", "sam")
	s.must(0, "call", "web:read_page", "--args", `{"n": 9007199254740993}`, "--dir", dir)
	s.stdin = `{"from": "stdin"}`
	s.must(0, "call", "web:read_page", "--args", "-", "--dir", dir, "-o", "json")
	s.must(1, "call", "web:send_mail", "--dir", dir, "-o", "json")
	id := regexp.MustCompile(`R-[0-9A-Z]{8}`).FindString(s.text.String())
	s.typed, s.stdin = true, "y\n"
	s.must(0, "requests", "confirm", id, "--dir", dir)
	s.typed = false
	s.must(0, "call", "web:send_mail", "--dir", dir)
	s.must(1, "call", "web:send_mail", "--dir", dir)
	s.must(1, "call", "web:wipe", "--dir", dir)
	s.must(1, "call", "web:none", "--dir", dir)
	s.must(1, "call", "web:read_page", "--args", "[1]", "--dir", dir)
	s.must(1, "call", "web:read_page", "--args", `{"a": 1, "a": 2}`, "--dir", dir)
	s.must(0, "audit", "--kind", "call", "--dir", dir)
	require.OK(t, p.stop())
	s.check("call")
	var args []string
	for _, r := range web.Calls() {
		args = append(args, string(r.Params))
	}
	if got := strings.Join(args, " "); !strings.Contains(got, "9007199254740993") ||
		!strings.Contains(got, "stdin") {
		t.Errorf("the server got %s", got)
	}
}

// The result of a tool cannot control the terminal.
func TestCallResultIsPrintable(t *testing.T) {
	var r callResult
	require.OK(
		t,
		json.Unmarshal([]byte(`{"content": [{"type": "text", "text": "a\tb\u001b[2J\r\nc"},
		{"type": "image", "mimeType": "image/png\u0007", "data": "AAAA"},
		{"type": "resource_link", "uri": "file:///a"},
		{"type": "resource", "resource": {"uri": "file:///b", "text": "of b"}}]}`), &r),
	)
	var out bytes.Buffer
	r.show(&out)
	const want = "a    b\\u001b[2J\nc\n[image, image/png, 4 bytes of base64]\n" +
		"[resource_link file:///a]\nof b\n"
	if out.String() != want {
		t.Errorf("the terminal shows %q, want %q", out.String(), want)
	}
}

// audit -f prints the last lines, the oldest first, and each new line once.
func TestAuditFollow(t *testing.T) {
	_, config := ping(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, config(""))
	p := start(t, dir)
	p.Ask(200, "/admin/sync", `{}`, nil)
	for range tailLines + 3 {
		p.Call("call_tool_read", `{"name":"s:ping","args":{}}`)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := &local.Buffer{}, make(chan error)
	go func() {
		ended <- run(ctx, []string{"audit", "-f", "--dir", dir, "-o", "json"}, &environment{
			getenv: noEnv, stdout: out, stderr: out, look: time.Millisecond,
		})
	}()
	count := func() int { return strings.Count(out.String(), "\n") }
	local.Until(t, "the last lines are printed", func() bool { return count() >= tailLines })
	for n := range 3 {
		p.Call("call_tool_read", `{"name":"s:missing","args":{}}`)
		local.Until(t, "the new line is printed", func() bool { return count() > tailLines+n })
	}
	cancel()
	require.OK(t, <-ended)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != tailLines+3 {
		t.Errorf("%d lines are printed, want %d:\n%s", len(lines), tailLines+3, out.String())
	}
	for n, line := range lines {
		if isNew := strings.Contains(line, "s:missing"); isNew != (n >= tailLines) {
			t.Errorf("line %d is %s", n, line)
		}
	}
	require.OK(t, p.stop())
	s := newTerminal(t, nil)
	s.must(1, "audit", "-f", "--dir", dir) // no gateway runs
	s.must(1, "audit", "-f", "-o", "csv", "--dir", dir)
}
