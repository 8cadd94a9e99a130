package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The test runs the examples of the toolsets page with the demo. Each example prints the text that
// the page shows below it.
func TestToolsetsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "toolsets.md"))
	require.OK(t, err)
	for _, name := range toolset.Headers() {
		if !strings.Contains(string(page), "`"+name) {
			t.Errorf("the page does not name %s", name)
		}
	}
	examples := regexp.MustCompile("(?s)```sh\n(.*?)```\n\n```text\n(.*?)\n```").FindAllStringSubmatch(string(page), -1)
	if len(examples) != strings.Count(string(page), "```sh\n") || len(examples) == 0 {
		t.Fatalf("%d of %d examples have an answer", len(examples), strings.Count(string(page), "```sh\n"))
	}
	p := start(t, t.TempDir(), "--demo")
	for _, x := range examples {
		script := strings.ReplaceAll(x[1], "http://127.0.0.1:8080", p.URL)
		out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script).CombinedOutput()
		if err != nil || !strings.Contains(string(out), x[2]) {
			t.Errorf("%s\nprints no %s (%v):\n%s", script, x[2], err, out)
		}
	}
}

// The command of the page on evaluation prints the text of the page with the demo, except the
// number of bytes, which depends on the port.
func TestEvaluatePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "evaluate.md"))
	require.OK(t, err)
	block := func(language string) string {
		m := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
		if m == nil {
			t.Fatalf("the page has no block of %s", language)
		}
		return string(m[1])
	}
	tasks := filepath.Join(t.TempDir(), "tasks.json")
	require.OK(t, os.WriteFile(tasks, []byte(block("json")), 0o600))
	dir := t.TempDir()
	start(t, dir, "--demo")
	command := strings.Fields(strings.Replace(block("sh"), "tasks.json", tasks, 1))
	var out bytes.Buffer
	env := &environment{getenv: func(string) string { return "" }, stdout: &out, stderr: &out}
	require.OK(t, run(t.Context(), append(command[1:], "--dir", dir), env))
	mask := regexp.MustCompile(`\d{3,} *`)
	got, want := mask.ReplaceAllString(
		out.String(),
		"N ",
	), mask.ReplaceAllString(
		block("text"),
		"N ",
	)
	if got != want {
		t.Errorf("the command prints\n%s\nthe page says\n%s", got, want)
	}
}

// The program accepts each command line in the blocks of the pages: its command, flags and
// arguments. docs/commands.md is generated.
func TestCommandLinesOfTheDocs(t *testing.T) {
	block := regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```")
	line := regexp.MustCompile(`(?m)(?:^|[\s("'])portcullis ([a-z][^#|>&;\n]*)`)
	word := regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
	paths, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	require.OK(t, err)
	found := 0
	for _, path := range append(paths, filepath.Join("..", "..", "README.md")) {
		page, err := os.ReadFile(path)
		require.OK(t, err)
		if filepath.Base(path) == "commands.md" {
			continue
		}
		commands := ""
		for _, b := range block.FindAllStringSubmatch(string(page), -1) {
			if b[1] == "" || b[1] == "sh" {
				commands += strings.ReplaceAll(b[2], "\\\n", " ")
			}
		}
		for _, m := range line.FindAllStringSubmatch(commands, -1) {
			app, words := commandLine(t), word.FindAllString(m[1], -1)
			if child(app.Model.Node, words[0]) == nil {
				continue // the name of a unit or a user
			}
			found++
			for i, w := range words {
				words[i] = strings.Trim(w, `'")`)
			}
			if _, err := app.Parse(placeLast(app.Model.Node, words)); err != nil {
				t.Errorf("%s: portcullis %s: %v", filepath.Base(path), m[1], err)
			}
		}
	}
	if found < 90 {
		t.Errorf("the pages have %d command lines: the pattern is broken", found)
	}
}
