package cli

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// oddConfig has a layout that an edit has to keep.
const oddConfig = `{"mcpServers": {
	"a": {"url": "https://a.example/mcp",
		"timeout":   "\u0035s"},

	"b": {"command": "sh", "disabled": true}
},   "audit": {"days":30} }
`

func TestServersEditSession(t *testing.T) {
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, oddConfig)
	path := filepath.Join(dir, filepath.FromSlash(config.Key))
	here, err := os.Getwd()
	require.OK(t, err)
	s := newTerminal(t, map[string]string{dir: "gate", here: "HERE"})
	edit := func(code int, args ...string) {
		t.Helper()
		before := contents(t, path)
		s.must(code, append([]string{"servers", "--dir", dir}, args...)...)
		if code != 0 && contents(t, path) != before {
			t.Errorf("a refused command changed the config:\n%s", contents(t, path))
		}
	}
	edit(0, "list")
	edit(
		0,
		"add",
		"web",
		"https://web.example/mcp",
		"--header",
		"Authorization:Bearer ${env:WEB}",
		"--dry-run",
	)
	edit(0, "add", "web", "https://web.example/mcp", "--header", "Authorization:Bearer ${env:WEB}")
	edit(
		0,
		"add",
		"prog",
		"--env",
		"TOKEN",
		"--env",
		"LEVEL=2",
		"-o",
		"json",
		"--",
		"sh",
		"-c",
		"cat --dir x",
	)
	edit(1, "add", "WEB", "https://web.example/mcp")
	edit(1, "add", "new", "https://web.example/mcp", "--header", "X-Api-Key: 0123456789abcdef0123")
	edit(1, "add", "new", "https://web.example/mcp?api_key=0123456789abcdef0123")
	edit(1, "add", "new", "--env", "API_KEY=hunter2hunter2", "--", "sh")
	edit(1, "add", "new", "--", "sh", "--token", "ghp_0123456789abcdefghijklmnop")
	edit(1, "add", "new", "--", "there-is-no-such-program")
	edit(1, "add", "new", "web.example/mcp")
	edit(1, "add", "new", "--", path)
	edit(1, "add", "new", "--cwd", filepath.Join(dir, "none"), "--", "sh")
	edit(1, "add", "new", "--header", "X: 1", "--", "sh")
	edit(1, "add", "new", "https://web.example/mcp", "--header", "nothing")
	edit(1, "add", "new", "https://web.example/mcp", "--env", "A=1")
	edit(1, "add", "no name", "https://web.example/mcp")
	edit(2, "add", "new")
	edit(0, "enable", "b")
	edit(0, "enable", "b")
	edit(0, "disable", "a")
	edit(0, "remove", "a", "--dry-run")
	edit(1, "remove", "nothing")
	edit(1, "remove", "a", "--url", "https://gate.example.com")
	edit(1, "logs", "a")
	edit(1, "restart", "a")
	s.must(1, "servers", "add", "a", "https://a.example/mcp", "--dir", filepath.Join(dir, "none"))
	s.text.WriteString(contents(t, path))
	s.check("servers-edit")
	undo := [][]string{{"remove", "web"}, {"remove", "prog"}, {"disable", "b"}, {"enable", "a"}}
	for _, args := range undo {
		edit(0, args...)
	}
	want := strings.Replace(oddConfig, `"timeout":   "\u0035s"}`,
		`"timeout":   "\u0035s",`+"\n\t\t"+`"enabled": true}`, 1)
	if got := contents(t, path); got != want {
		t.Errorf("an edit changed other bytes:\n%s\nwant\n%s", got, want)
	}
}

// Commands that change the config at the same time lose no change.
func TestServersEditTogether(t *testing.T) {
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, `{"mcpServers": {}}`)
	var wg sync.WaitGroup
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		wg.Go(func() {
			for {
				err := run(
					t.Context(),
					[]string{"servers", "add", name, "https://x.example/" + name, "--dir", dir},
					quiet(),
				)
				if err == nil || !strings.Contains(err.Error(), "try again") {
					if err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	cfg, err := config.Parse(
		[]byte(contents(t, filepath.Join(dir, filepath.FromSlash(config.Key)))),
	)
	require.OK(t, err)
	if len(cfg.Servers) != len(names) {
		t.Errorf("the config has %d servers, want %d", len(cfg.Servers), len(names))
	}
}

// On a full disk and in a read-only folder an edit leaves everything as it was.
func TestServersEditCannotWrite(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, with func(dir string)){
		"full disk": func(t *testing.T, with func(string)) {
			local.OnSmallDisk(t, "1m", func(disk string) {
				dir := filepath.Join(disk, "gate")
				// a new version does not fit into the rest of a block
				programtest.WriteConfig(t, dir, `{"mcpServers": {}}`+strings.Repeat(" ", 3*4096))
				local.FillDisk(t, filepath.Join(disk, "filler"), 2<<20)
				with(dir)
			})
		},
		"read-only folder": func(t *testing.T, with func(string)) {
			if os.Geteuid() == 0 {
				t.Skip("root may write everywhere")
			}
			dir := t.TempDir()
			programtest.WriteConfig(t, dir, `{"mcpServers": {}}`)
			for _, below := range []string{"config", "."} {
				require.OK(t, os.Chmod(filepath.Join(dir, below), 0o500))
			}
			with(dir)
			for _, below := range []string{".", "config"} {
				require.OK(t, os.Chmod(filepath.Join(dir, below), 0o700))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			prepare(t, func(dir string) {
				before := contents(t, filepath.Join(dir, filepath.FromSlash(config.Key)))
				err := run(
					t.Context(),
					[]string{"servers", "add", "a", "https://a.example/mcp", "--dir", dir},
					quiet(),
				)
				if err == nil || !strings.HasSuffix(err.Error(), "; nothing was changed") {
					t.Errorf("add = %v", err)
				}
				entries, err := os.ReadDir(filepath.Join(dir, "config"))
				require.OK(t, err)
				if len(entries) != 1 ||
					contents(t, filepath.Join(dir, "config", entries[0].Name())) != before {
					t.Errorf("the folder has %v", entries)
				}
			})
		})
	}
}

// An operator reads what a program wrote, and restarts it.
func TestServersLogsAndRestart(t *testing.T) {
	dir := t.TempDir()
	path, env := stdiotest.Program(t, stdiotest.Legacy)
	variables := ""
	for name, value := range env {
		variables = `"` + name + `": "` + value + `"`
	}
	web := upstreamtest.New(t, upstreamtest.Options{Tools: rawTools("ping")})
	programtest.WriteConfig(t, dir, `{"mcpServers": {
		"prog": {"command": "`+path+`", "env": {`+variables+`}, "approval": "off"},
		"web": {"url": "`+web.URL+`", "approval": "off"}}}`)
	p := start(t, dir, "--allow-commands")
	p.Ask(200, "/admin/sync", `{}`, nil)
	s := newTerminal(t, map[string]string{dir: "gate"})
	if out := s.must(0, "servers", "logs", "prog", "--dir", dir); !strings.Contains(
		out,
		"UTC  program  started",
	) {
		t.Errorf("the messages of the program are\n%s", out)
	}
	p.Call("call_tool_read", `{"name":"prog:garbage","args":{}}`)
	local.Until(t, "its other output is a message", func() bool {
		return strings.Contains(s.must(0, "servers", "logs", "prog", "--dir", dir), "stdout")
	})
	if out := s.must(0, "servers", "restart", "prog", "--dir", dir); !strings.Contains(
		out,
		"ended ",
	) ||
		!strings.Contains(out, "it has 11 tools") {
		t.Errorf("restart prints\n%s", out)
	}
	if out := s.must(0, "servers", "restart", "web", "--dir", dir); !strings.Contains(
		out,
		"it has 1 tool\n",
	) {
		t.Errorf("restart prints\n%s", out)
	}
	web.Refuse()
	s.must(1, "servers", "restart", "web", "--dir", dir)
	if out := s.must(0, "servers", "--dir", dir); !strings.Contains(out, "refuse") {
		t.Errorf("the list has no message:\n%s", out)
	}
	s.must(1, "servers", "logs", "none", "--dir", dir)
	if _, runs := folder.FindInfo(dir); !runs {
		t.Error("no gateway runs")
	}
}
