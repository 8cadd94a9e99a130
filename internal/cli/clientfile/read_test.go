package clientfile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/clientfile"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// machine returns a machine whose user has every client, with the servers in the clients'
// documentation.
func machine(vars map[string]string) clientfile.Machine {
	return clientfile.Machine{OS: "linux", Dir: filepath.Join("testdata", "project"), Getenv: func(name string) string {
		if name == "HOME" {
			home, err := filepath.Abs(filepath.Join("testdata", "home"))
			if err != nil {
				panic(err)
			}
			return home
		}
		return vars[name]
	}}
}

// read returns the collected servers of all files of a client.
func read(t *testing.T, id string, c clientfile.Choice) []*clientfile.Server {
	t.Helper()
	client, ok := clientfile.Find(id)
	if !ok {
		t.Fatalf("no client %q", id)
	}
	m := machine(nil)
	own, project, err := m.Files(client)
	require.OK(t, err)
	home, err := m.Home()
	require.OK(t, err)
	var files []*clientfile.File
	for _, p := range append(own, project...) {
		data, err := os.ReadFile(p)
		if os.IsNotExist(err) {
			continue
		}
		require.OK(t, err)
		rel := strings.Replace(p, home, "testdata/home", 1)
		f, err := clientfile.Read(rel, data, clientfile.Options{Getenv: m.Getenv, Home: "/home/kim", Foreign: !m.IsOwn(p)})
		require.OK(t, err)
		files = append(files, f)
	}
	servers, err := clientfile.Collect(files, c)
	require.OK(t, err)
	return servers
}

// madeUp matches every credential of the files.
var madeUp = regexp.MustCompile(`(?i)made-?up|hunter2`)

// describe returns all facts about collected servers, and their config.
func describe(t *testing.T, servers []*clientfile.Server) string {
	t.Helper()
	var b strings.Builder
	entries := map[string]json.RawMessage{}
	for _, s := range servers {
		fmt.Fprintf(&b, "%s (%s) %s\n", s.Name, s.Place, s.How)
		if s.Left != "" {
			fmt.Fprintf(&b, "  left out: %s\n", s.Left)
			continue
		}
		for _, n := range s.Notes {
			fmt.Fprintf(&b, "  %s\n", n)
		}
		for _, c := range s.Checks {
			fmt.Fprintf(&b, "  check %s: %s\n", c.ID, c.Why)
		}
		for _, v := range s.Variables {
			fmt.Fprintf(&b, "  $%s: %s, %s\n", v.Name, v.Place, v.Why)
		}
		entries[s.Name] = s.Entry()
	}
	whole, err := json.Marshal(map[string]any{"mcpServers": entries})
	require.OK(t, err)
	if _, err := config.Parse(whole); err != nil {
		t.Errorf("the gateway refuses the resulting config: %v", err)
	}
	if found := madeUp.FindString(b.String() + string(whole)); found != "" {
		t.Errorf("the output contains the credential %s", found)
	}
	var pretty bytes.Buffer
	require.OK(t, json.Indent(&pretty, whole, "", "  "))
	return b.String() + "\n" + pretty.String() + "\n"
}

// The files of each client, with the servers in its documentation.
func TestReadEachClient(t *testing.T) {
	for _, c := range clientfile.Clients() {
		t.Run(c.ID, func(t *testing.T) {
			golden.Check(t, filepath.Join("testdata", c.ID+".txt"), describe(t, read(t, c.ID, clientfile.Choice{})))
		})
	}
}

// Each fault of a file has its line.
func TestFaults(t *testing.T) {
	for name, tt := range map[string]struct{ path, text, want string }{
		"nothing":           {"a.json", " \n", "a.json:1: is empty"},
		"not closed":        {"a.json", "{\n  \"mcpServers\": {\n    \"a\": {\"url\": \"x\"}\n", "a.json:4: not JSON, at column 1: "},
		"a missing comma":   {"a.json", "{\n  \"a\": 1\n  \"b\": 2\n}", "a.json:3: not JSON, at column 3: "},
		"a duplicate name":  {"a.json", "{\"mcpServers\": {\n  \"a\": {},\n  // c\n  \"a\": {}\n}}", `a.json:4: "a" is here a second time; the first is in line 2`},
		"a list":            {"a.json", "[]", "a.json:1: is not a JSON object"},
		"servers in a list": {"a.json", "{\n\"mcpServers\": []}", "a.json:2: mcpServers is no object"},
		"too deep":          {"a.json", strings.Repeat("[", 10_000), "a.json: is nested too deeply"},
		"deep in comments":  {"a.json", strings.Repeat("[/*]*/ //]\n", 10_000), "a.json: is nested too deeply"},
		"deep TOML":         {"a.toml", "a = " + strings.Repeat("[#]\n", 20_000), "a.toml:10001: not TOML: "},
		"broken TOML":       {"a.toml", "a = 1\nb = \n", "a.toml:2: not TOML: "},
		"a table twice":     {"a.toml", "[mcp_servers.a]\nurl = 'x'\n[mcp_servers.a]\nurl = 'y'\n", "a.toml:3: not TOML: "},
		"no table":          {"a.toml", "[mcp_servers]\na = 1\n", "a.toml:2: mcp_servers.a is no table"},
	} {
		if _, err := clientfile.Read(tt.path, []byte(tt.text), clientfile.Options{}); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

func gather(t *testing.T, c clientfile.Choice, texts ...string) ([]*clientfile.Server, error) {
	t.Helper()
	var files []*clientfile.File
	for i, text := range texts {
		f, err := clientfile.Read(fmt.Sprintf("%c.json", 'a'+i), []byte(`{"mcpServers": {`+text+`}}`), clientfile.Options{})
		require.OK(t, err)
		files = append(files, f)
	}
	return clientfile.Collect(files, c)
}

func named(servers []*clientfile.Server) (out []string) {
	for _, s := range servers {
		name := s.Name
		if s.Left != "" {
			name += " (" + s.Left + ")"
		}
		out = append(out, name)
	}
	return out
}

func TestGather(t *testing.T) {
	const one, other = `"gh": {"url": "https://one.example.com/mcp"}`, `"GH": {"url": "https://other.example.com/mcp"}`
	for name, tt := range map[string]struct {
		choice clientfile.Choice
		files  []string
		want   string
	}{
		"alike":       {clientfile.Choice{}, []string{one, one}, "gh"},
		"they clash":  {clientfile.Choice{}, []string{one, other}, "gh GH (a.json:1 has another server of this name, so this server was left out: import its file again with --only GH --as GH=NEW)"},
		"a new name":  {clientfile.Choice{As: map[string]string{"GH": "work"}}, []string{one, other}, "gh work"},
		"one of two":  {clientfile.Choice{Only: []string{"GH"}}, []string{one, other}, "GH"},
		"all but":     {clientfile.Choice{Skip: []string{"gh"}}, []string{one, other}, "GH"},
		"a typo":      {clientfile.Choice{Only: []string{"hg"}}, []string{one}, `no file has a server "hg"`},
		"disabled":    {clientfile.Choice{}, []string{one, strings.Replace(one, "}", `, "disabled": true}`, 1)}, "gh gh (a.json:1 has another server of this name, so this server was left out: import its file again with --only gh --as gh=NEW)"},
		"in one file": {clientfile.Choice{As: map[string]string{"GH": "gh"}}, []string{one + "," + other}, "gh gh (a.json:1 has another server of this name, so this server was left out: give one of the two another name in that file, or write the entry by hand)"},
	} {
		servers, err := gather(t, tt.choice, tt.files...)
		got := strings.Join(named(servers), " ")
		if err != nil {
			got = err.Error()
		}
		if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// Each variable has exactly one credential.
func TestVariables(t *testing.T) {
	program := func(name, value string) string {
		return `"` + name + `": {"command": "x", "env": {"API_KEY": "` + value + `"}}`
	}
	servers, err := gather(t, clientfile.Choice{Used: map[string][]string{"OTHER": {"there"}}},
		program("a", "${API_KEY:-none}")+","+program("b", "secret-1")+","+program("c", "secret-1")+","+program("d", "secret-2")+
			`,"e": {"url": "https://e.example.com/mcp", "headers": {"X-Api-Key": "secret-3"}}`+
			`,"f": {"command": "x", "env": {"OTHER": "${OTHER}", "OTHER_TOKEN": "secret-4"}}`)
	require.OK(t, err)
	if note := "the default value of API_KEY is not imported"; servers[0].Notes[0] != note {
		t.Errorf("the notes do not report the default: %v", servers[0].Notes)
	}
	var got []string
	for _, s := range servers {
		for _, v := range s.Variables {
			got = append(got, s.Name+"="+v.Name)
		}
	}
	if want := "a=API_KEY b=B_API_KEY c=C_API_KEY d=D_API_KEY e=E_API_KEY f=OTHER f=OTHER_TOKEN"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %s", got, want)
	}
}

func FuzzReadJSON(f *testing.F) {
	fuzz(f, "a.json", "testdata/home/.cursor/mcp.json", "testdata/project/.vscode/mcp.json")
}

func FuzzReadTOML(f *testing.F) { fuzz(f, "a.toml", "testdata/home/.codex/config.toml") }

// Read returns the servers of a file, or an error. The gateway accepts the resulting config. Remove
// can remove an entry that Merge added.
func fuzz(f *testing.F, path string, seeds ...string) {
	for _, s := range seeds {
		data, err := os.ReadFile(s)
		require.OK(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"mcpServers": {"a": {"url": "https://u:p@h/mcp?key=v#f", "headers": {"A": "${B:-c}"}}}}`))
	f.Add([]byte("mcp_servers = { a = { command = 'x', args = ['--token', 'y'] } }"))
	entry := map[string]string{"a.json": addition, "a.toml": "[mcpServers.gate]\nurl = \"https://gate.example.com/mcp\"\n"}[path]
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := clientfile.Read(path, data, clientfile.Options{})
		if err != nil {
			return
		}
		servers, err := clientfile.Collect([]*clientfile.File{file}, clientfile.Choice{})
		require.OK(t, err)
		for _, s := range servers {
			if s.Left == "" {
				if strings.Contains(string(s.Entry()), `\u0000`) {
					t.Errorf("the entry still contains a mark: %s", s.Entry())
				}
			}
		}
		in, err := clientfile.Merge(path, data, []byte(entry), true)
		if err != nil || in.Same {
			return
		}
		if out, err := clientfile.Remove(path, in.Data, "mcpServers", "gate"); err == nil {
			_, err = clientfile.Read(path, out.Data, clientfile.Options{})
			require.OK(t, err)
		}
	})
}
