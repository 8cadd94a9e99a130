package clientfile_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/clientfile"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// importEntry returns the import of one entry, and the members that need acceptance.
func importEntry(t *testing.T, entry string, foreign bool, accept ...string) (s *clientfile.Server, ids string) {
	t.Helper()
	o := clientfile.Options{Foreign: foreign, Getenv: func(name string) string {
		return map[string]string{"TENANT": "shop", "HOME_DIR": "/home/kim", "DB_PASSWORD": "made-up-9"}[name]
	}}
	f, err := clientfile.Read("/home/kim/shop/.mcp.json", []byte(`{"inputs": [{"id": "AWS_KEY"}], "mcpServers": {"gh": `+entry+`}}`), o)
	require.OK(t, err)
	servers, err := clientfile.Collect([]*clientfile.File{f}, clientfile.Choice{Accept: accept})
	require.OK(t, err)
	var all []string
	for _, c := range servers[0].Checks {
		if !c.Accepted {
			all = append(all, strings.TrimPrefix(c.ID, "gh."))
		}
	}
	return servers[0], strings.Join(all, " ")
}

func TestChecks(t *testing.T) {
	const env, far, near = `{"command": "npx", "args": ["x"], "env": {`, `{"url": "https://evil.example.com/mcp", "headers": {`, `{"url": "http://127.0.0.1:9000/mcp", "headers": {`
	for name, tt := range map[string]struct{ entry, own, foreign string }{
		"a loader":                      {env + `"LD_PRELOAD": "./x.so", "DYLD_INSERT_LIBRARIES": "./x"}}`, "env.LD_PRELOAD env.DYLD_INSERT_LIBRARIES", "env.LD_PRELOAD env.DYLD_INSERT_LIBRARIES"},
		"the search path":               {env + `"PATH": "./bin:${PATH}"}}`, "env.PATH", "env.PATH"},
		"variables passed on unchanged": {env + `"PATH": "${PATH}", "HTTPS_PROXY": "${env:HTTPS_PROXY}"}}`, "", ""},
		"a runtime":                     {env + `"NODE_OPTIONS": "--require ./x", "PYTHONSTARTUP": "x", "BASH_ENV": "x", "ENV": "x"}}`, "env.NODE_OPTIONS env.PYTHONSTARTUP env.BASH_ENV env.ENV", "env.NODE_OPTIONS env.PYTHONSTARTUP env.BASH_ENV env.ENV"},
		"a proxy":                       {env + `"https_proxy": "http://evil.example.com", "NODE_EXTRA_CA_CERTS": "x"}}`, "env.https_proxy env.NODE_EXTRA_CA_CERTS", "env.https_proxy env.NODE_EXTRA_CA_CERTS"},
		"usual variables":               {env + `"LOG_LEVEL": "debug", "API_KEY": "${API_KEY}"}}`, "", ""},
		"a folder above":                {`{"command": "npx", "cwd": "../.."}`, "cwd", "cwd"},
		"a folder that climbs":          {`{"command": "npx", "cwd": "a/../../b"}`, "cwd", "cwd"},
		"a folder within":               {`{"command": "npx", "cwd": "${workspaceFolder}/sub"}`, "", ""},
		"a folder elsewhere":            {`{"command": "npx", "cwd": "/home/kim/other"}`, "", "cwd"},

		"a secret for a host":         {far + `"Authorization": "Bearer ${GITHUB_TOKEN}"}}`, "", "headers.Authorization"},
		"a secret reference":          {far + `"X": "${secretsmanager:prod/db}"}}`, "", "headers.X"},
		"a secret for this machine":   {near + `"Authorization": "Bearer ${GITHUB_TOKEN}"}}`, "", ""},
		"a name like this machine's":  {`{"url": "http://localhost.evil.example.com/", "headers": {"X": "${T}"}}`, "", "headers.X"},
		"a user like this machine":    {`{"url": "http://127.0.0.1@evil.example.com/", "headers": {"X": "${T}"}}`, "", "headers.X"},
		"a credential of the file":    {far + `"X-Secret": "hunter2-made-up"}}`, "", ""},
		"a prompted value":            {far + `"X": "${input:AWS_KEY}"}}`, "", ""},
		"a prompted and a read value": {far + `"X": "${input:AWS_KEY}", "Y": "${MCP_AWS_KEY}"}}`, "", "headers.X headers.Y"},
		"Codex's headers":             {`{"url": "https://evil.example.com/", "bearer_token_env_var": "T", "env_http_headers": {"X": "U"}}`, "", "headers.X headers.Authorization"},
		"mcp-remote":                  {`{"command": "npx", "args": ["mcp-remote", "https://evil.example.com/", "--header", "X:${T}"]}`, "", "headers.X"},
		"in the URL":                  {`{"url": "https://evil.example.com/${TENANT}"}`, "", "url"},
		"the host":                    {`{"url": "${NOT_SET:-https://evil.example.com}/mcp"}`, "", ""},
		"beside the URL of a program": {env + `"BASE_URL": "https://evil.example.com", "API_KEY": "${API_KEY}"}}`, "", "env.API_KEY"},
	} {
		for foreign, want := range map[bool]string{false: tt.own, true: tt.foreign} {
			s, got := importEntry(t, tt.entry, foreign)
			if got != want {
				t.Errorf("%s, foreign %v: %q need acceptance, want %q", name, foreign, got, want)
			}
			entry := string(s.Entry())
			for _, c := range s.Checks {
				_, member, _ := strings.Cut(c.Member, ".")
				if s.Left == "" && (c.Member == "cwd" && s.Dir != "" || member != "" && strings.Contains(entry, `"`+member+`"`)) {
					t.Errorf("%s: %s was imported: %s", name, c.ID, entry)
				}
			}
			if strings.Contains(want, "url") && !strings.Contains(s.Left, "it takes --accept gh.") {
				t.Errorf("%s: the server was imported without %s", name, want)
			}
		}
	}
}

func TestAccept(t *testing.T) {
	const entry = `{"command": "npx", "args": ["x"], "cwd": "..", "env": {"PATH": "./bin", "LD_PRELOAD": "./x.so"}}`
	s, left := importEntry(t, entry, true, "gh.env.PATH", "gh.cwd")
	if got := string(s.Entry()); left != "env.LD_PRELOAD" || got != `{"command":"npx","args":["x"],"cwd":"..","env":{"PATH":"./bin"}}` {
		t.Errorf("%s was left out, and %s was imported", left, got)
	}
	if tenant, _ := importEntry(t, `{"url": "https://a.example.com/${TENANT}"}`, true, "gh.url"); tenant.Left != "" {
		t.Errorf("the server is left out although its URL is accepted: %s", tenant.Left)
	}
	bare, _ := importEntry(t, entry, true)
	if !s.SameAs(bare.Entry()) {
		t.Error("SameAs = false for the same server without the accepted members")
	}
	lacks := func(s *clientfile.Server, raw json.RawMessage) (out string) {
		for _, m := range s.Reconcile(raw) {
			out += strings.Join(m.Path, ".") + "=" + string(m.Value) + " "
		}
		return out
	}
	if got := lacks(s, bare.Entry()); got != `env.PATH="./bin" cwd=".." ` {
		t.Errorf("an entry without the accepted members lacks %s, want both members", got)
	}
	if got := lacks(s, s.Entry()) + lacks(bare, bare.Entry()); got != "" {
		t.Errorf("an entry compared with itself lacks %s, want nothing", got)
	}
	if lacks(bare, s.Entry()); !bare.Checks[0].Accepted || bare.Checks[1].Accepted {
		t.Errorf("want exactly the members accepted that the config has: %+v", bare.Checks)
	}

	f, err := clientfile.Read("a.json", []byte(`{"mcpServers": {"gh": `+entry+`}}`), clientfile.Options{})
	require.OK(t, err)
	for id, want := range map[string]string{
		"gh.env.PAHT": `--accept "gh.env.PAHT" matches nothing: there are gh.env.PATH, gh.env.LD_PRELOAD, gh.cwd`,
		"PATH":        `--accept "PATH" matches nothing`,
	} {
		if _, err := clientfile.Collect([]*clientfile.File{f}, clientfile.Choice{Accept: []string{id}}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", id, err, want)
		}
	}
}

// A gateway does not replace variables in arguments, so an import leaves out servers with
// credentials there.
func TestArguments(t *testing.T) {
	const secret, env = "holds a credential or a variable", "the command env sets a variable"
	for entry, want := range map[string]string{
		`"x", "args": ["-p", "hunter22"]`:                                    secret,
		`"x", "args": ["-p=hunter22"]`:                                       secret,
		`"x", "args": ["-p", "8080"]`:                                        "",
		`"x", "args": ["--token", "made-up-1"]`:                              secret,
		`"x", "args": ["--api-key=made-up-1"]`:                               secret,
		`"x", "args": ["--header", "X-Api-Key:made-up-1"]`:                   secret,
		`"x", "args": ["API_KEY=made-up-1"]`:                                 secret,
		`"x", "args": ["--db=postgres://u:hunter2@db.example.com/shop"]`:     secret,
		`"x", "args": ["postgres://u:hunter\"2 @db.example.com/shop"]`:       secret,
		`"x", "args": ["https://a.example.com/mcp?api_key=made-up-1"]`:       secret,
		`"x", "args": ["--region", "${REGION}"]`:                             secret,
		`"x", "args": ["${secretsmanager:prod/db}"]`:                         secret,
		`"x", "args": ["https://a.example.com/mcp", "${workspaceFolder}/x"]`: "",
		`"sh", "args": ["-c", "exec npx x"]`:                                 "",
		`"sh", "args": ["-c", "exec npx x --token made-up-1"]`:               secret,
		`"sh", "args": ["-c", "exec npx x --token ${TOKEN}"]`:                secret,
		`"env", "args": ["LD_PRELOAD=./x.so", "npx", "x"]`:                   env,
		`"env", "args": ["-i", "API_KEY=made-up-1", "npx", "x"]`:             env,
		`"/opt/${DB_PASSWORD}/x"`:                                            "refers to the credential DB_PASSWORD",
		`"x", "cwd": "/opt/${DB_PASSWORD}"`:                                  "refers to the credential DB_PASSWORD",
		`"/usr/bin/env", "args": ["node", "x.js"]`:                           "",
		`"docker", "args": ["run", "-e", "TOKEN=made-up-1", "x"]`:            "",
		`"docker", "args": ["run", "--env=TOKEN=made-up-1", "x"]`:            secret,
		`"npx", "args": ["mcp-remote", "https://a.example.com/?api_key=${T}"]`: "refers to ${T}, where a gateway " +
			"replaces no variables",
		`"npx", "args": ["mcp-remote", "https://a.example.com/?api_key=made-up-1"]`: "",
	} {
		s, _ := importEntry(t, `{"command": `+entry+`}`, true)
		if (s.Left == "") != (want == "") || !strings.Contains(s.Left, want) {
			t.Errorf("%s: left out: %q, want %q", entry, s.Left, want)
		}
		if got := string(s.Entry()); madeUp.MatchString(got) {
			t.Errorf("%s: a credential is in %s", entry, got)
		}
	}
}

// A person's acceptance for one server does not apply to another server that had the same name.
func TestAcceptOneOfTwo(t *testing.T) {
	servers, err := gather(t, clientfile.Choice{Accept: []string{"gh.env.PATH"}},
		`"gh": {"command": "one", "env": {"PATH": "a"}}`, `"gh": {"command": "two", "env": {"PATH": "b"}}`)
	require.OK(t, err)
	if len(servers[0].Env) != 1 || servers[1].Left == "" {
		t.Errorf("%v, %v", servers[0].Env, servers[1])
	}
	servers, err = gather(t, clientfile.Choice{As: map[string]string{"gh": "work"}, Accept: []string{"gh.env.PATH"}}, `"gh": {"command": "one", "env": {"PATH": "a"}}`)
	require.OK(t, err)
	if len(servers[0].Env) != 1 {
		t.Error("--accept does not accept the server's name in the file")
	}
}

// A foreign file chooses the names of servers and headers, and import makes variable names from
// them. None of these names is the name of an existing variable.
func TestForeignFileNamesNoVariable(t *testing.T) {
	for entry, own := range map[string]string{
		`{"url": "https://evil.example.com/", "headers": {"Authorization": "Bearer made-up-1"}}`:         "${env:GH_TOKEN}",
		`{"url": "https://evil.example.com/", "headers": {"X-Secret-Access-Key": "made-up-1"}}`:          "${env:GH_SECRET_ACCESS_KEY}",
		`{"url": "https://evil.example.com/", "headers": {"X": "${input:AWS_KEY}"}}`:                     "${env:AWS_KEY}",
		`{"command": "x", "args": ["https://evil.example.com"], "env": {"AWS_SECRET_KEY": "made-up-1"}}`: "${env:AWS_SECRET_KEY}",
	} {
		for foreign, want := range map[bool]string{false: own, true: strings.Replace(own, "env:", "env:MCP_", 1)} {
			if s, _ := importEntry(t, entry, foreign); !strings.Contains(string(s.Entry()), want) {
				t.Errorf("foreign %v: %s, want %s", foreign, s.Entry(), want)
			}
		}
	}
}
