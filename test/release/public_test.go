package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// read returns the files that match a pattern, by path from the top of the repo.
func read(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.OK(t, err)
		if len(found) == 0 {
			t.Fatalf("no file matches %s", pattern)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			require.OK(t, err)
			name, err := filepath.Rel(root, path)
			require.OK(t, err)
			all[filepath.ToSlash(name)] = string(text)
		}
	}
	return all
}

// Workflows name the commits of actions, because a tag can be moved to other code.
func TestActionsArePinned(t *testing.T) {
	uses := regexp.MustCompile(`(?m)^\s*(?:- )?uses:\s*(.+)$`)
	pinned := regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	seen := 0
	files := read(t, ".github/workflows/*.yml")
	for path, text := range files {
		for _, m := range uses.FindAllStringSubmatch(text, -1) {
			if seen++; !strings.HasPrefix(m[1], "./") && !pinned.MatchString(m[1]) {
				t.Errorf("%s uses %s, want a commit and # its version", path, m[1])
			}
		}
		if !strings.Contains(text, "\npermissions:\n  contents: read\n") {
			t.Errorf("%s does not limit its permissions to reading", path)
		}
		if strings.Count(text, "actions/checkout@") != strings.Count(text, "persist-credentials: false") {
			t.Errorf("%s keeps its token in the clone: set persist-credentials: false", path)
		}
	}
	if seen < 10 {
		t.Errorf("the workflows use %d actions: the pattern is broken", seen)
	}
}

// The targets in the pages for contributors and in the workflows exist.
func TestMakeTargets(t *testing.T) {
	made := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(read(t, "Makefile")["Makefile"], -1) {
		made[m[1]] = true
	}
	line := regexp.MustCompile("(?m)(?:^|`|run: )make ((?:[a-z-]+ ?)+)")
	seen := 0
	for path, text := range read(t, "*.md", ".github/*.md", ".github/workflows/*.yml") {
		for _, m := range line.FindAllStringSubmatch(text, -1) {
			for _, target := range strings.Fields(m[1]) {
				if seen++; !made[target] {
					t.Errorf("%s says make %s, which the Makefile does not have", path, target)
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d targets are named: the pattern is broken", seen)
	}
}

func TestFoldersOfDependabot(t *testing.T) {
	text := read(t, ".github/dependabot.yml")[".github/dependabot.yml"]
	for _, m := range regexp.MustCompile(`"/([^"*]*)"`).FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("dependabot names /%s, which does not exist", m[1])
		}
	}
}

// The packages in the test commands of CONTRIBUTING.md exist. Other jobs run their tests.
func TestFirstChange(t *testing.T) {
	text := read(t, "CONTRIBUTING.md")["CONTRIBUTING.md"]
	for _, m := range regexp.MustCompile(`(?m)^go test (.*?)(?: +#.*)?$`).FindAllStringSubmatch(text, -1) {
		for _, folder := range strings.Fields(m[1]) {
			if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
				t.Errorf("CONTRIBUTING.md tests %s, which does not exist", folder)
			}
		}
	}
}

func TestChangelog(t *testing.T) {
	text := read(t, "CHANGELOG.md")["CHANGELOG.md"]
	kinds := map[string]bool{"Added": true, "Changed": true, "Deprecated": true, "Removed": true, "Fixed": true, "Security": true}
	for _, m := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(text, -1) {
		if !kinds[m[1]] {
			t.Errorf("### %s is not a kind of change", m[1])
		}
	}
	heads := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(text, -1)
	if len(heads) == 0 || heads[0][1] != "[Unreleased]" {
		t.Fatalf("CHANGELOG.md does not begin with Unreleased: %v", heads)
	}
	version := regexp.MustCompile(`^\[\d+\.\d+\.\d+[\w.-]*\] - \d{4}-\d\d-\d\d$`)
	for _, m := range heads[1:] {
		if !version.MatchString(m[1]) {
			t.Errorf("## %s: want [1.2.0] - 2026-12-01", m[1])
		}
	}
}

// The notes of a release are its section of the changelog. The script refuses a version without a
// section.
func TestReleaseNotes(t *testing.T) {
	folder := t.TempDir()
	require.OK(t, os.CopyFS(filepath.Join(folder, ".ci"), os.DirFS(filepath.Join(root, ".ci"))))
	const changelog = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-12-01\n\n### Added\n\n- a gate\n\n## [1.1.0] - 2026-11-01\n\n- a wall\n\n[1.2.0]: https://example.com/1.2.0\n"
	require.OK(t, os.WriteFile(filepath.Join(folder, "CHANGELOG.md"), []byte(changelog), 0o600))
	for tag, want := range map[string]string{"v1.2.0": "### Added - a gate", "v1.1.0": "- a wall", "v1.2": "", "v9.0.0": "", "vUnreleased": ""} {
		out, err := exec.CommandContext(t.Context(), "bash", filepath.Join(folder, ".ci", "release-notes"), tag).Output()
		if got := strings.Join(strings.Fields(string(out)), " "); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", tag, got, err, want)
		}
	}
}
