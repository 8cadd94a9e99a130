package cli

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/clientfile"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestConnectSession(t *testing.T) {
	_, config := ping(t)
	open, closed, access := t.TempDir(), t.TempDir(), programtest.Tokens()
	programtest.WriteConfig(t, open, config(""))
	programtest.WriteConfig(t, closed, config(""))
	p, guarded := start(t, open), startWith(t, access.Env, closed)
	s, home, back := newUser(t)
	s.names[open], s.names[closed], s.names[guarded.URL] = "gate", "guarded", "http://gate.example.com"
	s.names[strings.ReplaceAll(strings.TrimPrefix(guarded.URL, "http://"), ":", "%3A")] = "gate.example.com" // in a link

	s.must(0, "connect")
	s.must(0, "connect", "claude-code", "--dir", open)
	s.must(0, "connect", "cursor", "--dir", open, "--write")
	s.must(0, "connect", "cursor", "--dir", open, "--write")
	s.must(1, "connect", "cursor", "--dir", open, "--write", "--path", "/mcp/readonly")
	s.must(0, "connect", "cursor", "--dir", open, "--write", "--path", "/mcp/readonly", "--replace")
	s.must(0, "connect", "cursor", "--undo")
	s.must(1, "connect", "cursor", "--undo")
	s.must(0, "connect", "gemini", "--url", guarded.URL, "--write")
	s.env["PORTCULLIS_TOKEN"] = access.Admin
	s.must(0, "connect", "vscode", "--url", guarded.URL, "--toolset", "s")
	s.must(0, "connect", "vscode", "--url", guarded.URL, "--toolset", "s", "--write")
	s.must(0, "connect", "codex", "--url", guarded.URL, "--name", "gate", "--token-env", "GATE_TOKEN", "--write")
	s.must(0, "connect", "codex", "--undo", "--name", "gate", "--url", guarded.URL)
	s.must(0, "connect", "codex", "--url", guarded.URL, "-o", "json")
	if text := contents(t, filepath.Join(home, ".codex", "config.toml")); text != contents(t, filepath.Join(back, "clientfile", "testdata", "home", ".codex", "config.toml")) {
		t.Errorf("after --undo the file differs from the original:\n%s", text)
	}
	require.OK(t, p.stop())
	s.must(0, "connect", "codex", "--dir", open)
	checkNoSecrets(t, s)
	t.Chdir(back)
	s.check("connect")
}

// The entry goes into the user's own file, and with --project into the file of the folder. No other
// file changes, the answer has the absolute path, and --undo restores every byte.
func TestConnectWritesOneFile(t *testing.T) {
	for client, place := range map[string]struct{ own, project string }{
		"claude-desktop": {own: ".config/Claude/claude_desktop_config.json"},
		"claude-code":    {".claude.json", ".mcp.json"},
		"cursor":         {".cursor/mcp.json", ".cursor/mcp.json"},
		"vscode":         {".config/Code/User/mcp.json", ".vscode/mcp.json"},
		"codex":          {".codex/config.toml", ".codex/config.toml"},
		"gemini":         {".gemini/settings.json", ".gemini/settings.json"},
		"windsurf":       {own: ".config/devin/mcp_config.json"},
	} {
		t.Run(client, func(t *testing.T) { writesOneFile(t, client, place.own, false) })
		t.Run(client+"/project", func(t *testing.T) { writesOneFile(t, client, place.project, true) })
	}
}

func writesOneFile(t *testing.T, client, place string, project bool) {
	t.Helper()
	s, home, _ := newUser(t)
	path := filepath.Join(home, place)
	args := []string{"connect", client, "--url", "https://gate.example.com", "--auth", "none", "--name", "mine"}
	if project {
		path, args = filepath.Join(here(t), place), append(args, "--project")
	}
	before := tree(t, filepath.Dir(home))
	if place == "" {
		s.must(1, append(args, "--write")...)
		s.must(1, append(args, "--undo")...)
	} else {
		out := s.must(0, append(args, "--write")...)
		written := tree(t, filepath.Dir(home))
		for name, text := range written {
			if name != path && before[name] != text && !strings.HasPrefix(name, path+".bak-") {
				t.Errorf("%s was changed, want only %s changed", name, path)
			}
		}
		if !strings.HasPrefix(out, path+": ") || !strings.Contains(written[path], "https://gate.example.com/mcp") {
			t.Errorf("%s: %s", out, written[path])
		}
		if out = s.must(0, append(args, "--undo")...); !strings.HasPrefix(out, path+": ") {
			t.Errorf("undone: %s", out)
		}
		if _, existed := before[path]; !existed {
			require.OK(t, os.Remove(path))
		}
	}
	after := tree(t, filepath.Dir(home))
	maps.DeleteFunc(after, func(name, _ string) bool { return strings.Contains(name, ".bak-") })
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("after --undo (-before +after):\n%s", diff)
	}
}

// tree returns the files below a folder with their contents.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.OK(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[path] = contents(t, path)
		}
		return err
	}))
	return files
}

// In the home folder, the user's file and the folder's file are the same file. The output names
// this file once.
func TestConnectUndoNamesFilesOnce(t *testing.T) {
	s, home, _ := newUser(t)
	t.Chdir(home)
	s.must(1, "connect", "cursor", "--undo", "--name", "nothing")
	if n := strings.Count(s.text.String(), filepath.Join(".cursor", "mcp.json")); n != 1 {
		t.Errorf("the file is named %d times: %s", n, s.text.String())
	}
}

func TestConnectRefusals(t *testing.T) {
	_, config := ping(t)
	dir, access := t.TempDir(), programtest.Tokens()
	programtest.WriteConfig(t, dir, config(""))
	p := startWith(t, access.Env, dir)
	s, home, back := newUser(t)
	s.names[dir], s.names[p.URL] = "gate", "http://gate.example.com"
	at := func(args ...string) []string { return append([]string{"connect"}, append(args, "--url", p.URL)...) }
	cursor := filepath.Join(home, ".cursor", "mcp.json")

	s.must(1, "connect", "emacs", "--url", p.URL)
	s.must(1, "connect", "--write")
	s.must(1, "connect", "cursor")
	s.must(1, "connect", "cursor", "--url", "http://127.0.0.1:1")
	s.must(1, "connect", "cursor", "--url", "gate.example.com")
	s.must(1, at("cursor", "--name", "a b")...)
	s.must(2, at("cursor", "--write", "--undo")...)
	s.must(1, at("cursor", "--write", "--name", "context7")...)
	s.must(1, "connect", "cursor", "--undo", "--name", "context7")
	s.must(1, at("codex", "--write", "--file", cursor)...)
	s.env[client.TokenVariable] = "pct_wrong"
	s.must(1, at("cursor")...)
	s.env["PORTCULLIS_TOKEN"] = access.Admin
	s.must(1, at("cursor", "--toolset", "nothing")...)
	s.must(1, at("cursor", "--auth", "oauth")...)
	before := contents(t, cursor)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.runIn(ended, at("cursor", "--write")...)
	long := filepath.Join(t.TempDir(), strings.Repeat("n", 245)+".json") // so no longer name is possible next to the file
	require.OK(t, os.WriteFile(long, []byte(before), 0o600))
	other := newTerminal(t, nil)
	other.env["HOME"] = home
	if _, code := other.run(at("cursor", "--write", "--file", long)...); code != 1 || !strings.Contains(other.text.String(), "the client's file is unchanged") {
		t.Errorf("a failed write reports: %s", other.text.String())
	}
	if contents(t, long) != before || contents(t, cursor) != before {
		t.Error("a refusal changed a file")
	}
	require.OK(t, os.WriteFile(cursor, []byte("{\n  \"mcpServers\": {\n    \"a\": {}\n    \"b\": {}\n  }\n}\n"), 0o600))
	s.must(1, at("cursor", "--write")...)
	s.must(1, "connect", "cursor", "--undo")
	require.OK(t, os.WriteFile(cursor, []byte("{\n  \"mcpServers\": []\n}\n"), 0o600))
	s.must(1, at("cursor", "--write")...)
	if entries, err := os.ReadDir(filepath.Dir(cursor)); err != nil || len(entries) != 1 {
		t.Errorf("refusals left %v, %v", entries, err)
	}
	delete(s.env, "HOME")
	s.must(1, at("cursor", "--write")...)
	s.must(1, "connect", "cursor", "--undo")
	t.Chdir(back)
	s.check("connect_refusals")
}

// After connect --write, import finds the same servers of a client as before, and never imports the
// gateway's own entry.
func TestImportConnectImport(t *testing.T) {
	access := programtest.Tokens()
	for auth, env := range map[string]map[string]string{"none": nil, "bearer": access.Env} {
		dir := t.TempDir()
		programtest.WriteConfig(t, dir, `{"mcpServers": {}}`)
		p := startWith(t, env, dir)
		for _, client := range clientfile.Clients() {
			t.Run(client.ID+"/"+auth, func(t *testing.T) {
				s, home, _ := newUser(t)
				if env != nil {
					s.env["PORTCULLIS_TOKEN"] = access.Admin
				}
				// these files already have an entry for a gateway
				for path, name := range map[string]string{
					".cursor/mcp.json":                          "gate",
					".config/Claude/claude_desktop_config.json": "portcullis",
				} {
					file := filepath.Join(home, path)
					data := []byte(contents(t, file))
					change, err := clientfile.Remove(file, data, "mcpServers", name)
					require.OK(t, err)
					require.OK(t, os.WriteFile(file, change.Data, 0o600))
				}
				imported := func(dir string) (config, out string) {
					t.Helper()
					out = s.must(0, "import", client.ID, "--dir", dir)
					return contents(t, filepath.Join(dir, "config", "mcp_config.json")), out
				}
				first, _ := imported("gate")
				s.must(0, "connect", client.ID, "--url", p.URL, "--write")
				again, out := imported("gate")
				if !strings.Contains(out, "it leads to a Portcullis gateway") || !strings.Contains(out, "nothing to add") {
					t.Errorf("the gateway's own entry: %s", out)
				}
				second, _ := imported("second")
				s.must(0, "connect", client.ID, "--undo")
				third, _ := imported("third")
				for _, config := range []string{again, second, third} {
					if diff := cmp.Diff(first, config); diff != "" {
						t.Error(diff)
					}
				}
				checkNoSecrets(t, s, "gate", "second")
			})
		}
	}
}

// An entry that leads to the gateway of the folder is not imported, even under another name.
func TestImportFindsOwnAddress(t *testing.T) {
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, `{"mcpServers": {}}`)
	file := filepath.Join(dir, "client.json")
	config := `{"mcpServers": {"mine": {"url": "` + start(t, dir).URL + `/mcp"}}}`
	require.OK(t, os.WriteFile(file, []byte(config), 0o600))
	out := newTerminal(t, nil).must(0, "import", file, "--dir", dir)
	if !strings.Contains(out, "it leads to a Portcullis gateway") {
		t.Errorf("import prints %s", out)
	}
}

// connect --all writes into the file of every client that has one, and --undo restores the files.
func TestConnectAll(t *testing.T) {
	_, config := ping(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, config(""))
	p := start(t, dir)
	s, home, _ := newUser(t)
	require.OK(t, os.RemoveAll(filepath.Join(home, ".codex")))
	before := tree(t, home)
	out := s.must(0, "connect", "--all", "--write", "--name", "all", "--dir", dir)
	if n := strings.Count(out, "now has the entry all"); n < 3 {
		t.Errorf("%d clients got the entry, want every client with a file:\n%s", n, out)
	}
	if _, ok := tree(t, home)[filepath.Join(home, ".codex", "config.toml")]; ok {
		t.Error("a client without a file got one")
	}
	s.must(0, "connect", "--all", "--undo", "--name", "all", "--url", p.URL)
	after := tree(t, home)
	maps.DeleteFunc(after, func(path, _ string) bool { return strings.Contains(path, ".bak-") })
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("after --undo (-before +after):\n%s", diff)
	}
	s.must(1, "connect", "--all", "--undo", "--name", "all", "--url", p.URL)
	s.must(2, "connect", "--all", "--dir", dir)
	s.must(2, "connect", "cursor", "--all", "--write", "--name", "all", "--dir", dir)
}
