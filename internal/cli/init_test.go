package cli

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The written files are valid, and the example rule is a rule.
func TestInitFiles(t *testing.T) {
	cfg, err := config.Parse([]byte(firstConfig))
	if err != nil || len(cfg.Servers)+len(cfg.Warnings) > 0 {
		t.Errorf("the config: %v, %v", cfg, err)
	}
	rules, err := policy.Parse([]byte(firstPolicy))
	if err != nil || len(rules.Warnings()) > 0 {
		t.Errorf("the policy: %v, %v", rules, err)
	}
	var shown []string
	for line := range strings.Lines(firstPolicy) {
		if line, ok := strings.CutPrefix(line, "// "); ok && (len(shown) > 0 || strings.HasPrefix(line, "@id")) {
			shown = append(shown, line)
		}
	}
	sample, _, _ := strings.Cut(strings.Join(shown, ""), "portcullis check prints")
	if rules, err = policy.Parse([]byte(sample)); err != nil || len(rules.Warnings()) > 0 || !strings.Contains(sample, "forbid") {
		t.Errorf("the example rule of the first policy: %v, %v\n%s", rules, err, sample)
	}
}

// here returns the working directory.
func here(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.OK(t, err)
	return dir
}

func TestInitSession(t *testing.T) {
	base, back := t.TempDir(), here(t)
	t.Chdir(base)
	s := newTerminal(t, map[string]string{base: "/home/kim"})
	s.must(0, "init")
	s.must(0, "check")
	s.must(0, "init")
	require.OK(t, os.MkdirAll("repo", 0o755))
	require.OK(t, os.WriteFile("repo/.gitignore", []byte("/audit\n*.log\nadmin.key"), 0o600))
	s.must(0, "init", "repo")
	data, err := os.ReadFile("repo/.gitignore")
	if err != nil || !strings.HasPrefix(string(data), "/audit\n*.log\nadmin.key\n\n# Keys") || strings.Count(string(data), "admin.key") != 1 {
		t.Errorf("%q, %v", data, err)
	}
	if info, err := os.Stat("repo/.gitignore"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of .gitignore has changed: %v, %v", info, err)
	}
	require.OK(t, os.WriteFile("a file", nil, 0o600))
	s.must(1, "init", "a file")
	s.must(2, "init", "one", "two")
	require.OK(t, os.MkdirAll("closed", 0o500))
	if os.Geteuid() != 0 { // no mode restricts root
		_, code := newTerminal(t, nil).run("init", "closed")
		if code != 1 {
			t.Errorf("exit code for an unwritable folder = %d, want 1", code)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.runIn(ended, "init", "later")
	if _, err := os.Stat("later/config/mcp_config.json"); err == nil {
		t.Error("the interrupted command wrote a file")
	}
	t.Chdir(back)
	s.check("init")
}

// With the .gitignore of init, Git ignores all files of a gateway that must not be in a repository.
func TestInitIgnoresState(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	_, config := ping(t)
	dir := t.TempDir()
	git := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git("init", "-q")
	require.OK(t, run(t.Context(), []string{"init", dir}, quiet()))
	p := start(t, dir)
	p.configure(config(""))
	_, err := backUp(filepath.Join(dir, "config", "mcp_config.json"), time.Now(), 0o600)
	require.OK(t, err)
	if got := git("status", "--porcelain", "--untracked-files=all"); got != "?? .gitignore\n?? config/mcp_config.json\n?? config/policy.cedar\n" {
		t.Errorf("git would add\n%s", got)
	}
}

// The program accepts each command that init prints as a next step.
func TestInitNext(t *testing.T) {
	var out bytes.Buffer
	env := quiet()
	env.stdout = &out
	dir := filepath.Join(t.TempDir(), "my gate")
	require.OK(t, run(t.Context(), []string{"init", dir}, env))
	app := commandLine(t)
	found := regexp.MustCompile(`(?m)^  portcullis (\w+) (.*?)  `).FindAllStringSubmatch(out.String(), -1)
	if len(found) != 3 {
		t.Fatalf("%d lines:\n%s", len(found), out.String())
	}
	for _, m := range found {
		args := []string{m[1]}
		if !slices.ContainsFunc(app.Model.Children, func(c *kong.Node) bool { return c.Name == m[1] }) {
			t.Logf("there is no command %s in this build", m[1])
			continue
		}
		if rest := strings.ReplaceAll(m[2], "'"+dir+"'", ""); rest != m[2] {
			args = append(append(args, strings.Fields(rest)...), dir)
		}
		if _, err := app.Parse(args); err != nil {
			t.Errorf("portcullis %s: %v", strings.Join(args, " "), err)
		}
	}
}
