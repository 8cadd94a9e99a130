package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A clerk decides about requests of an agent from the command line.
type clerk struct {
	*program
	t     *testing.T
	agent string // header
}

func newClerk(t *testing.T) *clerk {
	t.Helper()
	all := upstreamtest.Fleet(t, map[string][]json.RawMessage{
		"files": {upstreamtest.Tool("get_file", "Read a file.", `{"readOnlyHint":true}`), upstreamtest.Tool("delete_file", "Delete a file.", ""), upstreamtest.Tool("format", "Format.", "")},
		"pay":   {upstreamtest.Tool("send_money", "Send money.", "")},
	}, upstreamtest.Options{})
	dir, settings := t.TempDir(), map[string]string{"files": `, "approval": "manual", "disabled_tools": ["format"]`}
	programtest.WriteConfig(t, dir, servers(all).config(func(name string) string { return settings[name] }, `, "gateway": {"requests": true}, "tools": {"confirm": ["pay:*"]}`))
	access := programtest.Tokens()
	c := &clerk{program: startWith(t, access.Env, dir), t: t}
	c.Admin = access.Admin
	var made struct{ Token string }
	c.Ask(http.StatusCreated, "/admin/tokens", map[string]any{"name": "ci", "servers": []string{"*"}, "tiers": []string{"read", "destructive"}, "days": 1}, &made)
	c.agent = "Authorization: Bearer " + made.Token
	return c
}

// run runs the command "portcullis requests" with arguments.
func (c *clerk) run(args ...string) (out, said string, err error) {
	var stdout, stderr bytes.Buffer
	env := &environment{getenv: bears(c.Admin), stdout: &stdout, stderr: &stderr}
	err = run(c.t.Context(), append(append([]string{"requests"}, args...), "--url", c.URL), env)
	for line := range strings.Lines(stdout.String()) {
		if strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\x1b\u202e\u009b\x00\r") {
			c.t.Errorf("a line with control characters for the terminal: %q", line)
		}
	}
	return stdout.String(), stderr.String(), err
}

// must runs a command that must succeed and print all texts in want, which are separated by |.
func (c *clerk) must(want string, args ...string) string {
	c.t.Helper()
	out, said, err := c.run(args...)
	if err != nil {
		c.t.Fatalf("%q: %v", args, err)
	}
	for w := range strings.SplitSeq(want, "|") {
		if !strings.Contains(out+said, w) {
			c.t.Errorf("%q prints no %q:\n%s%s", args, w, out, said)
		}
	}
	return out
}

// id returns the id of the newest open request.
func (c *clerk) id() string {
	c.t.Helper()
	var list admin.Requests
	if err := json.Unmarshal([]byte(c.must("", "-o", "json")), &list); err != nil || len(list.Requests) == 0 {
		c.t.Fatalf("%v: there is no open request", err)
	}
	return list.Requests[0].ID
}

// hashAfter returns the first digits of the hash that show prints after a text.
func (c *clerk) hashAfter(id, before string) string {
	c.t.Helper()
	_, hash, _ := strings.Cut(c.must(before, "show", id), before)
	return hash[:min(len(hash), 12)]
}

func TestRequestsCommand(t *testing.T) {
	c := newClerk(t)
	c.must("there are no requests")
	call := func(tool string, arguments map[string]any) string {
		return c.Call("call_tool_destructive", map[string]any{"name": tool, "args": arguments}, c.agent).Text
	}
	ask := func(tool, note string) string {
		c.Call("request_access", map[string]any{"names": []string{tool}, "note": note}, c.agent)
		return c.id()
	}
	id := ask("files:delete_file", "\x1b[2Jplease\u202e\u009b\nID  STATE")
	c.must("ID  |"+id+"  open  |token:ci  |files:delete_file  |pending_approval  |please ID STATE", "list")
	c.must("request     "+id+", open|what        files:delete_file (|note        [2Jplease ID STATE|locked      pending_approval", "show", strings.ToLower(id))
	hash := c.hashAfter(id, "files:delete_file (")
	c.must(id+", allowed|allowed by bootstrap|until ", "allow", id, "--for", "8h", "--hash", hash)
	if got := call("files:delete_file", nil); strings.Contains(got, "locked") {
		t.Errorf("the call after allow answers %s", got)
	}
	c.must("there are no requests", "list")
	c.must(id+"  allowed", "list", "--all")
	c.must(id+", revoked", "revoke", id)
	if got := call("files:delete_file", nil); !strings.Contains(got, "pending_approval") {
		t.Errorf("the call after revoke answers %s", got)
	}
	id = ask("files:delete_file", "again")
	if _, _, err := c.run("approve", id, "--hash", strings.Repeat("0", 64)); err == nil || !strings.Contains(err.Error(), "nothing was decided") {
		t.Errorf("another hash: %v", err)
	}
	c.must(id+", approved", "approve", id, "--hash", hash)
	id = ask("files:format", "to try")
	c.must("mcpServers.files.disabled_tools[0]|disabled_by_config", "show", id)
	if _, _, err := c.run("approve", id); err == nil || !strings.Contains(err.Error(), "disabled_tools[0] in mcp_config.json denies it") {
		t.Errorf("approve of a tool that the config denies: %v", err)
	}
	c.must(id+", declined|use get_file", "decline", id, "--reason", "use get_file")
	testConfirmCommand(c, call)
	for want, args := range map[string][]string{
		"want a time":       {"allow", id, "--for", "31d"},
		"no id of a":        {"show", "R-\x1b[2J"},
		"it never existed":  {"show", "R-00000000"},
		"--reason":          {"decline", id},
		"about this reques": {"decline", id, "--reason", "no"},
	} {
		if _, _, err := c.run(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// testConfirmCommand confirms one call.
func testConfirmCommand(c *clerk, call func(tool string, arguments map[string]any) string) {
	c.t.Helper()
	arguments := map[string]any{"to": "kim\u202e", "amount": 5}
	if got := call("pay:send_money", arguments); !strings.Contains(got, "pending_approval") {
		c.t.Fatalf("the unconfirmed call answers %s", got)
	}
	id := c.id()
	c.must("one call of pay:send_money|arguments of the call, hash |\"amount\": 5|kim⟨U+202E⟩", "show", id)
	c.must(id+", confirmed|until ", "confirm", id, "--hash", c.hashAfter(id, "arguments of the call, hash "))
	if got := call("pay:send_money", arguments); strings.Contains(got, "locked") {
		c.t.Errorf("the confirmed call answers %s", got)
	}
	c.must(id+", used|used  ", "show", id)
	if got := call("pay:send_money", arguments); !strings.Contains(got, "pending_approval") {
		c.t.Errorf("the second use of the confirmation answers %s", got)
	}
}

func TestLasting(t *testing.T) {
	for s, want := range map[string]int{
		"90m": 90, "8h": 480, "7d": 10_080, "30d": request.MaxMinutes, "1m": 1,
		"": 0, "m": 0, "8": 0, "0h": 0, "-1h": 0, "31d": 0, "43201m": 0, "1.5h": 0, "8h" + " ": 0, "1w": 0, "99999999999999999999d": 0,
	} {
		got, err := parseLasting(s)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %d minutes, %v, want %d", s, got, err, want)
		}
	}
}
