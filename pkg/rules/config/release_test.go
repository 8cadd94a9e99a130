package config

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// command returns a command as a shell would split it; NAME= at the start is a variable.
func command(line string) *Command {
	c := &Command{Env: Values{}}
	for _, word := range strings.Fields(line) {
		if name, ok := strings.CutSuffix(word, "="); ok && c.Path == "" {
			c.Env[name] = secret.New("x")
		} else if c.Path == "" {
			c.Path = word
		} else {
			c.Args = append(c.Args, word)
		}
	}
	return c
}

func TestRelease(t *testing.T) {
	for name, test := range map[string]struct {
		one, other string
		same       bool // except for the version
	}{
		"npm":                       {"npx -y x@1.2.3", "npx -y x@1.2.4-beta.1", true},
		"npm with a scope":          {"npx @acme/x@1 /data", "npx @acme/x@2 /data", true},
		"npm without a version":     {"npx x", "npx x@1.2.3", true},
		"npm in a flag":             {"npx -y -p x@1 bin", "npx -y -p x@2 bin", true},
		"npm in a flag with =":      {"npx --package=x@1 bin", "npx --package=x@2 bin", true},
		"bun":                       {"bunx x@1", "bunx x@2", true},
		"PyPI":                      {"uvx x==1.2.3", "uvx x==1.2.4", true},
		"PyPI with extras":          {"uvx x[cli]==1", "uvx x[cli]==2", true},
		"PyPI, uv's spelling":       {"uvx x@1", "uvx x@latest", true},
		"PyPI, from":                {"uvx --python 3.12 --from x==1 run", "uvx --python 3.12 --from x==2 run", true},
		"image":                     {"docker run -i --rm -e TOKEN acme/x:1.2 --all", "docker run -i --rm -e TOKEN acme/x:1.3 --all", true},
		"image of a registry":       {"docker run -i r.example:5000/x:1", "docker run -i r.example:5000/x:2", true},
		"image by digest":           {"podman run x@sha256:" + strings.Repeat("a", 64), "podman run x:2@sha256:" + strings.Repeat("b", 64), true},
		"on Windows":                {"npx.cmd x@1", "npx.cmd x@2", true},
		"another package":           {"npx x@1", "npx y@1", false},
		"another scope":             {"npx @acme/x@1", "npx @evil/x@1", false},
		"another argument":          {"npx x@1 /a", "npx x@1 /b", false},
		"a version as an argument":  {"npx x user@1", "npx x user@2", false},
		"another registry":          {"npx x@1", "npx --registry=https://r.example x@1", false},
		"another variable":          {"A= npx x@1", "B= npx x@2", false},
		"another program":           {"npx x@1", "/opt/npx x@2", false},
		"other extras":              {"uvx x[a]==1", "uvx x[b]==1", false},
		"another image registry":    {"docker run r.example/x:1", "docker run s.example/x:1", false},
		"another registry port":     {"docker run r.example:1/x:1", "docker run r.example:2/x:1", false},
		"another mount":             {"docker run -v /a:/a x:1", "docker run -v /b:/a x:1", false},
		"another runner's package":  {"npx x@1", "uvx x@1", false},
		"another package place":     {"npx -p x@1 x", "npx x@1 x", false},
		"a dependency in uv's with": {"uvx --with d==1 x", "uvx --with d==2 x", false},
	} {
		one, version := command(test.one).Release()
		other, next := command(test.other).Release()
		if one == "" || other == "" || (one == other) != test.same || !strings.Contains(test.one, version) || !strings.Contains(test.other, next) {
			t.Errorf("%s: %q and %q are of one family: %v", name, version, next, one == other)
		}
	}
	for _, line := range []string{
		"node x@1", "npx", "npx -y", "npx ./x", "npx github:acme/x", "npx acme/x", "npx x@npm:evil@1", "npx --call x@1", "npx --new-flag x@1",
		"uvx git+https://x.example/x", "uvx x>=1", "docker x:1", "docker run --new-flag x:1", "docker run --publish-to 127.0.0.1:80 x",
		"npx " + strings.Repeat("x", 200) + "@1",
	} {
		if family, version := command(line).Release(); family != "" || version != "" {
			t.Errorf("Release of %.40q finds the version %q, want none", line, version)
		}
	}
}
