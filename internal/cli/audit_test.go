package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A day is a gateway at which every audited action has happened once.
type day struct {
	*program
	config string
	token  string // of the agent
}

func newDay(t *testing.T) *day {
	t.Helper()
	all := upstreamtest.Fleet(t, map[string][]json.RawMessage{
		"files": {upstreamtest.Tool("get_file", "Read a file.", `{"readOnlyHint":true}`), upstreamtest.Tool("delete_file", "Delete a file.", "")},
		"web":   {upstreamtest.Tool("fetch", "Fetch a page.", `{"readOnlyHint":true}`)},
	}, upstreamtest.Options{})
	s := servers(all)
	d := &day{config: s.config(func(name string) string { return map[string]string{"web": `, "approval": "manual"`}[name] }, "")}
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, d.config)
	access := programtest.Tokens()
	d.program = startWith(t, access.Env, dir)
	d.Admin = access.Admin
	return d
}

// decide decides about a tool in its current state.
func (d *day) decide(path, action, note string) {
	d.T.Helper()
	var tool struct {
		Hash   string
		Record struct{ Rev int64 }
	}
	d.Ask(http.StatusOK, "/admin/tools/"+path, nil, &tool)
	body := map[string]any{"hash": tool.Hash, "rev": tool.Record.Rev, "note": note}
	if action == "undo" {
		body = map[string]any{"rev": tool.Record.Rev}
	}
	d.Ask(http.StatusOK, "/admin/tools/"+path+"/"+action, body, nil)
}

// pass performs the actions of the day.
func (d *day) pass() {
	d.T.Helper()
	var made struct{ ID, Token string }
	d.Ask(http.StatusCreated, "/admin/tokens", map[string]any{"name": "ci", "servers": []string{"*"}, "tiers": []string{"read"}, "days": 1}, &made)
	d.token = made.Token
	agent := "Authorization: Bearer " + d.token
	d.Call("retrieve_tools", map[string]any{"query": "read a file"}, agent)
	if got := d.Call("call_tool_read", map[string]any{"name": "files:get_file"}, agent); got.IsError {
		d.T.Fatalf("the call fails: %s", got.Raw)
	}
	if got := d.Call("call_tool_read", map[string]any{"name": "web:fetch"}, agent); !strings.Contains(got.Text, "pending_approval") {
		d.T.Fatalf("the call of a waiting tool answers %s", got.Raw)
	}
	d.decide("web/fetch", "approve", `=HYPERLINK("http://x","y")`)
	d.decide("files/delete_file", "block", "too\ndangerous")
	d.decide("files/delete_file", "undo", "")
	d.configure(strings.Replace(d.config, `"mcpServers"`, `"toolsets": {"t": ["files:get_file"]}, "mcpServers"`, 1))
	programtest.WriteConfig(d.T, d.dir, strings.Replace(d.config, `"url"`, `"swordfish"`, 1))
	d.Send("/admin/sync", `{}`)
	d.Ask(http.StatusOK, "/admin/stop", map[string]any{"server": "files", "reason": "it leaks"}, nil)
	if got := d.Call("call_tool_read", map[string]any{"name": "files:get_file"}, agent); !got.IsError {
		d.T.Fatalf("the call of a stopped tool answers %s", got.Raw)
	}
	d.Ask(http.StatusOK, "/admin/stop/undo", map[string]any{"server": "files"}, nil)
	d.Ask(http.StatusOK, "/admin/tokens/"+made.ID+"/revoke", map[string]any{}, nil)
}

// eventsOfADay and callsOfADay are the expected audit lines in short form.
var (
	eventsOfADay = []string{
		"bootstrap token_made token:ci", "bootstrap approve web:fetch", "bootstrap block files:delete_file", "bootstrap undo files:delete_file",
		"config config_taken file:config/mcp_config.json", "config config_refused file:config/mcp_config.json", "bootstrap sync ",
		"bootstrap stop server:files", "bootstrap stop_undone server:files", "bootstrap token_revoked token:ci", "sync baseline files:get_file",
	}
	callsOfADay = []string{
		"token:ci allowed retrieve_tools", "token:ci allowed files:get_file", "token:ci locked web:fetch", "token:ci stopped files:get_file",
	}
)

// inShort returns a line in short form.
func inShort(l audit.Line) string {
	if l.Kind == audit.KindCall {
		return l.Agent + " " + l.Decision + " " + l.Tool
	}
	return l.Actor + " " + l.Action + " " + l.Tool + l.Subject
}

// holds checks that got has all wanted lines, and no text of the refused file.
func holds(t *testing.T, where string, got []string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s: %q is missing in\n%s", where, line, strings.Join(got, "\n"))
		}
	}
	if strings.Contains(strings.Join(got, "\n"), "swordfish") {
		t.Errorf("%s contains text of the refused file", where)
	}
}

func shorts(t *testing.T, jsonl string) (out []string) {
	t.Helper()
	for line := range strings.Lines(jsonl) {
		out = append(out, inShort(require.JSON[audit.Line](t, line)))
	}
	return out
}

func TestAuditOfADay(t *testing.T) {
	d := newDay(t)
	d.pass()
	everything := slices.Concat(eventsOfADay, callsOfADay)

	var page []string
	for _, l := range agenttest.Pages[audit.Line](&d.Client, "audit", "lines", "") {
		page = append(page, inShort(l))
	}
	holds(t, "the API", page, everything...)
	if n := strings.Count(strings.Join(page, "\n"), "config_refused"); n != 1 {
		t.Errorf("the refused config is in %d lines", n)
	}
	jsonl := d.Send("/admin/audit.jsonl", "").Body
	holds(t, "the file", shorts(t, jsonl), everything...)
	if strings.Contains(jsonl, d.token) || strings.Contains(jsonl, "pct_") {
		t.Error("a token is in the audit")
	}
	rows, err := csv.NewReader(strings.NewReader(d.Send("/admin/audit.csv", "").Body)).ReadAll()
	if err != nil || len(rows) != len(page)+1 || !strings.Contains(fmt.Sprint(rows), `'=HYPERLINK("http://x","y")`) {
		t.Errorf("%d rows of %d lines: %v", len(rows)-1, len(page), err)
	}
	html := d.Send("/admin/audit", "", "Accept: text/html").Body
	for _, want := range []string{"token:ci", "locked", "web:fetch", "stopped", "it leaks", "config refused", "too\ndangerous"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not have %q: %s", want, html)
		}
	}

	t.Run("command", func(t *testing.T) { testAuditCommand(t, d) })
	t.Run("files", func(t *testing.T) {
		// Only the item's own audit has its first listing, because a first listing does not change
		// the rights of agents.
		holds(t, "the daily file", verifiedChain(t, filepath.Join(d.dir, "audit")), everything...)
	})
}

// testAuditCommand runs the command against the running gateway, and then on its folder.
func testAuditCommand(t *testing.T, d *day) {
	everything := slices.Concat(eventsOfADay, callsOfADay)
	command := func(env map[string]string, args ...string) (out, said string, err error) {
		var stdout, stderr bytes.Buffer
		err = run(t.Context(), append([]string{"audit"}, args...), &environment{getenv: func(name string) string { return env[name] }, stdout: &stdout, stderr: &stderr})
		return stdout.String(), stderr.String(), err
	}
	key := map[string]string{client.TokenVariable: d.Admin}
	out, _, err := command(key, "--url", d.URL, "-o", "json")
	require.OK(t, err)
	holds(t, "over HTTP", shorts(t, out), everything...)
	if out, _, err = command(key, "--url", d.URL+"/mcp", "--actor", "token:ci", "--since", "7d", "--kind", "call"); err != nil || strings.Count(out, "\n") != len(callsOfADay) || !strings.Contains(out, "call locked pending_approval") {
		t.Errorf("%v:\n%s", err, out)
	}
	if _, said, err := command(key, "--url", d.URL, "--until", "2020-01-01", "--since",
		""); err != nil || !strings.Contains(said, "no line matches") {
		t.Errorf("%v: %s", err, said)
	}
	for name, test := range map[string]struct {
		env  map[string]string
		args []string
		want string
	}{
		"no key":        {nil, []string{"--url", d.URL}, "set PORTCULLIS_TOKEN"},
		"no gateway":    {key, []string{"--url", "http://127.0.0.1:1"}, "no gateway answers at"},
		"no address":    {key, []string{"--url", "nonsense"}, "want a URL"},
		"nothing":       {key, nil, "there is no gateway in \".\""},
		"since":         {key, []string{"--dir", d.dir, "--since", "yesterday"}, "is not a time"},
		"no credential": {nil, []string{"--dir", d.dir}, "does not accept the credential"},
		"no folder":     {nil, []string{"--dir", filepath.Join(d.dir, "none")}, "run portcullis init"},
	} {
		if out, _, err := command(test.env, test.args...); err == nil || !strings.Contains(err.Error(), test.want) || out != "" {
			t.Errorf("%s: %v, want %q; printed %q", name, err, test.want, out)
		}
	}
	require.OK(t, d.stop())
	out, _, err = command(nil, "--dir", d.dir, "-o", "json")
	require.OK(t, err)
	holds(t, "the folder", shorts(t, out), everything...)
	out, _, err = command(nil, "--dir", d.dir, "-o", "csv", "--action", "approve")
	if rows, wrong := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || wrong != nil || len(rows) != 2 {
		t.Errorf("%v, %v: %s", err, wrong, out)
	}
	for line := range strings.Lines(mustPrint(t, command)(nil, "--dir", d.dir)) {
		if strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\n\x1b\u202e") || len(line) < 20 {
			t.Errorf("an unsafe or short line for people: %q", line)
		}
	}
}

func mustPrint(t *testing.T, command func(map[string]string, ...string) (string, string, error)) func(map[string]string, ...string) string {
	return func(env map[string]string, args ...string) string {
		t.Helper()
		out, _, err := command(env, args...)
		require.OK(t, err)
		return out
	}
}

// verifiedChain returns the lines of a folder of daily files in short form. Each line must have the
// hash of the previous one.
func verifiedChain(t *testing.T, dir string) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v", files, err)
	}
	slices.Sort(files)
	prev := strings.Repeat("0", 64)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.OK(t, err)
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSuffix(line, "\n")
			l := require.JSON[audit.Line](t, line)
			if l.Prev != prev {
				t.Fatalf("%s: %s follows %s, not %s", file, line, l.Prev, prev)
			}
			sum := sha256.Sum256([]byte(line))
			prev = hex.EncodeToString(sum[:])
			out = append(out, inShort(l))
		}
	}
	return out
}
