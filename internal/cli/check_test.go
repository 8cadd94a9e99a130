package cli

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// checked runs check on a folder with these files ("": none) and a catalog, if any. It returns the
// output, with DIR for the folder.
func checked(t *testing.T, from, config, policy string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	if from != "" {
		require.OK(t, os.CopyFS(filepath.Join(dir, "catalog"), os.DirFS(filepath.Join(from, "catalog"))))
	}
	programtest.WriteConfig(t, dir, config)
	if policy != "" {
		require.OK(t, os.WriteFile(filepath.Join(dir, "config", "policy.cedar"), []byte(policy), 0o600))
	}
	var out strings.Builder
	err := run(t.Context(), []string{"check", dir}, &environment{getenv: noEnv, stdout: &out, stderr: &out})
	return strings.ReplaceAll(out.String(), dir, "DIR"), err
}

func TestCheckWithoutPolicy(t *testing.T) {
	const rule = `@id("r") forbid (principal, action, resource);`
	for _, c := range []struct {
		name, kept, want string
		ok               bool
	}{
		{"there was none", "", "DIR/config/policy.cedar: there is none, so policy permits everything", true},
		{"it is gone", rule, "warning: DIR/config/policy.cedar: it is gone; the last good one, version " + object.Version([]byte(rule))[:12] + ", stays in use. Restore it, or write an empty file to have none", true},
		{"the last good one is not understood", "forbid (", "DIR/config/policy.cedar: it is gone, and the last good one is not understood: every tool is locked until there is a new file", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := t.TempDir()
			if _, err := dir.New(from).Put(t.Context(), catalog.PolicyFile.LastGood, []byte(c.kept), ""); err != nil {
				t.Fatal(err)
			}
			out, err := checked(t, from, twoServers+`}`, "")
			if !strings.Contains(out, c.want+"\n") || (err == nil) != c.ok {
				t.Errorf("check printed %q, %v; want %q", out, err, c.want)
			}
		})
	}
}

func lines(list ...string) string { return strings.Join(list, "\n") + "\n" }

const twoServers = `{
  "mcpServers": {
    "files": {"url": "https://files.example/mcp"},
    "folders": {"url": "https://folders.example/mcp"}
  }`

// The check prints every fault of both files, with file, line and path.
func TestCheckFaults(t *testing.T) {
	for _, c := range []struct{ name, config, policy, want string }{
		{"policy", twoServers + `}`, `@id("a")
forbid (principal, action, resource) when { resource.teir == "read" };
@id("b")
forbid (principal, action, resource == Tool::"fetch");
`, lines(
			"DIR/config/policy.cedar:2:54: a: not what the schema says: attribute `teir` on entity type `Tool` not found",
			`DIR/config/policy.cedar:4:47: b: a tool is written Tool::"server:tool", not Tool::"fetch"`)},
		{"a warning and a fault", `{"mcpServers": {"files": {"url": "https://x.example/mcp", "tiemout": "5s", "headers": {"Authorization": "Bearer 0123456789abcdef"}}}}`, "", lines(
			"DIR/config/mcp_config.json:1:59: mcpServers.files.tiemout: unknown key",
			"warning: DIR/config/mcp_config.json:1:105: mcpServers.files.headers.Authorization: seems to be a credential written in clear")},
		{"both", `{"mcpServers": {}, "tools": {"toolsets": []}}`, "forbid (", lines(
			"DIR/config/mcp_config.json:1:29: tools: No tools left: toolsets is empty and so is enabled",
			"DIR/config/policy.cedar:1:")},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := checked(t, "", c.config, c.policy)
			if !errors.Is(err, errCheck) {
				t.Errorf("run = %v, want %v", err, errCheck)
			}
			for line := range strings.Lines(c.want) {
				if !strings.Contains(out, strings.TrimRight(line, "\n")) {
					t.Errorf("no line %s in\n%s", line, out)
				}
			}
		})
	}
	var out strings.Builder
	dir := t.TempDir()
	if err := run(t.Context(), []string{"check", dir}, &environment{getenv: noEnv, stdout: &out, stderr: &out}); !errors.Is(err, errCheck) || !strings.Contains(out.String(), "mcp_config.json: it cannot be read") {
		t.Errorf("an empty folder: %v\n%s", err, &out)
	}
}

// The check prints warnings, and what each rule matches in the folder's catalog. The catalog was
// made from another config.
func TestCheckMatches(t *testing.T) {
	o := startTwoServers(t, "search", `{}`)
	require.OK(t, o.stop())
	config := `{
  "mcpServers": {
    "files": {"url": "https://files.example/mcp", "enabled_tools": ["get_*", "delete_*"], "disabled_tools": ["delete_*", "zip_*"],
      "headers": {"Authorization": "Bearer 0123456789abcdef"}},
    "folders": {"url": "https://folders.example/mcp", "annotations": {"*": {"readOnlyHint": true}}},
    "later": {"url": "https://later.example/mcp"}
  },
  "toolsets": {"mixed": ["files:get_file", "folders:no_such"]},
  "tools": {
    "toolsets": ["mixed", "later"],
    "enabled": ["nope"],
    "disabled": ["files:gone", "create_file"]
  },
  "words": {
    "files:*": ["Dateien"],
    "files:purge_*": ["löschen"],
    "later:*": ["later"]
  }
}`
	policy := `// Nobody deletes.
@id("no-deletes")
forbid (principal, action, resource)
when { resource.name like "delete_*" && !resource.readOnly };

@id("ci-creates-nothing")
forbid (principal, action, resource)
when { principal.id like "ci-*" && resource.name like "create_*" && resource.server == "files" };

forbid (principal, action, resource == Tool::"web:fetch");

@id("who")
permit (principal == Agent::"ann", action, resource);
`
	out, err := checked(t, o.dir, config, policy)
	if err != nil {
		t.Errorf("run = %v: warnings are no faults", err)
	}
	// it has ports
	out = regexp.MustCompile(`in use here: config version [0-9a-f]{12}`).ReplaceAllString(out, "in use here: config version VERSION")
	golden.Check(t, "testdata/check.golden", out)

	out, err = checked(t, o.dir, twoServers+`}`, "")
	if err != nil || strings.Count(out, "no rule denies any of its tools") != 2 {
		t.Errorf("without a rule: %v\n%s", err, out)
	}
	out, err = checked(t, o.dir, twoServers+`}`, "forbid (principal, action, resource);")
	if err != nil || strings.Contains(out, "warning") || !strings.Contains(out, "the rule: denies 6: files:create_file, ") {
		t.Errorf("with a rule that denies everything: %v\n%s", err, out)
	}
}

// Stops in the config are not faults, and are printed.
func TestCheckStops(t *testing.T) {
	out, err := checked(t, "", twoServers+`, "stop": {"servers": ["files"], "agents": ["token:ci"], "reason": "key leaked"}}`, "")
	for _, want := range []string{`server "files" is stopped in mcp_config.json: key leaked`, `agent "token:ci" is stopped in mcp_config.json: key leaked`} {
		if err != nil || !strings.Contains(out, "DIR/config/mcp_config.json: "+want+"\n") {
			t.Errorf("check printed %q, %v; want %q", out, err, want)
		}
	}
}
