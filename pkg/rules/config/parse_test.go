package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	require.OK(t, err)
	return b
}

func TestParseReadsEveryKey(t *testing.T) {
	yes, no := true, false
	want := &Config{
		Servers: []Server{{
			Name: "files", URL: "http://10.0.0.7/mcp", Approval: "on_change", Timeout: 20 * time.Second, Session: "agent",
			Protocol: "auto", Elicitation: "off",
		}, {
			Name: "github", URL: "https://mcp.example.com:8443/github/mcp?region=eu",
			Headers: Values{
				"Authorization": secret.New("Bearer ${secretsmanager:portcullis/github}"),
				"X-Api-Key":     secret.New("${ssm:/portcullis/key}-${env:SUFFIX_2}"),
				"X-Region":      secret.New("eu"),
			},
			Enabled: true, EnabledTools: []string{"get_*", "search_*", "create_issue"}, DisabledTools: []string{"search_secrets"},
			Approval: "manual", Timeout: 1500 * time.Millisecond, Required: true, BehindProxy: "envoy", Session: "shared",
			Protocol: "2025-11-25", Elicitation: "replay",
			Resources: "off", DisabledPrompts: []string{"debug_*"},
			DisabledResources: []string{"repo://*/.env", "repo://{owner}/{name}{/path*}"}, UnlistedResources: true,
			Annotations: []Override{
				{Glob: "search_*", Hints: tool.Annotations{ReadOnlyHint: &yes, OpenWorldHint: &no}},
				{Glob: "search_code", Hints: tool.Annotations{Title: "Search code", ReadOnlyHint: &no, DestructiveHint: &no, IdempotentHint: &yes}},
			},
		}},
		Toolsets: map[string][]string{"triage": {"github:get_issue", "files:*", "github:prompt:review_*", "files:resource:file:///{+path}"}},
		Tools: Tools{
			Toolsets: []string{"triage", "GitHub"}, Enabled: []string{"files:get_file", "create_issue"},
			Disabled: []string{"files:delete_file", "drop_table", "files:prompt:*"}, ReadOnly: true,
		},
		Review: Review{Remember: "auto", Findings: "wait", FourEyes: "destructive"},
		Audit:  Audit{Arguments: "redacted", Required: true, Days: 7, MaxBytes: 1 << 30},
		Words:  Words{{"github:*", []string{"version control", "版本控制"}}, {"github:get_*", []string{"read"}}},
		Stop: stop.Stops{List: []stop.Stop{
			{Target: stop.Target{Server: "files"}, Reason: "key leaked"}, {Target: stop.Target{Agent: "token:ci"}, Reason: "key leaked"},
		}},
		Notify: []Notify{
			{Type: "slack", URL: secret.New("${ssm:/portcullis/slack}"), Events: []string{"request", "decided"}},
			{Type: "webhook", URL: secret.New("https://hooks.example.com/portcullis"), Secret: secret.New("${secretsmanager:portcullis/webhook}"), Events: NotifyEvents()},
			{Type: "sns", Topic: "arn:aws:sns:eu-central-1:123456789012:portcullis", Events: NotifyEvents()},
		},
		Gateway: Gateway{
			Mode: "direct", Notice: "best", Locked: "result", Ranking: "lexical", Answers: "lines",
			Apps: "off", Programs: Programs{MaxPerAgent: 8, Env: []string{"VAULT_ADDR"}},
		},
	}
	got, err := Parse(read(t, "testdata/full.json"))
	require.OK(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

func TestParseFillsInDefaults(t *testing.T) {
	want := &Config{
		Servers:  []Server{{Name: "a", URL: "https://a.example/mcp", Enabled: true, Approval: "on_change", Timeout: 20 * time.Second, Session: "agent", Protocol: "auto", Elicitation: "relay"}},
		Toolsets: map[string][]string{},
		Tools:    Tools{Toolsets: []string{"all"}},
		Review:   Review{Remember: "ask", Findings: "show", FourEyes: "off"},
		Audit:    Audit{Arguments: "none", Days: 30, MaxBytes: 10 << 30},
		Gateway: Gateway{
			Mode: "search", Notice: "best", Locked: "error", Ranking: "fused", Answers: "json",
			Apps: "on", Programs: Programs{MaxPerAgent: DefaultPrograms},
		},
	}
	for _, src := range []string{
		`{"mcpServers": {"a": {"url": "https://a.example/mcp"}}}`,
		`{"mcpServers": {"a": {"type": "http", "url": "https://a.example/mcp", "headers": {}}}, "tools": {}, "gateway": {}, "review": {}, "toolsets": {}}`,
	} {
		got, err := Parse([]byte(src))
		if err != nil {
			t.Fatalf("Parse(%s): %v", src, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Parse(%s) (-want +got):\n%s", src, diff)
		}
	}
}

func TestParseEmptyList(t *testing.T) {
	cfg, err := Parse([]byte(`{"mcpServers": {"a": {"url": "https://a.example/mcp"}}, "tools": {"toolsets": [], "enabled": ["a:b"]}}`))
	require.OK(t, err)
	if cfg.Tools.Toolsets == nil || len(cfg.Tools.Toolsets) != 0 {
		t.Errorf("toolsets = %#v, want an empty list", cfg.Tools.Toolsets)
	}
}

// withServer returns a config with one server "s" that has a url and these keys.
func withServer(keys string) string {
	return `{"mcpServers": {"s": {"url": "https://s.example/mcp", ` + keys + `}}}`
}

// withCommand returns a config with one server "s" that has only these keys.
func withCommand(keys string) string { return `{"mcpServers": {"s": {` + keys + `}}}` }

// withURL returns a config with one server that has this URL.
func withURL(url string) string { return fmt.Sprintf(`{"mcpServers": {"s": {"url": %q}}}`, url) }

// withServers returns a config with servers of these names. rest is the JSON after the servers.
func withServers(rest string, names ...string) string {
	var members []string
	for _, name := range names {
		members = append(members, fmt.Sprintf(`%q: {"url": "https://s.example/mcp"}`, name))
	}
	return `{"mcpServers": {` + strings.Join(members, ", ") + `}` + rest + `}`
}

// faultsOf parses src and returns its faults, one a line, without their positions.
func faultsOf(t *testing.T, src string) []string {
	t.Helper()
	cfg, err := Parse([]byte(src))
	if err == nil {
		t.Fatalf("Parse(%s) found no fault", src)
	}
	if cfg != nil {
		t.Errorf("Parse(%s) returned a config in addition to its faults", src)
	}
	faults, ok := errors.AsType[Faults](err)
	if !ok {
		t.Fatalf("Parse(%s) = %T, want Faults", src, err)
	}
	var out []string
	for _, f := range faults {
		if f.Line < 1 || f.Col < 1 {
			t.Errorf("fault %q has no position", f)
		}
		f.Line = 0
		out = append(out, f.String())
	}
	return out
}

func TestParseRefusesAWrongShape(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		want      []string
	}{
		{"nothing", "", []string{"not JSON: the file is empty"}},
		{"white space", " \n", []string{"not JSON: the file is empty"}},
		{"a byte order mark", "\xef\xbb\xbf{}", []string{"not JSON: the file begins with a byte order mark; save it as UTF-8 without one"}},
		{"a line comment", "{\n// servers\n\"mcpServers\": {}}", []string{"not JSON: comments are not part of JSON; remove them"}},
		{"a comment after a value", `{"mcpServers": {} /* none */}`, []string{"not JSON: comments are not part of JSON; remove them"}},
		{"a trailing comma in an object", `{"mcpServers": {},}`, []string{"not JSON: remove the comma before the closing bracket"}},
		{"a trailing comma in an array", withServer(`"enabled_tools": ["a", ]`), []string{"not JSON: remove the comma before the closing bracket"}},
		{"half a file", `{"mcpServers": {`, []string{"not JSON: the file ends before the object is closed"}},
		{"two values", `{"mcpServers": {}} {}`, []string{"not JSON: there is text after the end of the object"}},
		{"invalid UTF-8", "{\"mcpServers\": {\"\xff\": {}}}", []string{"not JSON: invalid UTF-8"}},
		{"an array", `[]`, []string{"want an object, found an array"}},
		{"null", `null`, []string{"want an object, found null"}},
		{"no servers", `{}`, []string{"mcpServers: is missing"}},
		{"servers as a list", `{"mcpServers": []}`, []string{"mcpServers: want an object, found an array"}},
		{"a server as text", `{"mcpServers": {"s": "https://s.example"}}`, []string{"mcpServers.s: want an object, found a string"}},
		{"an unknown key", withServer(`"colour": 1`), []string{"mcpServers.s.colour: unknown key"}},
		{"a key of another spelling", withServer(`"disabledTools": []`), []string{"mcpServers.s.disabledTools: unknown key; write disabled_tools"}},
		{"another program's top key", `{"mcpServers": {}, "servers": {}}`, []string{"servers: unknown key; write mcpServers"}},
		{"a key with a dot", `{"mcpServers": {}, "a.b": 1}`, []string{`["a.b"]: unknown key`}},
		{"a duplicate key", `{"mcpServers": {}, "tools": {}, "tools": {"read_only": true}}`, []string{"tools: duplicate key"}},
		{"a duplicate server", withServers("", "a", "a"), []string{"mcpServers.a: duplicate key"}},
		{"a duplicate glob", withServer(`"annotations": {"a*": {}, "a*": {}}`), []string{`mcpServers.s.annotations["a*"]: duplicate key`}},
		{"a duplicate header", withServer(`"headers": {"A": "1", "A": "2"}`), []string{"mcpServers.s.headers.A: duplicate key"}},
		{"wrong types everywhere", `{"mcpServers": {"s": {"url": 1, "enabled": "yes", "timeout": 20, "approval": null, "enabled_tools": "a", "disabled_tools": [1, "b:c"],
			"headers": [], "annotations": {"a": {"readOnlyHint": "true"}}}}, "toolsets": {"t": null}, "tools": {"toolsets": ["t", 7], "read_only": 0}, "review": "ask", "gateway": []}`,
			[]string{
				"mcpServers.s.url: want a string, found a number",
				"mcpServers.s.enabled: want true or false, found a string",
				"mcpServers.s.timeout: want a string, found a number; write \"20s\"",
				"mcpServers.s.approval: want a string, found null",
				"mcpServers.s.enabled_tools: want an array, found a string",
				"mcpServers.s.disabled_tools[0]: want a string, found a number",
				`mcpServers.s.disabled_tools[1]: "b:c" names a server; write bare names here, as globs`,
				"mcpServers.s.headers: want an object, found an array",
				"mcpServers.s.annotations.a.readOnlyHint: want true or false, found a string",
				"toolsets.t: want an array, found null",
				"tools.toolsets[1]: want a string, found a number",
				"tools.read_only: want true or false, found a number",
				"review: want an object, found a string",
				"gateway: want an object, found an array",
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, faultsOf(t, tt.src)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefusesAHugeFile(t *testing.T) {
	_, err := Parse([]byte(`{"mcpServers": {}}` + strings.Repeat(" ", maxSize)))
	if err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("Parse = %v, want a fault about the size", err)
	}
}

func TestFaultPositions(t *testing.T) {
	src := "{\n\t\"mcpServers\": {\n\t\t\"ö\": {\"url\": \"ftp://x\"},\n\t\t\"b\": {\"url\": \"https://b.example\", \"approval\": \"maybe\"}\n\t}\n}\n"
	_, err := Parse([]byte(src))
	want := Faults{
		{Path: `mcpServers["ö"]`, Line: 3, Col: 3, Message: "the name of a server is 1 to 128 of A-Z a-z 0-9 _ . -"},
		{Path: `mcpServers["ö"].url`, Line: 3, Col: 16, Message: "begins with neither https:// nor http://"},
		{Path: "mcpServers.b.approval", Line: 4, Col: 49, Message: `"maybe" is not one of on_change, manual, off`},
	}
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	const lines = `3:3: mcpServers["ö"]: the name of a server is 1 to 128 of A-Z a-z 0-9 _ . -
3:16: mcpServers["ö"].url: begins with neither https:// nor http://
4:49: mcpServers.b.approval: "maybe" is not one of on_change, manual, off`
	if err.Error() != lines {
		t.Errorf("Error() =\n%s\nwant\n%s", err, lines)
	}
}
