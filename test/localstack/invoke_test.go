package localstack

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// wantOf returns the expected answer to the event of a file: a status or the result of a sync.
func wantOf(event string) string {
	folder, name := filepath.Split(strings.TrimPrefix(event, "events/"))
	switch {
	case name == "eventbridge-catalog.json":
		return "skipped"
	case folder == "":
		return "ok"
	case name == "comma-header.json": // no server has the resource
		return "400"
	case name == "options.json": // env.json allows no origin
		return "403"
	case name == "get.json":
		return "405"
	}
	return "200"
}

// TestInvokeAnswersEveryEvent passes every file of events/ to `make invoke`, which builds each
// function once and starts it with the committed env.json.
func TestInvokeAnswersEveryEvent(t *testing.T) {
	beside(t, "PORTCULLIS_SAM", "python")
	b := newBackground(t)
	t.Cleanup(func() { _, _, _ = b.run(t, "down") })
	if _, said, err := b.run(t, "up"); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	b.configure(t)
	var events []string
	for _, pattern := range []string{"events/*.json", "events/*/*.json"} {
		files, err := filepath.Glob(repo.Path(pattern))
		require.OK(t, err)
		for _, file := range files {
			event, err := filepath.Rel(repo.Path("."), file)
			require.OK(t, err)
			events = append(events, event)
		}
	}
	if len(events) < 20 {
		t.Fatalf("found %d events: the search is broken", len(events))
	}

	cmd := exec.CommandContext(t.Context(), "make", "--silent", "invoke", "EVENT="+strings.Join(events, " "), "BUILD_DIR="+t.TempDir())
	cmd.Dir, cmd.Env = repo.Path("."), slices.Concat(b.env, []string{"MAKEFLAGS="})
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("make invoke: %v\n%s\n%s", err, out.String(), said.String())
	}
	for _, function := range []string{"SyncFunction", "McpFunction"} {
		if runs := function + " runs on MiniStack"; strings.Count(said.String(), runs) != 1 {
			t.Errorf("make invoke does not say %q once:\n%s", runs, said.String())
		}
	}
	slices.SortStableFunc(events, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	answers := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(answers) != len(events) {
		t.Fatalf("%d events have %d answers:\n%s", len(events), len(answers), out.String())
	}
	for i, event := range events {
		a := require.JSON[struct {
			StatusCode int
			Result     string
		}](t, answers[i])
		got := a.Result
		if got == "" {
			got = strconv.Itoa(a.StatusCode)
		}
		if want := wantOf(event); got != want {
			t.Errorf("%s answers %s, want %s: %s", event, got, want, answers[i])
		}
	}
	t.Logf("make invoke: %d events ran on MiniStack", len(events)) // .ci/run prints it
}

// configure replaces the example config, because its server is on the internet.
func (b background) configure(t *testing.T) {
	t.Helper()
	server := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("ask_question", "Ask a question.", `{"readOnlyHint":true}`)}})
	objects := at(fmt.Sprintf("http://127.0.0.1:%d", b.port)).objects
	o, err := objects.Get(t.Context(), config.Key, "")
	require.OK(t, err)
	_, err = objects.Put(t.Context(), config.Key, []byte(`{"mcpServers":{"deepwiki":{"url":"`+server.URL+`"}}}`), o.ETag)
	require.OK(t, err)
}

// TestEnvStartsAdmin starts the function that none of the events above reaches. It uses the
// committed env.json, and changes only the address of the emulator.
func TestEnvStartsAdmin(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(home, "env.json"))
	require.OK(t, err)
	env := require.JSON[struct{ Parameters map[string]string }](t, data).Parameters
	env["PORTCULLIS_AUTH"] = "none" // the template sets this from AuthMode
	env["AWS_ENDPOINT_URL"] = "http://127.0.0.1:1"
	programs := lambdatest.Build(t, repo.Path("."), "admin")
	if f := lambdatest.Start(t, filepath.Join(programs, "admin"), env); !f.Ready() {
		t.Errorf("admin does not start: %s", f.Output())
	}
}
