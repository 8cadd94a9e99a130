package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A launch is the program run on a folder, with what it prints.
type launch struct {
	out, log *syncBuffer
	end      func()
}

// launchOn starts the program as main does and waits for its first banner.
func launchOn(t *testing.T, dir string, args ...string) *launch {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &launch{out: &syncBuffer{}, log: &syncBuffer{}}
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, append([]string{"serve", "--dir", dir, "--addr", "127.0.0.1:0"}, args...), &environment{getenv: noEnv, stdout: l.out, stderr: l.log})
	}()
	over := false
	l.end = func() {
		if !over {
			over = true
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("run = %v", err)
			}
		}
	}
	t.Cleanup(l.end)
	l.waitFor(t, "portcullis is", 1)
	return l
}

func (l *launch) waitFor(t *testing.T, text string, times int) {
	t.Helper()
	eventually(t, "it prints "+text, func() bool { return strings.Count(l.out.String(), text) >= times })
}

// asked returns what /healthz says, and what a search says that finds nothing.
func (l *launch) asked(t *testing.T) string {
	t.Helper()
	base := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(l.out.String())
	r, err := http.Get(base + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	health, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := (&program{t: t, base: base}).call("retrieve_tools", map[string]any{"query": "zebra"})
	text := regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d UTC`).ReplaceAllString(found.Text, "TIME UTC")
	return fmt.Sprintf("\nGET /healthz\n  %d %s\nretrieve_tools\n  %s\n", r.StatusCode, health, text)
}

// plain returns what was printed without what differs from run to run.
func (l *launch) plain(dir string) string {
	text := strings.ReplaceAll(l.out.String(), dir, "DIR")
	text = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "127.0.0.1:PORT")
	text = regexp.MustCompile(`code=[\w-]{43}`).ReplaceAllString(text, "code=CODE")
	return regexp.MustCompile(`version [0-9a-f]{12}\b`).ReplaceAllString(text, "version VERSION")
}

// configOf is a config of these servers: name → url, and then settings.
func configOf(servers ...string) string {
	var list []string
	for _, s := range servers {
		name, rest, _ := strings.Cut(s, " ")
		url, more, _ := strings.Cut(rest, " ")
		list = append(list, fmt.Sprintf("    %q: {\"url\": %q%s}", name, url, more))
	}
	return "{\n  \"mcpServers\": {\n" + strings.Join(list, ",\n") + "\n  }\n}\n"
}

const brokenConfig = `{
  "mcpServers": {"s": {"urll": "https://mcp.example.com/mcp", "timeout": 5}}
}
`

// What the program prints at its start is true, and says what to do next; /healthz and a
// search that finds nothing say the same.
func TestBanner(t *testing.T) {
	good := func(t *testing.T) *upstreamtest.Server {
		return upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{
			upstreamtest.Tool("ping", "Answer a ping.", `{"readOnlyHint":true}`), upstreamtest.Tool("pong", "Answer a pong.", `{}`),
		}})
	}
	bare := func(t *testing.T) *upstreamtest.Server { return upstreamtest.New(t, upstreamtest.Options{}) }
	dead := func(t *testing.T) *upstreamtest.Server { s := good(t); s.Refuse(); return s }
	before := func(t *testing.T, dir, config string) {
		writeConfig(t, dir, config)
		launchOn(t, dir).end()
	}
	for _, tt := range []struct {
		name string
		make func(t *testing.T, dir string)
		args []string
	}{
		{"no config", func(*testing.T, string) {}, nil},
		{"broken config", func(t *testing.T, dir string) { writeConfig(t, dir, brokenConfig) }, nil},
		{"broken config beside a last good one", func(t *testing.T, dir string) {
			before(t, dir, configOf("s "+good(t).URL))
			writeConfig(t, dir, brokenConfig)
		}, nil},
		{"broken policy", func(t *testing.T, dir string) {
			writeConfig(t, dir, configOf("s "+good(t).URL))
			writePolicy(t, dir, "@id(\"a\")\nforbid (principal, action, resource) when { resource.teir == \"read\" };\n")
		}, nil},
		{"no server", func(t *testing.T, dir string) { writeConfig(t, dir, `{"mcpServers": {}}`) }, nil},
		{"all servers down", func(t *testing.T, dir string) { writeConfig(t, dir, configOf("a "+dead(t).URL, "b "+dead(t).URL)) }, nil},
		{"all servers down that were there before", func(t *testing.T, dir string) {
			s := good(t)
			before(t, dir, configOf("s "+s.URL))
			s.Refuse()
		}, nil},
		{"all servers off", func(t *testing.T, dir string) { writeConfig(t, dir, configOf("s "+good(t).URL+` , "enabled": false`)) }, nil},
		{"empty catalog", func(t *testing.T, dir string) { writeConfig(t, dir, configOf("s "+bare(t).URL)) }, nil},
		{"ok", func(t *testing.T, dir string) { writeConfig(t, dir, configOf("s "+good(t).URL)) }, nil},
		{"ok, with one server down, one off and warnings", func(t *testing.T, dir string) {
			writeConfig(t, dir, configOf("down "+dead(t).URL, "off "+bare(t).URL+` , "enabled": false`,
				"s "+good(t).URL+` , "disabled_tools": ["nope"], "approval": "manual", "headers": {"Authorization": "Bearer 0123456789abcdef"}`))
		}, nil},
		{"required server down", func(t *testing.T, dir string) {
			s := good(t)
			before(t, dir, configOf("s "+s.URL+` , "required": true`))
			s.Refuse()
		}, nil},
		{"demo", func(*testing.T, string) {}, []string{"--demo"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tt.make(t, dir)
			l := launchOn(t, dir, tt.args...)
			file := strings.NewReplacer(",", "", " ", "_").Replace(tt.name) + ".golden"
			golden.Check(t, filepath.Join("testdata", "banner", file), l.plain(dir)+l.asked(t))
		})
	}
}

// Whoever mends what the banner complains of sees that it is mended, and nothing twice.
func TestBannerIsShownAgainWhenThingsChange(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("ping", "Answer a ping.", `{}`)}})
	dir := t.TempDir()
	l := launchOn(t, dir)
	writeConfig(t, dir, configOf("s "+s.URL))
	l.waitFor(t, "portcullis is ready", 1)
	writeConfig(t, dir, configOf("s "+s.URL)+"\n")
	eventually(t, "the changed file is synced", func() bool { return strings.Count(l.log.String(), "catalog synced") == 2 })
	writeConfig(t, dir, brokenConfig)
	l.waitFor(t, "portcullis is running, with 1 problem", 1)
	if got := strings.Count(l.out.String(), "portcullis is"); got != 3 {
		t.Errorf("%d banners, want 3:\n%s", got, l.out)
	}
}
