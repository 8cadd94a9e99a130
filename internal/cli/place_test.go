package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestPlaceLast(t *testing.T) {
	root := commandLine(t).Model.Node
	for line, want := range map[string]string{
		"":                                    "",
		"--dir gate":                          "",
		"tools -o json":                       "tools -o json",
		"-o json --dir gate tools x":          "tools -o json --dir gate x",
		"--dir=gate -ojson token make --name": "token make --dir=gate -ojson --name",
		"servers --dir gate login notion":     "servers login --dir gate notion",
		"servers --dir servers servers":       "servers --dir servers servers",
		"--output json stop --dir a undo b":   "stop undo --output json --dir a b",
		"--dir":                               "",
		"--verbose tools":                     "--verbose tools",
		"approvals --url u nonsense":          "approvals --url u nonsense",
		"token -- make":                       "token -- make",
	} {
		if got := strings.Join(placeLast(root, strings.Fields(line)), " "); got != want {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
	}
}

// A command without flags uses the gateway of the environment, of the current folder, or of the
// user's own folder, in this order.
func TestFindGateway(t *testing.T) {
	own, empty := t.TempDir(), t.TempDir()
	here, named := configured(t, "here"), configured(t, "named")
	require.OK(t, os.CopyFS(filepath.Join(own, "portcullis"), os.DirFS(configured(t, "own"))))
	const nobody = "http://127.0.0.1:1"
	unreached := "no gateway answers at " + nobody
	for name, tt := range map[string]struct {
		in       string // the current folder
		url, dir string // the variables
		args     []string
		ours     bool   // the user has a folder with a config
		says     string // on standard output or standard error
	}{
		"current folder": {in: here, ours: true, says: "folder ., "},
		"own folder":     {in: empty, ours: true, says: "portcullis, on which none runs"},
		"none":           {in: empty, says: "there is no gateway in"},
		"variable":       {in: here, ours: true, dir: named, says: named},
		"URL first":      {in: here, url: nobody, dir: named, says: unreached},
		"folder by flag": {in: empty, url: nobody, args: []string{"--dir", named}, says: named},
		"URL by flag":    {in: here, dir: named, args: []string{"--url", nobody}, says: unreached},
		"no URL in it":   {in: here, url: "gate", says: "PORTCULLIS_URL: want a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(tt.in)
			var out bytes.Buffer
			env := &environment{
				getenv: func(name string) string {
					return map[string]string{urlVariable: tt.url, dirVariable: tt.dir}[name]
				},
				stdout: &out,
				stderr: &out,
				stdin:  strings.NewReader(""),
			}
			if tt.ours {
				env.ownConfig = func() (string, error) { return own, nil }
			}
			// no gateway of the test has had a sync, so every status is a failure
			code := exitCode(run(t.Context(), append(tt.args, "status"), env), &out)
			if code == 0 || !strings.Contains(out.String(), tt.says) {
				t.Errorf("exit %d, want a failure with %q:\n%s", code, tt.says, out.String())
			}
		})
	}
}

// configured returns a folder whose config has a server with this name.
func configured(t *testing.T, server string) string {
	t.Helper()
	dir := t.TempDir()
	programtest.WriteConfig(
		t,
		dir,
		`{"mcpServers": {"`+server+`": {"url": "http://127.0.0.1:1/mcp"}}}`,
	)
	return dir
}

// A person at a terminal sees which gateway a command uses that no flag names.
func TestPlaceIsPrinted(t *testing.T) {
	s := newTerminal(t, nil)
	s.env[dirVariable], s.typed = configured(t, "web"), true
	s.must(0, "servers")
	if !strings.Contains(s.text.String(), "! gateway: "+s.env[dirVariable]) {
		t.Errorf("the terminal shows\n%s", s.text.String())
	}
}

// A folder is an argument or a flag of init and check, which do not use the environment.
func TestPositionalFolder(t *testing.T) {
	s := newTerminal(t, nil)
	s.env[dirVariable] = configured(t, "web")
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	s.must(0, "init", a)
	s.must(0, "--dir", b, "-o", "json", "init")
	s.must(0, "check", "--dir", b, b)
	s.must(2, "check", a, "--dir", b)
	t.Chdir(t.TempDir())
	s.must(1, "check")
}

func TestBareCommandPrintsHelp(t *testing.T) {
	s := newTerminal(t, nil)
	if out := s.must(0); !strings.Contains(out, "Usage: portcullis") ||
		!strings.Contains(out, "aws push") {
		t.Errorf("portcullis prints\n%s", out)
	}
	s.must(2, "--dir", "gate")
}

// The earlier names of commands still work, and the help does not list them.
func TestEarlierNames(t *testing.T) {
	dir, s := newShelf(t)
	copied := filepath.Join(t.TempDir(), "copy.db")
	s.must(0, "approvals", "backup", copied, "--dir", dir)
	s.must(0, "approvals", "restore", copied, "--dir", dir)
	s.must(1, "push", "--bucket", "b", "--dir", dir)
	out := s.must(0, "--help") + s.must(0, "approvals", "--help")
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == "approvals" &&
			(words[1] == "backup" || words[1] == "restore") ||
			len(words) > 1 && words[0] == "push" {
			t.Errorf("the help lists %s", line)
		}
	}
}

func TestHelpFitsTheTerminal(t *testing.T) {
	paths := [][]string{nil}
	for _, c := range commandsOf(commandLine(t).Model.Node) {
		paths = append(paths, strings.Fields(strings.TrimPrefix(c.FullPath(), "portcullis ")))
	}
	for columns, limit := range map[string]int{"60": 60, "100": 100} {
		t.Setenv("COLUMNS", columns) // kong reads it
		s := newTerminal(t, nil)
		s.env["COLUMNS"] = columns
		for _, path := range paths {
			for line := range strings.Lines(s.must(0, append(path, "--help")...)) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > limit {
					t.Errorf("%s columns: %d: %s", columns, n, line)
				}
			}
		}
	}
}

func TestFold(t *testing.T) {
	for line, want := range map[string]string{
		"  short":                         "  short",
		`  portcullis a --b "c d e f"`:    "  portcullis a \\\n    --b \\\n    \"c d e f\"",
		"  averylongwordthatdoesnotfit x": "  averylongwordthatdoesnotfit \\\n    x",
	} {
		if d := cmp.Diff(want, fold(line, ` \`, 18)); d != "" {
			t.Errorf("%q (-want +got):\n%s", line, d)
		}
	}
}

func TestTableFitsTheTerminal(t *testing.T) {
	show := func(width int) string {
		out := &page{width: width}
		rows := newTable(out, "NAME", "WHAT IT IS", "N")
		rows.row("fs", "a server that reads and writes files", "12")
		rows.row("averyveryverylongname", "", "3")
		rows.end()
		return out.String()
	}
	for width, want := range map[int]string{
		0: `NAME                   WHAT IT IS                            N
fs                     a server that reads and writes files  12
averyveryverylongname                                        3
`,
		40: `NAME               WHAT IT IS         N
fs                 a server that      12
                   reads and writes
                   files
averyveryverylong                     3
name
`,
	} {
		if d := cmp.Diff(want, show(width)); d != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, d)
		}
	}
	for width := 1; width < 70; width++ { // every width ends, and loses no character
		got := strings.Join(strings.Fields(show(width)), "")
		for _, c := range "abcdefghijklmnopqrstuvwxyz" {
			if strings.Count(got, string(c)) != strings.Count(show(0), string(c)) {
				t.Fatalf("%d columns lose %c:\n%s", width, c, show(width))
			}
		}
	}
}

func TestAuditFitsTheTerminal(t *testing.T) {
	dir, s := newShelf(t)
	decideAbout(t, dir, "web", "read_page", "approve")
	whole := s.must(0, "audit", "--dir", dir)
	out := &page{width: 60}
	require.OK(
		t,
		run(
			context.Background(),
			[]string{"audit", "--dir", dir},
			&environment{getenv: noEnv, stdout: out, stderr: &bytes.Buffer{}},
		),
	)
	for line := range strings.Lines(out.String()) {
		if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > 60 {
			t.Errorf("too long: %s", line)
		}
	}
	if !strings.Contains(whole, " UTC  ") || strings.Join(strings.Fields(whole), "") == "" {
		t.Errorf("the audit is %q", whole)
	}
}

// Breaking a text keeps every character except spaces, and no line is too long.
func FuzzBreakText(f *testing.F) {
	f.Add("a server that reads files", 6)
	f.Add("é\u65e5  ", 1)
	f.Fuzz(func(t *testing.T, s string, width int) {
		width = 1 + abs(width)%80
		joined := strings.Join(breakText(s, width), "")
		plain := strings.NewReplacer(" ", "")
		if got, want := plain.Replace(joined), plain.Replace(string([]rune(s))); got != want {
			t.Errorf("%q in %d columns becomes %q", s, width, joined)
		}
		for _, line := range breakText(s, width) {
			if utf8.RuneCountInString(line) > width {
				t.Errorf("%q in %d columns has the line %q", s, width, line)
			}
		}
	})
}

// The flags before a command move behind it, and no word is lost.
func FuzzPlaceLast(f *testing.F) {
	f.Add("--dir a tools -o json x")
	f.Add("servers --dir -- login")
	app, err := kong.New(&cli{}, grammarOptions(), kong.Vars{"user": "NAME", "version": ""})
	require.OK(f, err)
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Fields(line)
		got := placeLast(app.Model.Node, slices.Clone(words))
		if got == nil {
			return // there is no command
		}
		slices.Sort(words)
		if slices.Sort(got); !slices.Equal(got, words) {
			t.Errorf("%q becomes %q", line, got)
		}
	})
}

func abs(n int) int {
	if n < 0 {
		return -(n + 1)
	}
	return n
}
