package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// waitFor waits until a text was printed this many times.
func (p *program) waitFor(text string, times int) {
	p.T.Helper()
	local.Until(p.T, "it prints "+text, func() bool { return strings.Count(p.out.String(), text) >= times })
}

// healthAndSearch returns the answers of /healthz and of a search without results.
func (p *program) healthAndSearch() string {
	p.T.Helper()
	health := p.Send("/healthz", "")
	found := p.Call("retrieve_tools", `{"query": "zebra"}`)
	text := regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d UTC`).ReplaceAllString(found.Text, "TIME UTC")
	return fmt.Sprintf("\nGET /healthz\n  %d %s\nretrieve_tools\n  %s\n", health.Status, health.Body, text)
}

// plain returns the output without the parts that differ between runs.
func (p *program) plain() string {
	text := strings.ReplaceAll(p.out.String(), p.dir, "DIR")
	text = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "127.0.0.1:PORT")
	text = regexp.MustCompile(`code=[\w-]{43}`).ReplaceAllString(text, "code=CODE")
	return regexp.MustCompile(`version [0-9a-f]{12}\b`).ReplaceAllString(text, "version VERSION")
}

// configOf returns a config of these servers: name → url, followed by settings.
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

// The start prints the true state and the next step. The answers of /healthz and of a search
// without results agree with it.
func TestBanner(t *testing.T) {
	good := func(t *testing.T) *upstreamtest.Server {
		return upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{
			upstreamtest.Tool("ping", "Answer a ping.", `{"readOnlyHint":true}`), upstreamtest.Tool("pong", "Answer a pong.", `{}`),
		}})
	}
	bare := func(t *testing.T) *upstreamtest.Server { return upstreamtest.New(t, upstreamtest.Options{}) }
	dead := func(t *testing.T) *upstreamtest.Server { s := good(t); s.Refuse(); return s }
	before := func(t *testing.T, dir, config string) {
		programtest.WriteConfig(t, dir, config)
		if err := start(t, dir).stop(); err != nil {
			t.Error(err)
		}
	}
	for _, tt := range []struct {
		name string
		make func(t *testing.T, dir string)
		args []string
	}{
		{"no config", func(*testing.T, string) {}, nil},
		{"broken config", func(t *testing.T, dir string) { programtest.WriteConfig(t, dir, brokenConfig) }, nil},
		{"broken config beside a last good one", func(t *testing.T, dir string) {
			before(t, dir, configOf("s "+good(t).URL))
			programtest.WriteConfig(t, dir, brokenConfig)
		}, nil},
		{"broken policy", func(t *testing.T, dir string) {
			programtest.WriteConfig(t, dir, configOf("s "+good(t).URL))
			programtest.WritePolicy(t, dir, "@id(\"a\")\nforbid (principal, action, resource) when { resource.teir == \"read\" };\n")
		}, nil},
		{"no server", func(t *testing.T, dir string) { programtest.WriteConfig(t, dir, `{"mcpServers": {}}`) }, nil},
		{"all servers down", func(t *testing.T, dir string) {
			var all []string
			for n := range maxShown + 2 {
				all = append(all, fmt.Sprintf("s%d %s", n, dead(t).URL))
			}
			programtest.WriteConfig(t, dir, configOf(all...))
		}, nil},
		{"all servers down that were there before", func(t *testing.T, dir string) {
			s := good(t)
			before(t, dir, configOf("s "+s.URL))
			s.Refuse()
		}, nil},
		{"all servers off", func(t *testing.T, dir string) {
			programtest.WriteConfig(t, dir, configOf("s "+good(t).URL+` , "enabled": false`))
		}, nil},
		{"empty catalog", func(t *testing.T, dir string) { programtest.WriteConfig(t, dir, configOf("s "+bare(t).URL)) }, nil},
		{"ok", func(t *testing.T, dir string) { programtest.WriteConfig(t, dir, configOf("s "+good(t).URL)) }, nil},
		{"ok, with one server down, one off and warnings", func(t *testing.T, dir string) {
			programtest.WriteConfig(t, dir, configOf("down "+dead(t).URL, "off "+bare(t).URL+` , "enabled": false`, "t "+good(t).URL,
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
			p := start(t, dir, tt.args...)
			file := strings.NewReplacer(",", "", " ", "_").Replace(tt.name) + ".golden"
			golden.Check(t, filepath.Join("testdata", "banner", file), p.plain()+p.healthAndSearch())
		})
	}
}

// After a repair the program prints the banner without the problem. It does not print the same
// banner twice.
func TestBannerShownAgain(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("ping", "Answer a ping.", `{}`)}})
	dir := t.TempDir()
	p := start(t, dir)
	programtest.WriteConfig(t, dir, configOf("s "+s.URL))
	p.waitFor("portcullis is ready", 1)
	programtest.WriteConfig(t, dir, configOf("s "+s.URL)+"\n")
	local.Until(t, "the changed file is synced", func() bool { return strings.Count(p.log.String(), "catalog synced") == 2 })
	programtest.WriteConfig(t, dir, brokenConfig)
	p.waitFor("portcullis is running, with 1 problem", 1)
	if got := strings.Count(p.out.String(), "portcullis is"); got != 3 {
		t.Errorf("%d banners, want 3:\n%s", got, p.out)
	}
}
