package cli

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
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

// The command prints every action of the day, from the running gateway and from its folder.
func TestAuditOfADay(t *testing.T) {
	d := newDay(t)
	d.pass()
	everything := slices.Concat(eventsOfADay, callsOfADay)
	s := newTerminal(t, nil)
	holds := func(where, jsonl string) {
		t.Helper()
		var got []string
		for line := range strings.Lines(jsonl) {
			got = append(got, inShort(require.JSON[audit.Line](t, line)))
		}
		for _, line := range everything {
			if !slices.Contains(got, line) {
				t.Errorf("%s: %q is missing in\n%s", where, line, strings.Join(got, "\n"))
			}
		}
		if n := strings.Count(jsonl, "config_refused"); n != 1 {
			t.Errorf("%s: the refused config is in %d lines", where, n)
		}
		for _, secret := range []string{"swordfish", "pct_"} { // of the refused file; tokens
			if strings.Contains(jsonl, secret) {
				t.Errorf("%s contains %s", where, secret)
			}
		}
	}
	s.env[client.TokenVariable] = d.Admin
	holds("over HTTP", s.must(0, "audit", "--url", d.URL, "-o", "json"))
	ofCI := []string{"audit", "--actor", "token:ci", "--since", "7d", "--kind", "call"}
	calls := s.must(0, append(ofCI, "--url", d.URL+"/mcp")...)
	if strings.Count(calls, "\n") != len(callsOfADay) ||
		!strings.Contains(calls, "call locked pending_approval") {
		t.Errorf("the calls of ci:\n%s", calls)
	}
	s.must(0, "audit", "--url", d.URL, "--until", "2020-01-01", "--since", "")
	s.must(1, "audit", "--dir", d.dir, "--since", "yesterday")
	for _, want := range []string{"no line matches", "is not a time"} {
		if !strings.Contains(s.text.String(), want) {
			t.Errorf("nothing says %q:\n%s", want, s.text.String())
		}
	}
	require.OK(t, d.stop())
	s.env = map[string]string{}
	holds("the folder", s.must(0, "audit", "--dir", d.dir, "-o", "json"))
	out := s.must(0, "audit", "--dir", d.dir, "-o", "csv", "--action", "approve")
	if rows, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(rows) != 2 {
		t.Errorf("%v: %s", err, out)
	}
	for line := range strings.Lines(s.must(0, "audit", "--dir", d.dir)) {
		if strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\n\x1b\u202e") || len(line) < 20 {
			t.Errorf("an unsafe or short line for people: %q", line)
		}
	}
}
