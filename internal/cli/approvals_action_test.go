package cli

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/lockfile"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const actionDir = "../../.github/actions/approvals-check"

// A runner runs the steps of the action as GitHub does.
type runner struct {
	t   *testing.T
	dir string
	env []string
}

func newRunner(t *testing.T, env ...string) *runner {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the action runs on Linux and macOS")
	}
	dir := t.TempDir()
	at, err := filepath.Abs(actionDir)
	require.OK(t, err)
	require.OK(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	return &runner{t, dir, append([]string{
		"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + dir, "RUNNER_TEMP=" + dir, "GITHUB_ACTION_PATH=" + at,
		"GITHUB_OUTPUT=" + filepath.Join(dir, "output"), "GITHUB_STEP_SUMMARY=" + filepath.Join(dir, "summary"), "GITHUB_PATH=" + filepath.Join(dir, "path"),
		"GITHUB_REPOSITORY=acme/gate",
	}, env...)}
}

// run runs a step, and returns its output and its exit code.
func (r *runner) run(step string, env ...string) (out string, code int) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "bash", "-e", "-c", step)
	cmd.Dir, cmd.Env = r.dir, slices.Concat(r.env, env)
	data, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(data), exit.ExitCode()
	}
	require.OK(r.t, err)
	return string(data), 0
}

func (r *runner) file(name string) string {
	data, _ := os.ReadFile(filepath.Join(r.dir, name)) // "": no file
	return string(data)
}

// command puts a shell script on PATH.
func (r *runner) command(name, script string) {
	require.OK(r.t, os.WriteFile(filepath.Join(r.dir, "bin", name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

// steps returns the scripts of the action's steps by name.
func steps(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(actionDir, "action.yml"))
	require.OK(t, err)
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`(?s)    - name: (\w+).*?\n      run: ([^\n]+)`).FindAllStringSubmatch(string(data), -1) {
		out[m[1]] = m[2]
	}
	if len(out) != 4 {
		t.Fatalf("the action has the steps %v", out)
	}
	return out
}

// The page describes each input, and steps use only existing inputs.
func TestActionInputs(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(actionDir, "action.yml"))
	require.OK(t, err)
	page, err := os.ReadFile("../../docs/approvals-as-code.md")
	require.OK(t, err)
	head, rest, _ := strings.Cut(string(data), "\noutputs:")
	inputs := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^  (\w+):$`).FindAllStringSubmatch(head, -1) {
		inputs[m[1]] = true
		if !strings.Contains(string(page), "| `"+m[1]+"` |") {
			t.Errorf("docs/approvals-as-code.md does not describe the input %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`inputs\.(\w+)`).FindAllStringSubmatch(rest, -1) {
		if !inputs[m[1]] {
			t.Errorf("a step uses the input %s, which the action does not have", m[1])
		}
	}
	if len(inputs) != 4 {
		t.Errorf("the action has the inputs %v", inputs)
	}
}

func TestActionChecksARealGateway(t *testing.T) {
	access := programtest.Tokens()
	k := newKeeper(t, access.Env)
	k.Admin = access.Admin
	s := k.session()
	s.env[client.TokenVariable] = access.Admin
	s.must(0, "approvals", "write", k.file, "--url", k.URL)
	do := steps(t)
	r := newRunner(t, "LOCK_FILE="+k.file, "GATEWAY="+k.URL,
		client.TokenVariable+"="+access.Admin, asProgram+"=1")
	self, err := os.Executable()
	require.OK(t, err)
	require.OK(t, os.Symlink(self, filepath.Join(r.dir, "bin", "portcullis")))
	if out, code := r.run(do["Check"]); code != 0 || !strings.Contains(r.file("output"), "code=0\n") || !strings.Contains(r.file("summary"), "no drift") {
		t.Fatalf("without drift: %d, %s%s", code, out, r.file("output"))
	}
	k.update()
	if out, code := r.run(do["Check"]); code != 0 || !strings.HasSuffix(r.file("output"), "code=3\nmarkdown="+filepath.Join(r.dir, "portcullis-approvals.md")+"\n") || !strings.Contains(r.file("summary"), "+ quickly") {
		t.Fatalf("with drift: %d, %s%s", code, out, r.file("output"))
	}
	if _, code := r.run(do["Result"], "CODE=3"); code != 3 {
		t.Errorf("the step Result exits with %d, want 3", code)
	}
	testComment(r, do["Comment"])
	if out, code := r.run(do["Check"], client.TokenVariable+"=pct_nobody"); code != 0 || !strings.Contains(r.file("output"), "code=1\n") || strings.Contains(out, "pct_nobody") {
		t.Errorf("a wrong token: %d, %s", code, out)
	}
}

// testComment posts the Markdown, and then updates it.
func testComment(r *runner, step string) {
	r.t.Helper()
	for _, last := range []string{"", "77"} {
		r.command("gh", `for a; do printf '%s\n' "$a"; done >>gh.log; case "$*" in *paginate*) echo "`+last+`";; esac; exit 0`)
		if out, code := r.run(step, "MARKDOWN=portcullis-approvals.md", "PULL_REQUEST=12"); code != 0 {
			r.t.Errorf("comment: %d, %s", code, out)
		}
	}
	log := r.file("gh.log")
	for _, want := range []string{"POST\nrepos/acme/gate/issues/12/comments\n--field\nbody=@", "PATCH\nrepos/acme/gate/issues/comments/77\n--field\nbody=@"} {
		if !strings.Contains(log, want) {
			r.t.Errorf("gh was not called with %q:\n%s", want, log)
		}
	}
	if body := r.file("portcullis-comment.md"); !strings.HasPrefix(body, "<!-- portcullis approvals check -->\n## Approvals: ") || len(body) > 65_536 || len(body) > lockfile.MaxMarkdown+100 {
		r.t.Errorf("the comment is\n%s", body)
	}
}

func TestActionInstallsWhatHasTheChecksum(t *testing.T) {
	r := newRunner(t)
	do := steps(t)["Install"]
	release := filepath.Join(r.dir, "releases", "v1.2.3")
	require.OK(t, os.MkdirAll(release, 0o755))
	archive := fmt.Sprintf("portcullis_1.2.3_%s_%s.tar.gz", runtime.GOOS, runtime.GOARCH)
	r.command("portcullis", "echo portcullis v1.2.3")
	if out, code := r.run("tar -czf releases/v1.2.3/" + archive + " -C bin portcullis"); code != 0 {
		t.Fatal(out)
	}
	data, err := os.ReadFile(filepath.Join(release, archive))
	require.OK(t, err)
	s := newServerOf(t, filepath.Join(r.dir, "releases"))
	env := []string{"VERSION=v1.2.3", "RELEASES=" + s}
	sums := func(sum [32]byte) {
		require.OK(t, os.WriteFile(filepath.Join(release, "checksums.txt"), fmt.Appendf(nil, "%x  other\n%x  %[3]s\n%[1]x  %[3]s.spdx.json\n", sha256.Sum256(nil), sum, archive), 0o644))
	}
	sums(sha256.Sum256([]byte("another archive")))
	if out, code := r.run(do, env...); code == 0 || r.file("path") != "" {
		t.Errorf("a wrong checksum: %d, %s", code, out)
	}
	sums(sha256.Sum256(data))
	if out, code := r.run(do, env...); code != 0 || !strings.Contains(out, "portcullis v1.2.3") || !strings.Contains(r.file("path"), r.dir) {
		t.Errorf("the right checksum: %d, %s", code, out)
	}
	require.OK(t, os.WriteFile(filepath.Join(release, "checksums.txt"), nil, 0o644))
	for want, env := range map[string][]string{"has no checksum": env, "takes the tag": {"VERSION=latest; rm -rf"}} {
		if out, code := r.run(do, env...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("want %q: %d, %s", want, code, out)
		}
	}
}

// newServerOf returns the address of a server of a folder.
func newServerOf(t *testing.T, dir string) string {
	t.Helper()
	s := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(s.Close)
	return s.URL
}
