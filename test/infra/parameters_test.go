package infra

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Each parameter is in exactly one group of the page on which AWS asks for parameters. The file has
// them in the same order, because `sam deploy --guided` asks in the order of the file.
func TestParametersAreInGroups(t *testing.T) {
	type group struct{ Parameters []string }
	metadata := nested(t, "template.yaml").Metadata["AWS::CloudFormation::Interface"]
	data, err := json.Marshal(metadata["ParameterGroups"])
	require.OK(t, err)
	var grouped []string
	for _, g := range require.JSON[[]group](t, string(data)) {
		grouped = append(grouped, g.Parameters...)
	}
	file, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	require.OK(t, err)
	_, section, _ := strings.Cut(string(file), "\nParameters:")
	section, _, _ = strings.Cut(section, "\nRules:")
	var written []string
	for _, m := range regexp.MustCompile(`(?m)^  (\w+): `).FindAllStringSubmatch(section, -1) {
		written = append(written, m[1])
	}
	if !slices.Equal(grouped, written) {
		t.Errorf("parameters of the groups: %v\nparameters in the file: %v", grouped, written)
	}
	if len(written) < 60 || written[0] != "AuthMode" {
		t.Errorf("%d parameters, the first is %s", len(written), written[0])
	}
}

// No parameter accepts a wrong value: the template's own check, which TestStarts uses, and
// CloudFormation on the emulator refuse the value, and the refusal names the parameter.
func TestWrongValues(t *testing.T) {
	endpoint, x := emulator.Start(t), nested(t, "template.yaml")
	body, err := json.Marshal(map[string]any{
		"Parameters": x.raw(
			t,
		), "Resources": map[string]any{"Queue": map[string]any{"Type": "AWS::SQS::Queue"}},
	})
	require.OK(t, err)
	limited := 0
	for _, name := range slices.Sorted(maps.Keys(x.Parameters)) {
		p := x.Parameters[name]
		if p.AllowedPattern == "" && p.AllowedValues == nil && p.MinValue == nil &&
			p.Type != "Number" {
			continue
		}
		limited++
		wrong := "=?* wrong"
		if p.Type == "Number" {
			wrong = "99999999999999999999"
		}
		values := map[string]string{"AuthMode": "token", name: wrong}
		if p.MaxValue != nil || p.AllowedPattern != "" || p.AllowedValues != nil {
			if got := x.deployed(t, values).unfit(); !slices.Equal(got, []string{name}) {
				t.Errorf("%s=%s: the template's limits refuse %v", name, wrong, got)
			}
		} else if p.Type == "Number" {
			values[name] = "many"
		}
		err := emulator.Create(t, endpoint, "wrong-"+strings.ToLower(name), string(body), values)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: CloudFormation says %v", name, values[name], err)
		}
	}
	if limited < 45 {
		t.Errorf("%d parameters have limits: the search is broken", limited)
	}
}

// raw returns the parameters as the template has them.
func (x template) raw(t *testing.T) map[string]any {
	t.Helper()
	data, err := json.Marshal(x.Parameters)
	require.OK(t, err)
	all := require.JSON[map[string]map[string]any](t, string(data))
	out := map[string]any{}
	for name, p := range all {
		maps.DeleteFunc(p, func(_ string, v any) bool { return v == nil })
		if p["AllowedPattern"] == "" {
			delete(p, "AllowedPattern")
		}
		p["Default"] = fmt.Sprint(p["Default"])
		out[name] = p
	}
	return out
}

// SAM ignores a name that is no parameter, and CloudFormation forgets the value of a parameter that
// the template no longer has. `make deploy` refuses both before it changes anything.
func TestLostSettings(t *testing.T) {
	program := filepath.Join(filepath.Dir(sam(t)), "python")
	endpoint := emulator.Start(t)
	const before = `{"Parameters":{"AdminGroup":{"Type":"String","Default":""},` +
		`"WebAcl":{"Type":"String","Default":"true"}},` +
		`"Resources":{"Queue":{"Type":"AWS::SQS::Queue"}}}`
	old := filepath.Join(t.TempDir(), "old.json")
	require.OK(t, os.WriteFile(old, []byte(before), 0o600))
	emulator.Deploy(t, endpoint, "old", old, map[string]string{"AdminGroup": "gate-admins"})
	config := filepath.Join(t.TempDir(), "samconfig.toml")
	const settings = `[prod.deploy.parameters]
region = "us-east-1"
parameter_overrides = ["AuthMode=token", "StreamConcurrency=7"]
[text.deploy.parameters]
parameter_overrides = "AuthMode=token SyncSchedule='rate(1 hour)' ParameterKey=Audit,ParameterValue=true"
`
	require.OK(t, os.WriteFile(config, []byte(settings), 0o600))
	for _, c := range []struct {
		name, drop string
		args       []string
		want       []string // parts of the refusal; none: the deploy goes on
	}{
		{"a new stack", "", []string{"new", "AuthMode=token"}, nil},
		{
			"a typing error", "", []string{"new", "AutMode=token"},
			[]string{"AutMode is no parameter", "Nothing was deployed."},
		},
		{
			"a removed parameter", "", []string{"new", "AuthMode=token", "WebAcl=false"},
			[]string{"WebAcl is no longer a parameter: set WebAclRate=0"},
		},
		{
			"a removed parameter in samconfig.toml", "", []string{"new", "--config", config, "prod"},
			[]string{"StreamConcurrency is no longer a parameter: set McpConcurrency"},
		},
		{"settings in one text", "", []string{"new", "--config", config, "text"}, nil},
		{
			"a value that the stack has", "", []string{"old", "AuthMode=jwt"},
			[]string{"The stack has AdminGroup=gate-admins", "DROP=AdminGroup"},
		},
		{"a value that the stack may lose", "AdminGroup", []string{"old", "AuthMode=jwt"}, nil},
	} {
		cmd := exec.CommandContext(
			t.Context(),
			program,
			append([]string{"infra/parameters.py", "template.yaml"}, c.args...)...)
		cmd.Dir = root
		cmd.Env = append(
			os.Environ(),
			"DROP="+c.drop,
			"AWS_ENDPOINT_URL="+endpoint,
			"AWS_DEFAULT_REGION=us-east-1",
			"AWS_ACCESS_KEY_ID=test",
			"AWS_SECRET_ACCESS_KEY=test",
		)
		out, err := cmd.CombinedOutput()
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
		for _, part := range c.want {
			if !strings.Contains(string(out), part) {
				t.Errorf("%s: printed %s, want %q", c.name, out, part)
			}
		}
	}
}

// docs/aws-parameters.md lists the removed parameters, and the template has none of them.
func TestRemovedParametersAreOnThePage(t *testing.T) {
	const script = "import sys; sys.path.insert(0, 'infra'); " +
		"from parameters import REMOVED; print('\\n'.join(REMOVED))"
	removed := strings.Fields(python(t, "-c", script))
	page, err := os.ReadFile(filepath.Join(root, "docs", "aws-parameters.md"))
	require.OK(t, err)
	_, section, _ := strings.Cut(string(page), "\n## Removed parameters\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\|")
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		rows = append(rows, m[1])
	}
	if !slices.Equal(rows, removed) {
		t.Errorf("docs/aws-parameters.md lists %v, infra/parameters.py has %v", rows, removed)
	}
	x := nested(t, "template.yaml")
	for _, name := range removed {
		if _, ok := x.Parameters[name]; ok {
			t.Errorf("template.yaml has the removed parameter %s", name)
		}
	}
}
