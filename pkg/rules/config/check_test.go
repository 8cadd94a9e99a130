package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestParseRefusesWhatItCannotUse(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		want      []string
	}{
		{"neither url nor command", `{"mcpServers": {"s": {}}}`, []string{"mcpServers.s.url: is missing, and so is command"}},
		{"an empty url", withURL(""), []string{"mcpServers.s.url: begins with neither https:// nor http://"}},
		{"another scheme", withURL("file:///etc/passwd"), []string{"mcpServers.s.url: begins with neither https:// nor http://"}},
		{"a relative url", withURL("//s.example/mcp"), []string{"mcpServers.s.url: begins with neither https:// nor http://"}},
		{"no host", withURL("https:///mcp"), []string{"mcpServers.s.url: has no host"}},
		{"a port alone", withURL("https://:443/mcp"), []string{"mcpServers.s.url: has no host"}},
		{"an empty port", withURL("https://s.example:/mcp"), []string{"mcpServers.s.url: has a port that is not 1 to 65535"}},
		{"port 0", withURL("https://s.example:0/mcp"), []string{"mcpServers.s.url: has a port that is not 1 to 65535"}},
		{"a port too high", withURL("https://s.example:65536/mcp"), []string{"mcpServers.s.url: has a port that is not 1 to 65535"}},
		{"a space", withURL("https://s.example/a b"), []string{"mcpServers.s.url: is not a URL"}},
		{"a broken escape", withURL("https://s.example/%zz"), []string{"mcpServers.s.url: is not a URL"}},
		{"a user", withURL("https://me:hunter2@s.example/mcp"), []string{"mcpServers.s.url: holds a user or password; write them as an Authorization header"}},
		{"a fragment", withURL("https://s.example/mcp#x"), []string{"mcpServers.s.url: has a fragment (#…), which is never sent"}},
		{"a reference", withURL("https://${env:HOST}/mcp"), []string{"mcpServers.s.url: holds ${…}, which is replaced in headers only"}},

		{"unreadable timeouts", withServer(`"timeout": "20"`), []string{`mcpServers.s.timeout: "20" is not a duration; write it like "1500ms" or "20s"`}},
		{"a timeout of zero", withServer(`"timeout": "0s"`), []string{`mcpServers.s.timeout: "0s" is not above zero`}},
		{"a negative timeout", withServer(`"timeout": "-1s"`), []string{`mcpServers.s.timeout: "-1s" is not above zero`}},
		{"a timeout too long", withServer(`"timeout": "10m1s"`), []string{`mcpServers.s.timeout: "10m1s" is longer than 10m, the most that a call may take`}},
		{"an unknown protocol", withServer(`"protocol": "2026-07-28"`), []string{`mcpServers.s.protocol: "2026-07-28" is not one of auto, 2025-11-25`}},
		{"an unknown way to ask", withServer(`"elicitation": true`), []string{`mcpServers.s.elicitation: want a string, found true or false`}},
		{"another unknown way to ask", withServer(`"elicitation": "ask"`), []string{`mcpServers.s.elicitation: "ask" is not one of relay, replay, off`}},
		{"an unknown approval mode", withServer(`"approval": "never"`), []string{`mcpServers.s.approval: "never" is not one of on_change, manual, off`}},
		{"an empty approval mode", withServer(`"approval": ""`), []string{`mcpServers.s.approval: "" is not one of on_change, manual, off`}},
		{"an unknown session", withServer(`"session": "person"`), []string{`mcpServers.s.session: "person" is not one of agent, shared`}},
		{"an unknown proxy", withServer(`"behind_proxy": "nginx"`), []string{`mcpServers.s.behind_proxy: "nginx" is not one of envoy`}},
		{"unknown answers", withServers(`, "gateway": {"mode": "proxy", "notice": "never", "locked": "hidden", "ranking": "bm25"}`, "s"), []string{
			`gateway.mode: "proxy" is not one of search, direct`,
			`gateway.notice: "never" is not one of best, zero`,
			`gateway.locked: "hidden" is not one of error, result`,
			`gateway.ranking: "bm25" is not one of fused, lexical`,
		}},
		{"no process for an agent", withServers(`, "gateway": {"programs": {"max_per_agent": 0}}`, "s"), []string{
			`gateway.programs.max_per_agent: is not a number of processes from 1 to 64`,
		}},
		{"no name of a variable", withServers(`, "gateway": {"programs": {"env": ["A_1", "A=b"]}}`, "s"), []string{
			`gateway.programs.env[1]: is not the name of a variable, such as HTTP_PROXY`,
		}},
		{"more processes for one than for all", withServers(`, "gateway": {"programs": {"max_per_agent": 65, "max": 64}}`, "s"), []string{
			`gateway.programs.max_per_agent: is not a number of processes from 1 to 64`,
			`gateway.programs.max: unknown key`,
		}},
		{"unknown reviews", withServers(`, "review": {"remember": "always", "findings": "hide", "four_hands": "destructive"}`, "s"), []string{
			`review.remember: "always" is not one of ask, auto`,
			`review.findings: "hide" is not one of show, wait`,
			`review.four_hands: unknown key`,
		}},
		{"no prefix in search mode", withServers(`, "gateway": {"prefix": false}`, "s"), []string{
			`gateway.prefix: only direct mode has a prefix to leave out`,
		}},
		{"no prefix with two servers", withServers(`, "gateway": {"mode": "direct", "prefix": false}`, "s", "t"), []string{
			`gateway.prefix: with 2 servers two tools could have one name without the prefix; only a single server needs no prefix`,
		}},

		{"bad globs", withServer(`"enabled_tools": ["", "get file"], "disabled_tools": ["s:delete_*", "[a-z]"], "annotations": {"a?": {}}`), []string{
			`mcpServers.s.enabled_tools[0]: "" is not a glob: 1 to 128 of A-Z a-z 0-9 _ . - and *`,
			`mcpServers.s.enabled_tools[1]: "get file" is not a glob: 1 to 128 of A-Z a-z 0-9 _ . - and *`,
			`mcpServers.s.disabled_tools[0]: "s:delete_*" names a server; write bare names here, as globs`,
			`mcpServers.s.disabled_tools[1]: "[a-z]" is not a glob: 1 to 128 of A-Z a-z 0-9 _ . - and *`,
			`mcpServers.s.annotations["a?"]: "a?" is not a glob: 1 to 128 of A-Z a-z 0-9 _ . - and *`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, faultsOf(t, tt.src)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// The console links to the address at which people change the file, so everybody who may open the
// console sees it.
func TestParseEditURL(t *testing.T) {
	const notHTTPS = "config.edit_url: is not an https address, such as the page of the file at its " +
		"Git host"
	const leaks = "config.edit_url: holds a credential, which everybody who opens the console could see"
	for address, want := range map[string]string{
		"http://git.example/edit":                               notHTTPS,
		"javascript:alert(1)":                                   notHTTPS,
		"https:///edit":                                         notHTTPS,
		"https://kim:hunter2@git.example/edit":                  leaks,
		"https://git.example/edit?token=0123456789abcdef0123":   leaks,
		"https://git.example/you/gateway/edit/main/config.json": "",
	} {
		src := fmt.Sprintf(`{"mcpServers": {}, "config": {"edit_url": %q}}`, address)
		cfg, err := Parse([]byte(src))
		switch {
		case want == "" && (err != nil || cfg.EditURL != address):
			t.Errorf("%s: %v", address, err)
		case want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)):
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
}

// Two servers clash if their tools could have the same name in direct mode, or if their names
// differ only in case.
func TestParseServersThatClash(t *testing.T) {
	var names []string
	for n := range 1 << 4 {
		for length := 1; length <= 4; length++ {
			name := make([]byte, length)
			for i := range name {
				name[i] = "a_"[n>>i&1]
			}
			names = append(names, string(name), "A"+string(name[1:]))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, a := range names {
		for _, b := range names {
			if a == b {
				continue
			}
			want := strings.EqualFold(a, b) || strings.HasPrefix(a+"__", b+"__") || strings.HasPrefix(b+"__", a+"__")
			if _, err := Parse([]byte(withServers("", a, b))); (err != nil) != want {
				t.Errorf("%q and %q: %v, want a clash: %t", a, b, err, want)
			}
		}
	}
}

func TestParseManyFaults(t *testing.T) {
	var keys []string
	for i := range maxFaults + 5 {
		keys = append(keys, fmt.Sprintf(`"k%d": 1`, i))
	}
	_, err := Parse([]byte(`{"mcpServers": {}, ` + strings.Join(keys, ", ") + `}`))
	faults, ok := errors.AsType[Faults](err)
	if !ok || len(faults) != maxFaults+1 || faults[maxFaults].Message != "and 5 more faults" {
		t.Errorf("%d faults, the last is %q", len(faults), faults[len(faults)-1])
	}
}

func TestParseRefusesBadNames(t *testing.T) {
	long := strings.Repeat("n", 129)
	for _, tt := range []struct {
		name, src string
		want      []string
	}{
		{"names of servers", withServers("", "", "a b", "a:b", long, ".."), []string{
			`mcpServers[""]: the name of a server is 1 to 128 of A-Z a-z 0-9 _ . -`,
			`mcpServers["a b"]: the name of a server is 1 to 128 of A-Z a-z 0-9 _ . -`,
			`mcpServers["a:b"]: the name of a server is 1 to 128 of A-Z a-z 0-9 _ . -`,
			`mcpServers.` + long + `: the name of a server is 1 to 128 of A-Z a-z 0-9 _ . -`,
			`mcpServers[".."]: ".." cannot be the name of a server: it would not survive in a URL's path`,
		}},
		{"names with a meaning", withServers(`, "toolsets": {"DEFAULT": []}`, "All"), []string{
			`mcpServers.All: "All" cannot be the name of a server: it means something else in lists of toolsets`,
			`toolsets.DEFAULT: "DEFAULT" cannot be the name of a toolset: it means something else in lists of toolsets`,
		}},
		{"servers that differ in case", withServers("", "GitHub", "github"), []string{`mcpServers.github: clashes with the server "GitHub": two names must differ in more than case`}},
		{"servers that clash in direct mode", withServers("", "a", "b", "a__x", "b_"), []string{
			`mcpServers.a__x: clashes with the server "a": in direct mode tools are named server__tool`,
			`mcpServers.b_: clashes with the server "b": in direct mode tools are named server__tool`,
		}},

		{"toolsets", withServers(`, "toolsets": {"bad name": ["fs:a"], "FS": ["fs:a"], "t": ["fs:*", "a", "fs:", "x:y", "fs:a*", "fs:prompt:", "fs:prompt:a b", "fs:prompt:a*", "fs:resource:a b", "fs:resource:a://{b}*"], "T": []}`, "fs"), []string{
			`toolsets["bad name"]: the name of a toolset is 1 to 128 of A-Z a-z 0-9 _ . -`,
			`toolsets.FS: clashes with the server of that name, which is a toolset already`,
			`toolsets.t[1]: "a" is none of server:tool, server:*, server:prompt:name and server:resource:uri`,
			`toolsets.t[2]: "fs:" is none of server:tool, server:*, server:prompt:name and server:resource:uri`,
			`toolsets.t[3]: "x:y" names a server that is not in mcpServers`,
			`toolsets.t[4]: "fs:a*" is none of server:tool, server:*, server:prompt:name and server:resource:uri`,
			`toolsets.t[5]: "fs:prompt:" is none of server:tool, server:*, server:prompt:name and server:resource:uri`,
			`toolsets.t[6]: "fs:prompt:a b" is none of server:tool, server:*, server:prompt:name and server:resource:uri`,
			`toolsets.t[8]: "fs:resource:a b" is none of server:tool, server:*, server:prompt:name and server:resource:uri`,
			`toolsets.T: clashes with another toolset: two names must differ in more than case`,
		}},
		{"tools", withServers(`, "tools": {"toolsets": ["ALL", "fs", "nope", "zap", "default"], "enabled": ["a", "fs:a", "fs:*", "x:y"], "disabled": ["*", "fs:a*", "", "x:z"]}`, "fs"), []string{
			`tools.toolsets[2]: Unknown toolset: nope`,
			`tools.toolsets[3]: Unknown toolset: zap`,
			`tools.toolsets[4]: Unknown toolset: default`,
			`tools.enabled[3]: Unknown enabled tool: x:y: there is no such server`,
			`tools.disabled[0]: "*" is none of server:tool, server:*, server:prompt:name, server:resource:uri and the bare name of a tool`,
			`tools.disabled[1]: "fs:a*" is none of server:tool, server:*, server:prompt:name, server:resource:uri and the bare name of a tool`,
			`tools.disabled[2]: "" is none of server:tool, server:*, server:prompt:name, server:resource:uri and the bare name of a tool`,
			`tools.disabled[3]: Unknown disabled tool: x:z: there is no such server`,
		}},
		{"prompts and resources", withServer(`"resources": "never", "disabled_prompts": ["a:b", "a b", "c*"], "disabled_resources": ["", "a b", "a://*"], "unlisted_resources": false`), []string{
			`mcpServers.s.resources: "never" is not one of on_change, manual, off`,
			`mcpServers.s.disabled_prompts[0]: "a:b" names a server; write bare names here, as globs`,
			`mcpServers.s.disabled_prompts[1]: "a b" is not a glob: 1 to 128 of A-Z a-z 0-9 _ . - and *`,
			`mcpServers.s.disabled_resources[0]: "" is not a glob over URIs: 1 to 2048 bytes without white space; write %20 for a blank`,
			`mcpServers.s.disabled_resources[1]: "a b" is not a glob over URIs: 1 to 2048 bytes without white space; write %20 for a blank`,
		}},
		{"nothing offered", withServers(`, "tools": {"toolsets": []}`, "fs"), []string{"tools: No tools left: toolsets is empty and so is enabled"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, faultsOf(t, tt.src)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefusesBadHeaders(t *testing.T) {
	for _, tt := range []struct{ name, header, value, want string }{
		{"no name", "", "x", `[""]: is not the name of a header`},
		{"a name with a colon", "A:", "x", `["A:"]: is not the name of a header`},
		{"a header of the gateway's own", "content-type", "x", `.content-type: the gateway sets this header itself`},
		{"a header of the protocol", "mcp-session-id", "x", `.mcp-session-id: the gateway sets this header itself`},
		{"a line break", "X-A", "a\r\nHost: b", `.X-A: holds a control character`},
		{"an open reference", "X-A", "Bearer ${env:A", `.X-A: holds ${ without its }`},
		{"a shell variable", "X-A", "${TOKEN:-x}", `.X-A: holds a ${…} of an unknown kind; there are env, ssm and secretsmanager`},
		{"a reference without a kind", "X-A", "${TOKEN}", `.X-A: holds a ${…} without its kind; write ${env:NAME}, ${ssm:/name} or ${secretsmanager:name}`},
		{"an editor's input", "X-A", "${input:key}", `.X-A: holds a ${…} of an unknown kind; there are env, ssm and secretsmanager`},
		{"an empty reference", "X-A", "${env:}", `.X-A: holds ${env:…} without the name of a variable`},
		{"no variable's name", "X-A", "${env:1A}", `.X-A: holds ${env:…} without the name of a variable`},
		{"no parameter's name", "X-A", "${ssm:/a b}", `.X-A: holds ${ssm:…} without the name of a secret`},
		{"no secret's name", "X-A", "${secretsmanager:}", `.X-A: holds ${secretsmanager:…} without the name of a secret`},
		{"the second of two", "X-A", "${env:A}${env:-}", `.X-A: holds ${env:…} without the name of a variable`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := withServer(`"headers": {` + quote(tt.header) + `: ` + quote(tt.value) + `}`)
			want := []string{"mcpServers.s.headers" + tt.want}
			if diff := cmp.Diff(want, faultsOf(t, src)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
	two := withServer(`"headers": {"X-A": "1", "x-a": "2"}`)
	if diff := cmp.Diff([]string{"mcpServers.s.headers.x-a: is the same header as one above: names of headers must differ in more than case"}, faultsOf(t, two)); diff != "" {
		t.Errorf("faults of a header in two cases (-want +got):\n%s", diff)
	}
}

func TestFaultsRepeatNoSecret(t *testing.T) {
	for _, src := range []string{
		withURL("https://me:hunter2@s.example/mcp"),
		withURL("https://me:hunter2@s.example:99999/%zz"),
		withURL("hunter2"),
		withServer(`"headers": {"Authorization": "hunter2 ${"}`),
		withServer(`"headers": {"Authorization": "hunter2\n"}`),
		withServer(`"headers": {"Host": "hunter2"}`),
		withServer(`"headers": {"Authorization": "${hunter2}"}`),
		withServer(`"headers": {"Authorization": {"hunter2": 1}}`),
		withServer(`"headers": ["hunter2"]`),
	} {
		if faults := strings.Join(faultsOf(t, src), "\n"); strings.Contains(faults, "hunter2") {
			t.Errorf("the faults of %s repeat the secret:\n%s", src, faults)
		}
	}
}

func TestParseWarns(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		want      Faults
	}{
		{"not of references", withServer(`"headers": {"Authorization": "Bearer ${env:T}", "X-Region": "eu"}`), nil},
		{"of a credential in clear", withServer(`"headers": {"authorization": "Bearer hunter2"}`), Faults{{
			Path: "mcpServers.s.headers.authorization", Line: 1, Col: 84,
			Message: "seems to be a credential written in clear; write ${secretsmanager:name}, ${ssm:/name} or ${env:NAME}",
		}}},
		{"of a credential in a query", withURL("https://s.example/mcp?api_key=hunter2"), Faults{{
			Path: "mcpServers.s.url", Line: 1, Col: 30,
			Message: "seems to hold a credential in its query; a header keeps it out of logs",
		}}},
		{"of a long timeout", withServer(`"timeout": "10m"`), Faults{{
			Path: "mcpServers.s.timeout", Line: 1, Col: 66,
			Message: "applies with portcullis serve and where answers are streamed; elsewhere a call ends after 20s",
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := Parse([]byte(tt.src))
			require.OK(t, err)
			if diff := cmp.Diff(tt.want, cfg.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParsePrefix(t *testing.T) {
	for src, want := range map[string]bool{
		withServers(`, "gateway": {"mode": "direct", "prefix": false}`, "s"): true,
		withServers(`, "gateway": {"mode": "direct", "prefix": true}`, "s"):  false,
		withServers(`, "gateway": {"mode": "direct"}`, "s", "t"):             false,
	} {
		cfg, err := Parse([]byte(src))
		require.OK(t, err)
		if cfg.Gateway.Bare != want {
			t.Errorf("%s: bare = %v", src, cfg.Gateway.Bare)
		}
	}
}
