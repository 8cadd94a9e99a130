package infra

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// CodeDeploy moves agents to a new version. It runs the hook first and checks both alarms. With
// RollOut=none the template contains nothing of CodeDeploy.
func TestRollOut(t *testing.T) {
	values := expand(t).Parameters["RollOut"].AllowedValues
	if len(values) < 4 {
		t.Fatalf("allowed values of RollOut: %v", values)
	}
	for _, value := range []string{"none", "AllAtOnce", "Canary10Percent5Minutes"} {
		if !slices.Contains(values, any(value)) {
			t.Errorf("%s is not an allowed value of RollOut: %v", value, values)
		}
		x := expand(t, "RollOut="+value)
		shifts := value != "none"
		for name, r := range x.Resources {
			if strings.HasPrefix(r.Type, "AWS::CodeDeploy::") && !shifts {
				t.Errorf("%s exists with RollOut=none", name)
			}
		}
		alias := x.Resources["McpFunctionAliaslive"]
		if alias.Type == "" || shifts != (alias.UpdatePolicy != nil) {
			t.Fatalf("%s: the alias is %+v", value, alias)
		}
		if !shifts {
			continue
		}
		update := alias.UpdatePolicy["CodeDeployLambdaAliasUpdate"].(map[string]any)
		if got := text(update["BeforeAllowTrafficHook"]); got != "HookFunction" {
			t.Errorf("%s: hook before traffic is %q", value, got)
		}
		group := x.Resources[text(update["DeploymentGroupName"])].Properties
		if got := fmt.Sprint(group["DeploymentConfigName"]); !strings.Contains(got, value) {
			t.Errorf("%s: configuration of the deployment group is %s", value, got)
		}
		if got := text(group["AlarmConfiguration"]); !strings.Contains(got, "RollOutErrors") || !strings.Contains(got, "RollOutSlow") || !strings.Contains(got, `"Enabled":true`) {
			t.Errorf("%s: the alarms are %s", value, got)
		}
		if got := text(group["ServiceRoleArn"]); got != "RollOutRole.Arn" {
			t.Errorf("%s: CodeDeploy has the role %s", value, got)
		}
	}
}

// A long call must not roll back a good version, because a call may last as long as the front
// allows. So the limit for slow requests is a third of the function's timeout, as in the permanent
// alarm Slow.
func TestSlowFollowsTheFront(t *testing.T) {
	x := expand(t)
	const domain = "gate.example.com"
	for front, values := range map[string]map[string]string{
		"an HTTP API":    {},
		"a Function URL": {"Streaming": "url"},
		"a REST API":     {"FrontDoor": "rest", "DomainName": domain},
	} {
		d := x.deployed(t, values)
		limit, err := strconv.Atoi(d.text(d.Resources["RollOutSlow"].Properties["Threshold"]))
		require.OK(t, err)
		timeout, err := strconv.Atoi(d.text(d.Resources["McpFunction"].Properties["Timeout"]))
		require.OK(t, err)
		if third := timeout / 3 * 1000; limit < third || limit > third+1000 {
			t.Errorf("%s: a request may take %d s, but requests of %d ms roll back a version", front, timeout, limit)
		}
		if standing := d.text(d.Resources["Observability"].Properties["Parameters"].(map[string]any)["LatencyLimit"]); standing != strconv.Itoa(limit) {
			t.Errorf("%s: limit of the roll-out is %d ms, but the limit of the alarm Slow is %s ms", front, limit, standing)
		}
	}
}

// The functions that write the catalog and store decisions are deployed after the function that
// agents call. If the new version is rolled back, nothing has been written that the old version
// cannot read.
func TestOthersFollowTheRollOut(t *testing.T) {
	x := expand(t)
	for _, function := range []string{"SyncFunction", "WorkFunction", "AssembleFunction", "AdminFunction"} {
		version := ""
		for _, name := range x.of("AWS::Lambda::Version") {
			if strings.HasPrefix(name, function+"Version") {
				version = name
			}
		}
		if !x.needs(x.Resources[version].Properties)["McpFunctionAliaslive"] {
			t.Errorf("%s gets its version (%q) before the mcp function", function, version)
		}
		if alias := x.Resources[function+"Aliaslive"]; !x.needs(alias.Properties)[version] {
			t.Errorf("the alias of %s has %v, not %s", function, alias.Properties, version)
		}
	}
}

// Each caller of a function names the alias. Only the hook calls a version that is not checked yet.
func TestCallersNameTheAlias(t *testing.T) {
	x := expand(t)
	var callers []any
	for _, kind := range []string{"AWS::Events::Rule", "AWS::Lambda::Url", "AWS::ApiGatewayV2::Integration", "AWS::Lambda::Permission", "AWS::Lambda::EventInvokeConfig", "AWS::Lambda::EventSourceMapping"} {
		for _, name := range x.of(kind) {
			p := x.Resources[name].Properties
			callers = append(callers, p["Targets"], p["TargetFunctionArn"], p["IntegrationUri"])
			for function := range x.needs([]any{p["Targets"], p["TargetFunctionArn"], p["IntegrationUri"], p["FunctionName"]}) {
				if x.Resources[function].Type == "AWS::Lambda::Function" && text(p["Qualifier"]) != "live" && !atEdge(name) {
					t.Errorf("%s names %s without its alias", name, function)
				}
			}
		}
	}
	if len(callers) < 8 {
		t.Errorf("found %d callers: the search is broken", len(callers))
	}
}

// atEdge reports whether a caller belongs to the API.
func atEdge(name string) bool {
	return slices.Contains([]string{"McpIntegration", "AdminIntegration", "McpPermission", "AdminPermission"}, name)
}
