package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// completed returns the program's completions of the last word, in fish's format.
func completed(t *testing.T, words ...string) (out []string) {
	t.Helper()
	s := newTerminal(t, nil)
	for line := range strings.Lines(s.must(0, append([]string{"complete-words", "fish", "--"}, words...)...)) {
		value, _, _ := strings.Cut(line, "\t")
		out = append(out, value)
	}
	return out
}

// completedFolder returns a folder with a catalog.
func completedFolder(t *testing.T) string {
	t.Helper()
	all := servers(upstreamtest.Fleet(t, map[string][]json.RawMessage{
		"files": {upstreamtest.Tool("get_file", "Read a file. It must be there.", `{"readOnlyHint":true}`)},
		"fun":   {upstreamtest.Tool("joke", "Tell a \x1b[2Jjoke.", "")},
	}, upstreamtest.Options{}))
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, all.config(each(""), ""))
	newTerminal(t, nil).must(0, "sync", "--dir", dir)
	return dir
}

func TestComplete(t *testing.T) {
	dir := completedFolder(t)
	for _, tt := range []struct {
		words []string
		want  []string
	}{
		{[]string{"vers"}, []string{"version"}},
		{[]string{"--vers"}, []string{"--version"}},
		{[]string{"token", "re"}, []string{"revoke"}},
		{[]string{"token", "list", "--al"}, []string{"--all"}},
		{[]string{"token", "--al"}, []string{"--all"}}, // a flag of the default command
		{[]string{"version", "-o", ""}, []string{"table", "json"}},
		{[]string{"version", "--output=j"}, []string{"--output=json"}},
		{[]string{"completion", ""}, []string{"bash", "zsh", "fish", "powershell"}},
		{[]string{"completion", "bash", ""}, nil},
		{[]string{"sync", "--dir", dir, "--server", "f"}, []string{"files", "fun"}},
		{[]string{"approvals", "carry", "--dir", dir, "f"}, []string{"files", "fun"}},
		{[]string{"sync", "--dir=" + dir, "--server=fi"}, []string{"--server=files"}},
		{[]string{"sync", "--dir", dir, "--url", "https://x", "--server", "f"}, nil},
		{[]string{"sync", "--dir", t.TempDir(), "--server", "f"}, nil},
		{[]string{"--dir", dir, "sync", "--server", "f"}, []string{"files", "fun"}},
		{[]string{"approvals", "--dir", dir, "carry", "f"}, []string{"files", "fun"}},
		{[]string{"--dir", ""}, nil},
		{[]string{"--d"}, []string{"--dir"}},
		{[]string{"-o", "json", "vers"}, []string{"version"}},
		{[]string{"sync", "--dir", ""}, nil}, // file names, by the shell
		{[]string{"nonsense", "--no", ""}, nil},
		{[]string{"complete-w"}, nil},
		{[]string{"sync", "--", "--"}, nil},
	} {
		if d := cmp.Diff(tt.want, completed(t, tt.words...)); d != "" {
			t.Errorf("%q (-want +got):\n%s", tt.words, d)
		}
	}
	if out := newTerminal(t, nil).must(0, "complete-words", "zsh", "--", "audit", "--dir", dir, "--tool", "f"); out != "files\\:get_file:Read a file\nfun\\:joke:Tell a [2Jjoke\n" {
		t.Errorf("zsh gets %q", out)
	}
}

// The script of PowerShell passes the line up to the cursor on standard input.
func TestCompletePowerShell(t *testing.T) {
	for line, want := range map[string]string{
		"portcullis versi\r\n":               "version\tPrint the version, the commit and the Go version\n",
		"portcullis version -o \n":           "table\t\njson\t\n",
		`C:\bin\portcullis.exe completion f`: "fish\t\n",
		"portcullis 'x\n":                    "",
		"":                                   "",
	} {
		s := newTerminal(t, nil)
		s.stdin = line
		if got := s.must(0, "complete-words", "powershell"); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestSplitLine(t *testing.T) {
	for line, want := range map[string][]string{
		"": {""}, "a": {"a"}, "a ": {"a", ""}, "a  b": {"a", "b"}, `a 'b c`: {"a", "b c"}, `a "b\" c" d`: {"a", `b" c`, "d"}, `a b\ c`: {"a", "b c"}, `a ''`: {"a", ""}, `a '\'x`: {"a", `\x`},
	} {
		if got := splitLine(line); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// The test runs each script in its shell, and checks the shell's completions.
func TestCompletionInShells(t *testing.T) {
	dir, bin := completedFolder(t), t.TempDir()
	self, err := os.Executable()
	require.OK(t, err)
	require.OK(t, os.Symlink(self, filepath.Join(bin, "portcullis")))
	for _, shell := range []string{"bash", "zsh", "fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not installed", shell)
			continue
		}
		script := filepath.Join(bin, "completion."+shell)
		require.OK(t, os.WriteFile(script, []byte(newTerminal(t, nil).must(0, "completion", shell)), 0o600))
		for line, want := range map[string]string{
			"portcullis versi":                                 "version",
			"portcullis token make --tool":                     "--toolsets",
			"portcullis version -o j":                          "json",
			"portcullis sync --dir " + dir + " --server fi":    "files",
			"portcullis audit --dir " + dir + " --tool files:": "files:get_file",
		} {
			cmd := exec.CommandContext(t.Context(), path)
			switch shell {
			case "bash": // as readline calls the function; readline breaks words at colons
				cmd.Args = []string{"bash", "--norc", "-c", `. "$1"; COMP_LINE=$2; COMP_POINT=${#2}; COMP_WORDBREAKS=$' \t\n"'"'"'><=;|&(:'; _portcullis portcullis; printf '%s\n' "${COMPREPLY[@]}"`, "x", script, line}
				_, want, _ = cutBreak(line, want)
			case "zsh":
				cmd.Args = []string{"zsh", "-f", "-c", `function compdef { }; function _files { print FILES }; function _describe { print -l -- "${(@P)2}" }; . "$1"; words=("${(@z)2}"); [[ "$2" = *" " ]] && words+=(""); CURRENT=$#words; _portcullis`, "x", script, line}
			case "fish":
				cmd.Args = []string{"fish", "--no-config", "-c", `source $argv[1]; complete -C $argv[2]`, script, line}
			}
			cmd.Env = append(os.Environ(), asProgram+"=1", "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+bin)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s, %s: %v\n%s", shell, line, err, out)
				continue
			}
			got := strings.ReplaceAll(strings.TrimSpace(string(out)), `\:`, ":")
			if got != want && !strings.HasPrefix(got, want+":") && !strings.HasPrefix(got, want+"\t") || strings.Contains(got, "\n") {
				t.Errorf("%s, %s: the shell offers %q, want %q", shell, line, got, want)
			}
		}
	}
}

// cutBreak splits a value for bash after the last break in the typed text.
func cutBreak(line, value string) (before, after string, found bool) {
	if strings.HasSuffix(line, ":") {
		return strings.Cut(value, ":")
	}
	return "", value, false
}

func TestVersionSession(t *testing.T) {
	s := newTerminal(t, map[string]string{runtime.Version(): "GO", runtime.GOOS + "/" + runtime.GOARCH: "PLATFORM"})
	s.must(0, "version")
	out := s.must(0, "version", "-o", "json")
	var b boot.Build
	if err := json.Unmarshal([]byte(out), &b); err != nil || b != boot.ThisBuild() {
		t.Errorf("%s: %v", out, err)
	}
	s.must(0, "--version")
	s.must(2, "version", "-o", "yaml")
	s.check("version")
}

func TestCompletionSession(t *testing.T) {
	s := newTerminal(t, nil)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		s.must(0, "completion", shell)
	}
	s.must(2, "completion")
	s.must(2, "completion", "tcsh")
	s.check("completion")
}
