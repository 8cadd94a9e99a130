package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestSchemaIsTheOneInDocs(t *testing.T) {
	golden.Check(t, "../../../docs/mcp_config.schema.json", string(schema()))
}

// validator returns a function that checks a file against the JSON Schema.
func validator(t testing.TB) func(src []byte) error {
	t.Helper()
	var s jsonschema.Schema
	require.OK(t, json.Unmarshal(schema(), &s))
	resolved, err := s.Resolve(nil)
	require.OK(t, err)
	return func(src []byte) error {
		var v any
		if err := json.Unmarshal(src, &v); err != nil {
			return err
		}
		return resolved.Validate(v)
	}
}

func TestSchemaAndParseAgree(t *testing.T) {
	validate := validator(t)
	full := string(read(t, "testdata/full.json"))
	for _, tt := range []struct {
		name, src string
		ok        bool
	}{
		{"every key", full, true},
		{"no servers", `{"mcpServers": {}}`, true},
		{"mcpServers missing", `{}`, false},
		{"an unknown key", withServer(`"colour": 1`), false},
		{"an unknown mode", withServer(`"approval": "never"`), false},
		{"a wrong type", withServer(`"enabled": "yes"`), false},
		{"no url", `{"mcpServers": {"s": {}}}`, false},
		{"another scheme", withURL("ftp://s.example"), false},
		{"a bad server name", withServers("", "a b"), false},
		{"a bad glob", withServer(`"disabled_tools": ["a b"]`), false},
		{"a bad toolset entry", withServers(`, "toolsets": {"t": ["a"]}`, "s"), false},
		{"a target", withNotify(`{"type": "webhook", "url": "https://h.example", "secret": "${env:S}"}`), true},
		{"a target without its address", withNotify(`{"type": "slack"}`), false},
		{"a target with another's key", withNotify(`{"type": "sns", "topic": "arn:aws:sns:eu-west-1:123456789012:t", "secret": "${env:S}"}`), false},
		{"an unknown event", withNotify(`{"type": "slack", "url": "${env:U}", "events": ["asked"]}`), false},
		{"a bad tool entry", withServers(`, "tools": {"disabled": ["*"]}`, "s"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, parseErr := Parse([]byte(tt.src))
			schemaErr := validate([]byte(tt.src))
			if (parseErr == nil) != tt.ok || (schemaErr == nil) != tt.ok {
				t.Errorf("accepted: want %v; Parse says %v, the schema %v", tt.ok, parseErr, schemaErr)
			}
		})
	}
}

func TestServerOverride(t *testing.T) {
	yes, no := true, false
	cfg, err := Parse([]byte(withServer(`"annotations": {
		"z*": {"readOnlyHint": true, "title": "z"},
		"*_all": {"readOnlyHint": false, "destructiveHint": true},
		"a": {"destructiveHint": false}}`)))
	require.OK(t, err)
	own := tool.Annotations{Title: "own", IdempotentHint: &yes, DestructiveHint: &no}
	for _, tt := range []struct {
		name string
		want tool.Annotations
	}{
		{"b", own},
		{"zap", tool.Annotations{Title: "z", IdempotentHint: &yes, DestructiveHint: &no, ReadOnlyHint: &yes}},
		{"zap_all", tool.Annotations{Title: "z", IdempotentHint: &yes, DestructiveHint: &yes, ReadOnlyHint: &no}},
	} {
		if diff := cmp.Diff(tt.want, cfg.Servers[0].Override(tt.name, own)); diff != "" {
			t.Errorf("Override(%s) (-want +got):\n%s", tt.name, diff)
		}
	}
	if !reflect.DeepEqual(own, tool.Annotations{Title: "own", IdempotentHint: &yes, DestructiveHint: &no}) {
		t.Error("Override changed its argument")
	}
}

func TestHeadersDoNotPrint(t *testing.T) {
	cfg, err := Parse([]byte(withServer(`"headers": {"Authorization": "Bearer hunter2"}`)))
	require.OK(t, err)
	headers := cfg.Servers[0].Headers
	var logged bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&logged, nil), slog.NewJSONHandler(&logged, nil)} {
		slog.New(h).Info("m", "config", cfg, "headers", headers, "value", headers["Authorization"])
	}
	text, err := json.Marshal(cfg)
	require.OK(t, err)
	hidden := struct{ c Config }{*cfg} // fmt does not call the methods of unexported fields
	printed := []string{logged.String(), string(text), headers["Authorization"].String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		printed = append(printed, fmt.Sprintf(verb, cfg), fmt.Sprintf(verb, *cfg), fmt.Sprintf(verb, hidden), fmt.Sprintf(verb, headers))
	}
	for _, s := range printed {
		if strings.Contains(s, "hunter2") || strings.Contains(s, "68756e74657232") {
			t.Errorf("printed: %s", s)
		}
	}
	if got := headers.Plain()["Authorization"]; got != "Bearer hunter2" {
		t.Errorf("Plain() gives %q, want the value", got)
	}
	if got := (Values{}).Plain(); got != nil {
		t.Errorf("Plain() of no headers = %v, want nil", got)
	}
}

func TestConfigServer(t *testing.T) {
	cfg, err := Parse([]byte(withServers("", "b", "a")))
	require.OK(t, err)
	if s, ok := cfg.Server("b"); !ok || s.Name != "b" {
		t.Errorf("Server(b) = %q, %v", s.Name, ok)
	}
	if _, ok := cfg.Server("B"); ok {
		t.Error("Server(B) found a server of another name")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(read(f, "testdata/full.json"))
	for _, src := range []string{
		``, `{}`, `{"mcpServers": {"s": {"command": "x"}}}`, withURL("https://a:b@s.example/"), withServers("", "a", "A", "a__b"),
		withServer(`"headers": {"A": "${env:B}"}, "annotations": {"*": {}}`), withServers(`, "toolsets": {"t": ["s:*"]}, "tools": {"toolsets": ["t"]}`, "s"),
		"{\"mcpServers\": {\"\xff\": {}}}", `{"mcpServers": {"s": null}, "tools": [], "tools": 1}`,
	} {
		f.Add([]byte(src))
	}
	validate := validator(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		cfg, err := Parse(src)
		if err != nil {
			if faults, ok := errors.AsType[Faults](err); !ok || len(faults) == 0 || cfg != nil {
				t.Fatalf("Parse = %v, %#v: want faults and no config", cfg, err)
			}
			return
		}
		again, err := Parse(src)
		if diff := cmp.Diff(cfg, again); err != nil || diff != "" {
			t.Fatalf("a second Parse differs: %v\n%s", err, diff)
		}
		if err := validate(src); err != nil {
			t.Fatalf("the schema refuses what Parse accepts: %v", err)
		}
		checkConfig(t, cfg)
	})
}

// checkConfig checks the promises of every parsed config.
func checkConfig(t *testing.T, cfg *Config) {
	t.Helper()
	if !slices.IsSortedFunc(cfg.Servers, func(a, b Server) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("servers are not sorted")
	}
	for i, s := range cfg.Servers {
		if err := tool.ValidName(s.Name); err != nil {
			t.Error(err)
		}
		if s.Timeout <= 0 || s.Timeout > MaxTimeout {
			t.Errorf("timeout %v", s.Timeout)
		}
		if !slices.Contains([]string{"manual", "on_change", "off"}, s.Approval) {
			t.Errorf("approval %q", s.Approval)
		}
		for _, glob := range slices.Concat(s.EnabledTools, s.DisabledTools) {
			if err := tool.ValidGlob(glob); err != nil {
				t.Error(err)
			}
		}
		for _, other := range cfg.Servers[:i] {
			if strings.EqualFold(s.Name, other.Name) || strings.HasPrefix(s.Name+"__", other.Name+"__") {
				t.Errorf("servers %q and %q clash", s.Name, other.Name)
			}
		}
	}
	if cfg.Gateway.Mode == "" || cfg.Gateway.Notice == "" || cfg.Gateway.Locked == "" || cfg.Gateway.Ranking == "" || cfg.Gateway.Answers == "" {
		t.Errorf("gateway %+v", cfg.Gateway)
	}
	if cfg.Review.Remember == "" || cfg.Review.Findings == "" {
		t.Errorf("review %+v", cfg.Review)
	}
	for name, patterns := range cfg.Toolsets {
		for _, p := range patterns {
			if id, err := tool.ParseID(p); err != nil || name != strings.ToLower(name) {
				t.Errorf("toolset %q holds %q of server %q: %v", name, p, id.Server, err)
			}
		}
	}
}

func TestFaultIn(t *testing.T) {
	for want, f := range map[string]Fault{
		"a.json:3:5: x: bad":      {Path: "x", Line: 3, Col: 5, Message: "bad"},
		"a.json:x: bad":           {Path: "x", Message: "bad"},
		"a.json: the file is bad": {Message: "the file is bad"},
	} {
		if got := f.In("a.json"); got != want {
			t.Errorf("In = %q, want %q", got, want)
		}
	}
}
