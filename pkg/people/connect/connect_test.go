package connect_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// endpoints are the gateways of the golden files.
var endpoints = []struct {
	name string
	e    connect.Endpoint
}{
	{"a laptop", connect.Endpoint{URL: "http://127.0.0.1:8080/mcp", Auth: connect.None}},
	{"tokens, one toolset", connect.Endpoint{URL: "https://gate.example.com/prod/mcp/x/triage", Auth: connect.Bearer}},
	{"an issuer", connect.Endpoint{URL: "https://gate.example.com/mcp", Auth: connect.OAuth}},
	{"signatures", connect.Endpoint{URL: "https://gate.example.com/mcp", Auth: connect.Signed}},
	{"tokens in a network, other names", connect.Endpoint{URL: "http://10.0.0.7:8080/mcp", Auth: connect.Bearer, Name: "gate-2", Variable: "GATE_TOKEN"}},
}

// Each guide has the links, commands and files that the client's documentation gave on the day that
// the guide names.
func TestGuides(t *testing.T) {
	for _, c := range connect.Clients() {
		var b strings.Builder
		fmt.Fprintf(&b, "%s\n%s, checked %s, run: %q\n", c.Name, c.Docs, c.Checked, c.Run)
		for _, tt := range endpoints {
			g, err := connect.For(c.ID, tt.e)
			require.OK(t, err)
			fmt.Fprintf(&b, "\n== %s: %s\n", tt.name, tt.e.URL)
			for _, part := range [][2]string{{"link", g.Link}, {"label", g.Label}, {"command", g.Command}, {"after", g.After}, {"steps", g.Steps}} {
				if part[1] != "" {
					fmt.Fprintf(&b, "%s: %s\n", part[0], part[1])
				}
			}
			for _, f := range g.Files {
				fmt.Fprintf(&b, "-- %s (%s) %s\n%s", f.Path, f.Windows, f.When, f.Text)
			}
			for _, trap := range g.Traps {
				fmt.Fprintf(&b, "* %s\n", trap)
			}
		}
		golden.Check(t, "testdata/"+c.ID+".txt", b.String())
	}
}

func TestClients(t *testing.T) {
	clients := connect.Clients()
	if len(clients) != 7 {
		t.Errorf("%d clients, want 7", len(clients))
	}
	for _, c := range clients {
		checked, err := time.Parse(time.DateOnly, c.Checked)
		if u, err := url.Parse(c.Docs); err != nil || u.Scheme != "https" {
			t.Errorf("%s: documented at %q", c.ID, c.Docs)
		}
		if err != nil || checked.Year() < 2026 {
			t.Errorf("%s: checked on %q", c.ID, c.Checked)
		}
	}
	if _, err := connect.For("emacs", connect.Endpoint{URL: "https://gate.example.com/mcp"}); err == nil {
		t.Error("For returns a guide for an unknown client")
	}
}

func TestForRefuses(t *testing.T) {
	for name, e := range map[string]connect.Endpoint{
		"no address":       {},
		"a file":           {URL: "file:///bin/sh"},
		"a script":         {URL: "javascript:alert(1)"},
		"no host":          {URL: "https:///mcp"},
		"a password":       {URL: "https://kim:secret@gate.example.com/mcp"},
		"a line break":     {URL: "https://gate.example.com/mcp\nx"},
		"TOML as a name":   {URL: "https://gate.example.com/mcp", Name: "a]\n[b"},
		"a flag as a name": {URL: "https://gate.example.com/mcp", Name: "-s"},
		"a shell command":  {URL: "https://gate.example.com/mcp", Variable: "PCT}$(id)"},
		"an unknown auth":  {URL: "https://gate.example.com/mcp", Auth: "password"},
	} {
		for _, c := range connect.Clients() {
			if g, err := connect.For(c.ID, e); err == nil {
				t.Errorf("%s, %s: %+v", name, c.ID, g)
			}
		}
	}
}

// hostile is an address with every character that a shell, a link or a file could interpret.
const hostile = `https://gate.example.com/mcp/x/it's%20$(touch%20pwned)` + "`id`" + `;"|&<>*?q=a+b/c==&x=%22%5C{}[]!~é`

// Each command and file contains exactly the address, even a hostile one. For links see TestLinks.
func TestHostileAddress(t *testing.T) {
	u, err := url.Parse(hostile)
	require.OK(t, err)
	want := u.String()
	for _, c := range connect.Clients() {
		g, err := connect.For(c.ID, connect.Endpoint{URL: hostile, Auth: connect.Bearer})
		require.OK(t, err)
		if g.Command != "" {
			words := words(t, g.Command)
			found := false
			for _, w := range words {
				found = found || w == want || strings.HasPrefix(w, "{") && holds(t, w, want)
			}
			if !found {
				t.Errorf("%s: a shell reads the command as %q, without the address", c.ID, words)
			}
		}
		for _, f := range g.Files {
			if strings.HasSuffix(f.Path, ".toml") {
				line := strings.SplitN(f.Text, "\n", 3)[1]
				if !holds(t, `{"url":`+strings.TrimPrefix(line, "url = ")+`}`, want) {
					t.Errorf("%s: %s", f.Path, f.Text)
				}
			} else if !holds(t, f.Text, want) {
				t.Errorf("%s of %s: %s", f.Path, c.ID, f.Text)
			}
		}
	}
}

// holds reports whether some string in a JSON text is want.
func holds(t *testing.T, text, want string) bool {
	t.Helper()
	var v any
	require.OK(t, json.Unmarshal([]byte(text), &v))
	var in func(any) bool
	in = func(v any) bool {
		switch v := v.(type) {
		case string:
			return v == want
		case []any:
			for _, x := range v {
				if in(x) {
					return true
				}
			}
		case map[string]any:
			for _, x := range v {
				if in(x) {
					return true
				}
			}
		}
		return false
	}
	return in(v)
}

// words returns the words into which a shell splits a command line.
func words(t *testing.T, command string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `show() { printf '%s\0' "$@"; }; show `+command).Output()
	require.OK(t, err)
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func TestExport(t *testing.T) {
	for _, value := range []string{"pct_aZ09-_", `'; id; '`, "$(id)", "a b", "", "~", "-n"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", connect.Export("PCT", value)+`; printf %s "$PCT"`).Output()
		if err != nil || string(out) != value {
			t.Errorf("%q: %q, %v", value, out, err)
		}
	}
}

// The links contain the same entry as the file, in the form that the clients document. A link for
// Cursor has a name, and the entry in Base64. A link for VS Code has the entry with its name and
// inputs as percent-encoded JSON. VS Code decodes the query once more than a browser does, so the
// link must not encode a blank as a plus.
func TestLinks(t *testing.T) {
	type object = map[string]any
	decode := func(text string) (out object) {
		require.OK(t, json.Unmarshal([]byte(text), &out))
		return out
	}
	for _, address := range []string{"https://gate.example.com/mcp", hostile} {
		for id, prefix := range map[string]string{
			"cursor": "cursor://anysphere.cursor-deeplink/mcp/install?name=portcullis&config=",
			"vscode": "vscode:mcp/install?",
		} {
			g, err := connect.For(id, connect.Endpoint{URL: address, Auth: connect.Bearer})
			require.OK(t, err)
			query, ok := strings.CutPrefix(g.Link, prefix)
			text, err := url.PathUnescape(query)
			require.OK(t, err)
			if !ok || strings.Contains(query, "+") {
				t.Errorf("link %s", g.Link)
			}
			var want object
			if id == "cursor" {
				config, err := base64.StdEncoding.DecodeString(text)
				require.OK(t, err)
				want = object{"mcpServers": object{"portcullis": decode(string(config))}}
			} else {
				entry := decode(text)
				name, inputs := entry["name"].(string), entry["inputs"]
				delete(entry, "name")
				delete(entry, "inputs")
				want = object{"inputs": inputs, "servers": object{name: entry}}
			}
			if diff := cmp.Diff(want, decode(g.Files[0].Text)); diff != "" {
				t.Errorf("%s: link and file (-link +file):\n%s", id, diff)
			}
		}
	}
}

// Links, commands and files that people may share have no place for a token, only the name of a
// variable.
func TestNoPlaceForTokens(t *testing.T) {
	for _, c := range connect.Clients() {
		g, err := connect.For(c.ID, connect.Endpoint{URL: "https://gate.example.com/mcp", Auth: connect.Bearer})
		require.OK(t, err)
		shared := []string{g.Link, g.Command}
		for _, f := range g.Files {
			if c.ID != "claude" { // Claude Desktop can read the token only from its file
				shared = append(shared, f.Text)
			}
		}
		for _, text := range shared {
			if decoded, err := url.QueryUnescape(text); err == nil {
				text += decoded
			}
			if strings.Contains(text, "pct_") {
				t.Errorf("%s: %s", c.ID, text)
			}
		}
	}
}

// The guide of claude.ai says why it cannot reach an address.
func TestReach(t *testing.T) {
	const loopback, private, public = "on your own machine", "in a private network", "only by https"
	for address, want := range map[string]string{
		"http://127.0.0.1:8080/mcp": loopback, "http://localhost:8080/mcp": loopback,
		"http://[::1]:8080/mcp": loopback, "http://10.1.2.3/mcp": private,
		"http://192.168.0.2/mcp": private, "http://gate/mcp": private,
		"https://gate.internal/mcp": private, "http://[fe80::1]/mcp": private,
		"http://gate.example.com/mcp": public, "http://203.0.113.7/mcp": public,
		"https://gate.example.com/mcp": "", "https://203.0.113.7/mcp": "",
	} {
		g, err := connect.For("claude", connect.Endpoint{URL: address})
		require.OK(t, err)
		if why := strings.Join(g.Traps, "\n"); !strings.Contains(why, want) || want == "" && g.Link == "" {
			t.Errorf("%s: %s, want %s", address, why, want)
		}
	}
}

// docs/clients.md has the same documentation page, day and version for each client as the guides.
// The tests in test/testclients install that version.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/clients.md")
	require.OK(t, err)
	pins, err := os.ReadFile("../../../test/testclients/agents/package.json")
	require.OK(t, err)
	for _, c := range connect.Clients() {
		version := c.Run[strings.LastIndex(c.Run, " ")+1:]
		if row := regexp.MustCompile(`(?m)^\|[^|]*\| ` + c.Checked + ` \| [^|]*` + regexp.QuoteMeta(c.Docs) + `[^|]*\| (.*) \|$`).FindStringSubmatch(string(page)); row == nil || !strings.Contains(row[1], version) {
			t.Errorf("%s: the row is %q", c.Name, row)
		}
		if version != "" && !strings.Contains(string(pins), `": "`+version+`"`) {
			t.Errorf("%s: the pinned version is not %s", c.Name, version)
		}
	}
}
