package infra

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Agents get a new version by CodeDeploy, which asks the hook first and looks at both alarms; and
// nothing of it is there where it is off.
func TestRollOut(t *testing.T) {
	values := expand(t).Parameters["RollOut"].AllowedValues
	if len(values) < 4 {
		t.Fatalf("RollOut may be %v", values)
	}
	for _, value := range []string{"none", "AllAtOnce", "Canary10Percent5Minutes"} {
		if !slices.Contains(values, any(value)) {
			t.Errorf("RollOut may not be %s, but %v", value, values)
		}
		x := expand(t, "RollOut="+value)
		shifts := value != "none"
		for name, r := range x.Resources {
			if strings.HasPrefix(r.Type, "AWS::CodeDeploy::") && !shifts {
				t.Errorf("with RollOut=none there is %s", name)
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
			t.Errorf("%s: before traffic %q is asked", value, got)
		}
		group := x.Resources[text(update["DeploymentGroupName"])].Properties
		if got := fmt.Sprint(group["DeploymentConfigName"]); !strings.Contains(got, value) {
			t.Errorf("%s: the group is told %s", value, got)
		}
		if got := text(group["AlarmConfiguration"]); !strings.Contains(got, "RollOutErrors") || !strings.Contains(got, "RollOutSlow") || !strings.Contains(got, `"Enabled":true`) {
			t.Errorf("%s: the alarms are %s", value, got)
		}
		if got := text(group["ServiceRoleArn"]); got != "RollOutRole.Arn" {
			t.Errorf("%s: CodeDeploy has the role %s", value, got)
		}
	}
}

// What writes the catalog and what decides follow the function that agents call: a version that is taken
// back has left nothing behind that the one before could not read.
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
			t.Errorf("%s gets a version (%q) before agents have theirs", function, version)
		}
		if alias := x.Resources[function+"Aliaslive"]; !x.needs(alias.Properties)[version] {
			t.Errorf("the alias of %s has %v, not %s", function, alias.Properties, version)
		}
	}
}

// Whatever starts a function names its alias: the version that nobody has checked is called by the hook alone.
func TestCallersNameTheAlias(t *testing.T) {
	x := expand(t)
	var callers []any
	for _, kind := range []string{"AWS::Events::Rule", "AWS::Lambda::Url", "AWS::ApiGatewayV2::Integration", "AWS::Lambda::Permission", "AWS::Lambda::EventInvokeConfig", "AWS::Lambda::EventSourceMapping"} {
		for _, name := range x.of(kind) {
			p := x.Resources[name].Properties
			callers = append(callers, p["Targets"], p["TargetFunctionArn"], p["IntegrationUri"])
			for function := range x.needs([]any{p["Targets"], p["TargetFunctionArn"], p["IntegrationUri"], p["FunctionName"]}) {
				if x.Resources[function].Type == "AWS::Lambda::Function" && text(p["Qualifier"]) != "live" && !atEdge(name) {
					t.Errorf("%s names %s and no alias", name, function)
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
