package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// TestParseLaptop parses a laptop's config file, which other programs also read and write.
func TestParseLaptop(t *testing.T) {
	cfg, err := Parse(read(t, "testdata/laptop.json"))
	require.OK(t, err)
	var got []string
	for _, s := range cfg.Servers {
		line := s.Name
		if s.Command != nil {
			line += " $ " + s.Command.Display()
		}
		if !s.Enabled {
			line += " (off)"
		}
		got = append(got, line)
	}
	want := []string{
		"claude $ npx -y @modelcontextprotocol/server-filesystem /Users/me/Desktop \"/Users/me/My Documents\"",
		"cline $ uvx mcp-server-time --local-timezone=Europe/Berlin",
		"cline-remote",
		"code $ /usr/local/bin/server --root ${workspaceFolder}",
		"cursor $ node server.js --api-key [secret]",
		"old",
		"windsurf $ docker run -i --rm -e TOKEN mcp/thing (off)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	var warnings []string
	for _, w := range cfg.Warnings {
		warnings = append(warnings, w.Path+": "+w.Message)
	}
	wantWarnings := []string{
		"mcpServers.cline.autoApprove: key of another program, without effect here: approval, lists and policy decide which tools may be called",
		"mcpServers.cursor.args[2]: seems to hold a credential, and every process on the machine can read a program's arguments; put it into a variable in env",
		"mcpServers.cursor.env.API_KEY: seems to be a credential written in clear; write ${secretsmanager:name}, ${ssm:/name} or ${env:NAME}",
		"mcpServers.code.args[1]: contains ${…}, which is replaced only in env and headers: the program gets it unchanged",
		"mcpServers.code.envFile: key of another program, without effect here: the gateway does not read this file; put the variables into env",
		"mcpServers.old.type: the gateway does not support the sse transport and tries streamable HTTP at this url; if that fails, find the server's url for streamable HTTP, often …/mcp",
		"mcpServers.old.env: belongs to a server with a command and is not used",
	}
	if diff := cmp.Diff(wantWarnings, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	code, _ := cfg.Server("code")
	if diff := cmp.Diff(&Command{Path: "/usr/local/bin/server", Args: []string{"--root", "${workspaceFolder}"}, Dir: "/srv", Env: Values{"A": secret.New("x-${env:A}")}}, code.Command); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	if v := code.Variables(); len(v) != 1 || v[0] != (Variable{"A", "mcpServers.code.env.A"}) {
		t.Errorf("Variables = %v", v)
	}
	if strings.Contains(cfg.Warnings.Error(), "k3y-in-clear") {
		t.Errorf("a warning shows a secret: %v", cfg.Warnings)
	}
}

func TestParseRefusesCommands(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		want      []string
	}{
		{"the type stdio", withServer(`"type": "stdio"`), []string{"mcpServers.s.type: a stdio server has a command and no url"}},
		{"another type", withServer(`"transport": "ws"`), []string{`mcpServers.s.transport: "ws" is not a transport; want http, streamable-http or stdio`}},
		{"a command and a url", withServer(`"command": "npx"`), []string{"mcpServers.s.command: conflicts with url: a server has either url or command"}},
		{"an empty command", withCommand(`"command": " "`), []string{"mcpServers.s.command: is empty"}},
		{"a command as a list", withCommand(`"command": ["npx", "x"]`), []string{"mcpServers.s.command: want a string, found an array"}},
		{"a command behind HTTP", withCommand(`"command": "npx", "type": "http"`), []string{`mcpServers.s.type: "http" does not work with a command, which uses stdio`}},
		{"zero bytes", withCommand(`"command": "a\u0000", "args": ["b", "\u0000"], "env": {"A": "\u0000", "B=": "", "": ""}, "cwd": "\u0000"`), []string{
			"mcpServers.s.command: holds a zero byte",
			"mcpServers.s.args[1]: holds a zero byte",
			"mcpServers.s.env.A: holds a zero byte",
			`mcpServers.s.env["B="]: is not the name of a variable`,
			`mcpServers.s.env[""]: is not the name of a variable`,
			"mcpServers.s.cwd: holds a zero byte",
		}},
		{"references of other programs", withCommand(`"command": "npx", "env": {"A": "${TOKEN}", "B": "${input:key}"}`), []string{
			"mcpServers.s.env.A: holds a ${…} without its kind; write ${env:NAME}, ${ssm:/name} or ${secretsmanager:name}",
			"mcpServers.s.env.B: holds a ${…} of an unknown kind; there are env, ssm and secretsmanager",
		}},
		{"a number as a variable", withCommand(`"command": "npx", "env": {"PORT": 80}`), []string{"mcpServers.s.env.PORT: want a string, found a number"}},
		{"on and off", withServer(`"enabled": true, "disabled": true`), []string{"mcpServers.s.disabled: contradicts enabled; remove one of these keys"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, faultsOf(t, tt.src)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommandIdentity(t *testing.T) {
	identity := func(keys string) string {
		t.Helper()
		cfg, err := Parse([]byte(withCommand(keys)))
		require.OK(t, err)
		return cfg.Servers[0].URL
	}
	one := identity(`"command": "npx", "args": ["-y", "a"], "cwd": "/x"`)
	if len(one) != len("cmd:")+64 || !strings.HasPrefix(one, "cmd:") {
		t.Errorf("identity %q", one)
	}
	for _, same := range []string{
		`"args": ["-y", "a"], "cwd": "/x", "command": "npx", "type": "stdio"`,
		`"command": "npx", "args": ["-y", "a"], "cwd": "/x", "env": {"A": "b"}, "timeout": "5s"`,
	} {
		if got := identity(same); got != one {
			t.Errorf("%s has another identity", same)
		}
	}
	for _, other := range []string{
		`"command": "npx", "args": ["-y", "a"]`, `"command": "npx", "args": ["-y a"], "cwd": "/x"`, `"command": "npx", "args": ["-y", "b"], "cwd": "/x"`,
		`"command": "npy", "args": ["-y", "a"], "cwd": "/x"`, `"command": "npx", "args": ["a", "-y"], "cwd": "/x"`, `"command": "npx", "args": ["-y", "a"], "cwd": "/y"`,
	} {
		if identity(other) == one {
			t.Errorf("%s has the same identity", other)
		}
	}
	if identity(`"command": "a"`) != identity(`"command": "a", "args": []`) {
		t.Error("no args and an empty list of args have different identities")
	}
}

func TestCommandShown(t *testing.T) {
	for want, args := range map[string][]string{
		"p":                                nil,
		"p --token=[secret] -v":            {"--token=abc", "-v"},
		"p --token [secret] x":             {"--token", "abc", "x"},
		"p --auth --verbose":               {"--auth", "--verbose"},
		"p --passwd [secret]":              {"--passwd", "abc"},
		"p --pwd=[secret]":                 {"--pwd=abc"},
		"p --session [secret]":             {"--session", "abc"},
		"p --signature [secret]":           {"--signature", "abc"},
		"p -p [secret]":                    {"-p", "hunter22"},
		"p -p 31415926":                    {"-p", "31415926"},
		`p -H "Cookie: [secret]"`:          {"-H", "Cookie: abc"},
		`sh -c "x --token '[secret]'"`:     {"-c", "x --token 'abc'"},
		`sh -c [secret]`:                   {"-c", `x --token a"b"c`},
		"p API_KEY=[secret]":               {"API_KEY=abc"},
		"p [secret]":                       {"sk_live_0123456789abcdef"},
		"p postgres://[secret]@db:5432/x":  {"postgres://me:pw@db:5432/x"},
		"p --db=https://h/p?[secret]":      {"--db=https://h/p?key=1#f"},
		"p @scope/a-long-package-name@1.2": {"@scope/a-long-package-name@1.2"},
		`p "" "two words"`:                 {"", "two words"},
	} {
		path, _, _ := strings.Cut(want, " ")
		if got := (&Command{Path: path, Args: args}).Display(); got != want {
			t.Errorf("Display of %q = %s, want %s", args, got, want)
		}
	}
}
