package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// gitIn returns a function that runs git in a new repository.
func gitIn(t *testing.T, dir string) func(args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	git := func(args ...string) string {
		t.Helper()
		out, _ := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		return string(out)
	}
	git("init", "-q")
	return git
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

// Git ignores each file that isIgnored reports as ignored.
func TestIsIgnored(t *testing.T) {
	top := t.TempDir()
	git := gitIn(t, top)
	const file = "gates/mine/gate.env"
	write(t, filepath.Join(top, file), "export X=1\n")
	for _, tt := range []struct {
		above, own string
		want       bool
	}{
		{"", "", false},
		{"", "/gate.env", true},
		{"", "gate.env", true},
		{"*.env", "", true},
		{"*.env", "!gate.env", false},
		{"!gate.env", "*.env", true},
		{"# *.env", "", false},
		{"gate.env/", "", false},
		{"/gate.env", "", false},
		{"/gates/", "!gate.env", true},
		{"mine/", "", true},
		{"gates/*/gate.env", "", true},
		{"gates/*.env", "", false},
		{"**/gate.env", "", true},
		{"", `/gate\.env`, true},
		{"", "gate.[", false},
	} {
		write(t, filepath.Join(top, ".gitignore"), tt.above+"\n")
		write(t, filepath.Join(top, "gates", "mine", ".gitignore"), tt.own+"\n")
		if got := isIgnored(top, filepath.Join(top, file), false); got != tt.want {
			t.Errorf("with %q in the parent and %q: isIgnored = %v", tt.above, tt.own, got)
		}
		if git := git("check-ignore", file) != ""; git != tt.want {
			t.Errorf("with %q in the parent and %q: Git ignores the file: %v",
				tt.above, tt.own, git)
		}
	}
}

// The file of --secrets is in .gitignore, so git add does not add it.
func TestImportIgnoresSecrets(t *testing.T) {
	source, err := filepath.Abs("clientfile/testdata/home/.codeium/windsurf/mcp_config.json")
	require.OK(t, err)
	initLines := strings.Join(ignored(), "\n")
	for name, tt := range map[string]struct {
		before  map[string]string
		secrets string
		want    string // .gitignore of the folder
		says    string
	}{
		"a new folder":         {nil, "gate/gate.env", "# Keys and state of the gateway.\n" + initLines + "\n\n# Keys and state of the gateway.\n/gate.env\n", "a .gitignore names it"},
		"a folder without one": {map[string]string{"gate/config/mcp_config.json": `{"mcpServers": {}}`}, "gate/gate.env", "# Keys and state of the gateway.\n" + initLines + "\n/gate.env\n", "a .gitignore names it"},
		"a line more": {
			map[string]string{"gate/config/mcp_config.json": `{"mcpServers": {}}`, "gate/.gitignore": "mine"}, "gate/sub/a[1].env",
			"mine\n\n# Keys and state of the gateway.\n/sub/a\\[1].env\n", "a .gitignore names it",
		},
		"a pattern exists": {
			map[string]string{"gate/config/mcp_config.json": `{"mcpServers": {}}`, "gate/.gitignore": "*.env\n"}, "gate/gate.env", "*.env\n", "a .gitignore names it",
		},
		"a pattern in the parent folder": {
			map[string]string{"gate/config/mcp_config.json": `{"mcpServers": {}}`, ".gitignore": "*.env\n"}, "gate/gate.env", "", "a .gitignore names it",
		},
		"outside": {
			map[string]string{"gate/config/mcp_config.json": `{"mcpServers": {}}`}, "gate.env", "",
			"it is outside gate, so no line was added to a .gitignore",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			git := gitIn(t, ".")
			for path, text := range tt.before {
				write(t, path, text)
			}
			require.OK(t, os.MkdirAll("gate/sub", 0o755))
			s := newTerminal(t, nil)
			printed := s.must(0, "import", source, "--dir", "gate", "--secrets", tt.secrets)
			if !strings.Contains(printed, tt.says) {
				t.Errorf("import prints %s, want %s", printed, tt.says)
			}
			got, err := os.ReadFile("gate/.gitignore")
			if string(got) != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf(".gitignore (%v):\n%s\nwant\n%s", err, got, tt.want)
			}
			git("add", "-A")
			if staged := strings.Contains(git("ls-files"), tt.secrets); staged != (name == "outside") {
				t.Errorf("git add adds %s: %v", tt.secrets, staged)
			}
		})
	}
}

// The doctor finds a file with secrets that git add would add, and adds the line for a file in the
// folder.
func TestDoctorSecrets(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "gate")
	gitIn(t, top)
	programtest.WriteConfig(t, dir, `{"mcpServers": {"a": {"url": "https://a.example.com", "headers": {"X": "${env:A_TOKEN}"}}}}`)
	_, err := addIgnored(filepath.Join(dir, ".gitignore"), ignored())
	require.OK(t, err)
	write(t, filepath.Join(dir, "written.sh"), secretsMark+"export B=1\n")
	write(t, filepath.Join(dir, "config", ".env.prod"), "A_TOKEN=made-up\n")
	write(t, filepath.Join(top, "gate.env"), "export A_TOKEN=made-up\n")
	write(t, filepath.Join(dir, "other.env"), "C=1\nexport A_TOKEN=\n")
	write(t, filepath.Join(dir, "README.md"), "export A_TOKEN=…\n")
	found := func(fix bool) (about []string) {
		t.Helper()
		x := &examination{env: quiet()}
		x.files(t.Context(), dir, false)
		x.ignored(dir)
		for _, f := range x.Findings {
			if f.Code != "secrets_unignored" {
				continue
			}
			rel, err := filepath.Rel(top, f.About)
			require.OK(t, err)
			if about = append(about, filepath.ToSlash(rel)); fix && f.Fix != nil {
				require.OK(t, f.Fix())
			}
		}
		slices.Sort(about)
		return about
	}
	if got := strings.Join(found(true), " "); got != "gate.env gate/config/.env.prod gate/written.sh" {
		t.Errorf("found %s", got)
	}
	if got := strings.Join(found(false), " "); got != "gate.env" {
		t.Errorf("after the fix doctor finds %s, want only gate.env", got)
	}
	write(t, filepath.Join(top, ".gitignore"), "/gate.env\n")
	if got := found(false); len(got) > 0 {
		t.Errorf("with a line in the parent's .gitignore doctor finds %s, want nothing", got)
	}
	// a parent's .gitignore may exclude the whole folder
	require.OK(t, os.Remove(filepath.Join(dir, ".gitignore")))
	for line, warned := range map[string]bool{"": true, "/gate/": false} {
		write(t, filepath.Join(top, ".gitignore"), line+"\n")
		x := &examination{}
		if x.ignored(dir); len(x.Findings) > 0 != warned {
			t.Errorf("with %q in the parent's .gitignore: %+v", line, x.Findings)
		}
	}
}
