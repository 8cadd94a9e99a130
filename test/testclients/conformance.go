package testclients

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Requirements contains the requirement sets of the conformance suite that the tests use: one of
// each protocol.
var Requirements = []string{"2026-07-28", "2025-11-25"}

// suite is the conformance suite's program.
const suite = "node_modules/@modelcontextprotocol/conformance/dist/index.js"

// Conformance runs the server scenarios of one of the [Requirements] against a gateway at url. The
// gateway must have the server of [Everything], in direct mode without prefix. The folder has a
// list of expected failures for each front and requirement set. Each failure must be in the list,
// and each entry of the list must fail.
func Conformance(t testing.TB, url, front, requirements string) {
	t.Helper()
	out, err := run(t, suite, "server", "--url", url, "--requirements", requirements, "--expected-failures", list(front, requirements))
	_, summary, _ := bytes.Cut(out, []byte("=== SUMMARY ==="))
	summary = plain(summary)
	if err != nil || !bytes.Contains(summary, []byte("Baseline check passed")) {
		t.Fatalf("conformance %s, %s: %v\n%s", front, requirements, err, summary)
	}
	for _, entry := range entries(t, list(front, requirements), "server") { // the suite ignores entries without a scenario
		if !bytes.Contains(summary, []byte("~ "+entry+"\n")) {
			t.Errorf("conformance %s, %s: %s is listed but did not fail", front, requirements, entry)
		}
	}
	t.Logf("conformance %s, %s: %s", front, requirements, score(t, front, requirements, summary))
}

// taskScenarios are the suite's scenarios of the tasks extension, which are in no requirement set.
// The suite has one more, tasks-status-notifications, but skips it.
var taskScenarios = []string{
	"lifecycle", "capability-negotiation", "wire-fields", "request-state-removal", "mrtr-input",
	"request-headers", "dispatch-and-envelope", "required-task-error", "mrtr-composition",
}

// TaskConformance runs the scenarios of the tasks extension against a gateway at url. The gateway
// must have a server with the tools of [upstreamtest.Tasks], in direct mode without prefix.
func TaskConformance(t testing.TB, url string) {
	t.Helper()
	for _, name := range taskScenarios {
		out, err := run(t, suite, "server", "--url", url, "--scenario", "tasks-"+name)
		_, summary, ok := bytes.Cut(plain(out), []byte("Test Results:"))
		if err != nil || !ok || !bytes.Contains(summary, []byte(", 0 failed, 0 warnings")) {
			t.Errorf("scenario tasks-%s: %v\n%s", name, err, plain(out))
		}
		t.Logf("scenario tasks-%s: %s", name, bytes.TrimSpace(summary))
	}
}

// ClientConformance runs the client scenarios of one of the [Requirements] with pkg/upstream as the
// client, which signs in if a server demands it. A list contains the expected failures, as for
// [Conformance].
func ClientConformance(t testing.TB, requirements string) {
	t.Helper()
	client := build(t, "github.com/portcullis-mcp/portcullis/test/conformanceclient")
	out, err := run(t, suite, "client", "--command", client, "--requirements", requirements,
		"--expected-failures", list("client", requirements))
	out = plain(out)
	isPassed := err == nil && bytes.Contains(out, []byte("Baseline check passed"))
	if !isPassed || bytes.Contains(out, []byte("Client exited with code")) {
		t.Fatalf("client conformance, %s: %v\n%s", requirements, err, out)
	}
	t.Logf("client conformance, %s: %s", requirements, score(t, "client", requirements, out))
}

// SignInFallback runs the client scenarios for servers of 2025-03-26, which are in no requirement
// set. In these scenarios there is no metadata of the resource, or no metadata at all.
func SignInFallback(t testing.TB) {
	t.Helper()
	client := build(t, "github.com/portcullis-mcp/portcullis/test/conformanceclient")
	for _, scenario := range []string{"oauth-metadata-backcompat", "oauth-endpoint-fallback"} {
		scenario = "auth/2025-03-26-" + scenario
		out, err := run(t, suite, "client", "--command", client, "--scenario", scenario,
			"--spec-version", "2025-03-26")
		if err != nil { // the suite exits with an error if a check or the client failed
			t.Errorf("client scenario %s: %v\n%s", scenario, err, plain(out))
		}
	}
}

// list returns the path of the list of expected failures.
func list(front, requirements string) string {
	return filepath.Join(dir(), "conformance", front+"-"+requirements+".yaml")
}

// score returns a text with the number of passed scenarios of one of the [Requirements]. The suite
// counts a scenario with a warning as passed, although it has an entry in the list.
func score(t testing.TB, front, requirements string, summary []byte) string {
	t.Helper()
	listed, leg := map[string]bool{}, "server"
	if front == "client" {
		leg = front
	}
	for _, entry := range entries(t, list(front, requirements), leg) {
		scenario, _, _ := strings.Cut(entry, ":")
		listed[scenario] = true
	}
	scored, passing, warning := entries(t, filepath.Join(dir(), filepath.Dir(suite), "../requirements", requirements+".yaml"), leg), 0, 0
	for _, scenario := range scored {
		if bytes.Contains(summary, []byte("\n✓ "+scenario+":")) {
			passing++
			if listed[scenario] {
				warning++
			}
		}
	}
	return fmt.Sprintf("%d of %d scenarios pass, %d of them with a warning", passing, len(scored), warning)
}

// entries returns the entries of one list of a YAML file that contains lists of words.
func entries(t testing.TB, path, name string) (all []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.OK(t, err)
	inside := false
	for line := range strings.Lines(string(data)) {
		entry, isEntry := strings.CutPrefix(strings.TrimSpace(line), "- ")
		switch {
		case strings.HasPrefix(line, name+":"):
			inside = true
		case inside && isEntry:
			all = append(all, entry)
		case line != "\n" && line[0] != ' ' && line[0] != '#':
			inside = false
		}
	}
	return all
}

// plain removes the color codes from the output of a program.
func plain(out []byte) []byte { return regexp.MustCompile(`\x1b\[\d+m`).ReplaceAll(out, nil) }

// build builds a program of this module, or of one that it requires, and returns its path.
func build(t testing.TB, program string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), filepath.Base(program))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", bin, program)
	cmd.Dir = dir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", program, err, out)
	}
	return bin
}

// Everything starts the go-sdk's own conformance server on loopback and returns its
// address. It ends with the test.
func Everything(t testing.TB, flags ...string) string {
	t.Helper()
	addr := local.Addr(t)
	bin := build(t, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	return "http://" + serve(t, addr, exec.CommandContext(t.Context(), bin, append(flags, "-http", addr)...)) + "/"
}
