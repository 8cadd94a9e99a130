package infra

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// TestParametersPublishVersions changes each parameter separately. If a parameter changes a
// function, the name of the function's version must change. Otherwise the alias keeps the old
// version. The names of other functions' versions must not change: Lambda publishes no version of
// an unchanged function, so the deploy would fail.
func TestParametersPublishVersions(t *testing.T) {
	x := expand(t)
	var lines []map[string]string
	type change struct {
		parameter   string
		before, now deployment
	}
	var changes []change
	for _, values := range []map[string]string{
		{"AuthMode": "token", "Issuer": "https://login.example.com", "AdminClientId": "console"},
		{"AuthMode": "jwt", "Issuer": "https://login.example.com", "SyncMode": "fanout", "Streaming": "url", "VpcSubnetIds": "subnet-0a", "VpcSecurityGroupIds": "sg-0a", "Audit": "true"},
		{"AuthMode": "jwt", "Issuer": "https://login.example.com", "FrontDoor": "rest", "DomainName": "gate.example.com", "CertificateArn": certificate},
	} {
		before := x.reaching(t, values)
		for _, name := range slices.Sorted(maps.Keys(x.Parameters)) {
			now := maps.Clone(values)
			now[name] = x.another(name, before.values[name])
			if d := x.reaching(t, now); len(d.refusals()) == 0 {
				lines, changes = append(lines, values, now), append(changes, change{name, before, d})
			}
		}
	}
	versions := versionsOf(t, lines)
	reached := map[string]bool{}
	for i, c := range changes {
		for _, function := range c.now.functions() {
			if !slices.Contains(c.before.functions(), function) {
				continue
			}
			changed := !cmp.Equal(c.before.configured(function), c.now.configured(function))
			if changed {
				reached[c.parameter] = true
			}
			if published := versions[2*i][function] != versions[2*i+1][function]; published != changed {
				t.Errorf("%s=%s changes %s: %v, but SAM publishes a version: %v", c.parameter, c.now.values[c.parameter], function, changed, published)
			}
		}
	}
	for _, name := range []string{"AdminClaim", "Issuer", "MemorySize", "SyncMode", "Streaming", "VpcSubnetIds", "Approvers", "ExistingTable"} {
		if !reached[name] {
			t.Errorf("%s changes no function: the search is broken", name)
		}
	}
	t.Logf("%d changes, %d parameters that reach a function", len(changes), len(reached))
}

// reaching does the same as [template.deployed], but outputs of the data stack depend on its
// parameters.
func (x template) reaching(t *testing.T, values map[string]string) deployment {
	d := x.deployed(t, values)
	d.attributes["Data.Outputs.BucketName"] = "bucket " + d.values["ExistingBucket"]
	d.attributes["Data.Outputs.TableName"] = "table " + d.values["ExistingTable"]
	return d
}

// another returns a value of the parameter that is not v.
func (x template) another(name, v string) string {
	p := x.Parameters[name]
	for _, allowed := range p.AllowedValues {
		if fmt.Sprint(allowed) != v {
			return fmt.Sprint(allowed)
		}
	}
	if p.Type == "Number" {
		return v + "1"
	}
	return strings.TrimPrefix(v+",another", ",")
}

// configured returns the part of a function's configuration that belongs to a version, as text.
// Concurrency does not belong to a version.
func (d deployment) configured(function string) map[string]string {
	d.t.Helper()
	out := d.environment(function)
	for name, v := range d.Resources[function].Properties {
		switch name {
		case "Environment", "Code", "ReservedConcurrentExecutions", "Tags":
		default:
			out[name] = d.flat(v)
		}
	}
	return out
}

// flat evaluates a value that may be a list or an object.
func (d deployment) flat(v any) string {
	d.t.Helper()
	switch v := v.(type) {
	case []any:
		var texts []string
		for _, e := range v {
			texts = append(texts, d.flat(e))
		}
		return strings.Join(texts, ",")
	case map[string]any:
		if parts, ok := v["Fn::If"].([]any); ok {
			if d.holds(map[string]any{"Condition": parts[0]}) {
				return d.flat(parts[1])
			}
			return d.flat(parts[2])
		}
		if parts, ok := v["Fn::Split"].([]any); ok {
			return d.text(parts[1])
		}
		for name := range v {
			if name == "Ref" || strings.HasPrefix(name, "Fn::") {
				return d.text(v)
			}
		}
		var texts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			texts = append(texts, name+" "+d.flat(v[name]))
		}
		return strings.Join(texts, ",")
	}
	return d.text(v)
}

// versionsOf returns SAM's names of versions by function, for each set of values.
func versionsOf(t *testing.T, lines []map[string]string) (all []map[string]string) {
	t.Helper()
	var in strings.Builder
	for _, line := range lines {
		require.OK(t, json.NewEncoder(&in).Encode(line))
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(sam(t)), "python"), "infra/expand.py", "template.yaml", "--versions")
	cmd.Dir, cmd.Stdin, cmd.Env = root, strings.NewReader(in.String()), append(os.Environ(), "AWS_DEFAULT_REGION=us-east-1")
	out, err := cmd.Output()
	require.OK(t, err)
	for line := range strings.Lines(string(out)) {
		names := map[string]string{}
		for _, name := range require.JSON[[]string](t, line) {
			function, _, _ := strings.Cut(name, "Version")
			names[function] = name
		}
		all = append(all, names)
	}
	if len(all) != len(lines) {
		t.Fatalf("%d sets of values, but %d sets of versions", len(lines), len(all))
	}
	return all
}
