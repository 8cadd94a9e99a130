package infra

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// An environment contains the settings of one environment in samconfig.toml.
type environment struct {
	Build struct {
		Parameters struct {
			InSource bool `json:"build_in_source"`
		}
	}
	Deploy struct {
		Parameters struct {
			Stack        string `json:"stack_name"`
			Capabilities string
			Values       []string `json:"parameter_overrides"`
		}
	}
}

// values returns the values of parameters of the template.
func (e environment) values() map[string]string {
	values := map[string]string{}
	for _, v := range e.Deploy.Parameters.Values {
		key, value, _ := strings.Cut(v, "=")
		values[key] = value
	}
	return values
}

// environments returns the environments of samconfig.toml by name.
func environments(t *testing.T) map[string]environment {
	t.Helper()
	const script = "import json, sys, tomllib; json.dump(tomllib.load(open('samconfig.toml', 'rb'))[sys.argv[1]], sys.stdout)"
	config := map[string]environment{}
	for _, name := range []string{"dev", "staging", "prod"} {
		config[name] = require.JSON[environment](t, python(t, "-c", script, name))
	}
	return config
}

// The template accepts the parameters of the three stacks of samconfig.toml, and the Makefile finds
// their settings. The template refuses prod until somebody replaces the address for alarms.
func TestStacksOfSamconfig(t *testing.T) {
	x, config := expand(t), environments(t)
	for _, name := range []string{"dev", "staging", "prod"} {
		e := config[name]
		if !e.Build.Parameters.InSource || e.Deploy.Parameters.Stack == "" || !strings.Contains(e.Deploy.Parameters.Capabilities, "CAPABILITY_AUTO_EXPAND") {
			t.Errorf("%s is %+v", name, e)
		}
		values := e.values()
		if name == "prod" {
			said := x.deployed(t, values).refusals()
			if len(said) != 1 || !strings.Contains(said[0], "Set AlarmEmail to an address") {
				t.Errorf("the sample of prod is refused with %q", said)
			}
			values["AlarmEmail"] = "ops@example.com"
		}
		if d := x.deployed(t, values); d.refusals() != nil || d.unfit() != nil {
			t.Errorf("the template refuses %s: %v, %v", name, d.refusals(), d.unfit())
		}
		if out := command(t, []string{"MAKEFLAGS="}, "make", "-n", "outputs", "CONFIG="+name); !strings.Contains(out, "--stack-name "+e.Deploy.Parameters.Stack+" ") {
			t.Errorf("make outputs CONFIG=%s would run %s", name, out)
		}
	}
	for vars, want := range map[string]string{"CONFIG=test": "has no [test.deploy.parameters]", "CONFIG=prod PARAMS=AuthMode=iam": "PARAMS or CONFIG, not both"} {
		cmd := exec.CommandContext(t.Context(), "make", append([]string{"-n", "deploy"}, strings.Fields(vars)...)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "nothing was done") {
			t.Errorf("make deploy %s: %v\n%s", vars, err, out)
		}
	}
}
