package infra

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/golden"
)

// The golden file has the resources and the addresses in outputs, for each front.
func TestFronts(t *testing.T) {
	x := expand(t)
	var b strings.Builder
	for _, values := range []map[string]string{
		{"AuthMode": "token"},
		{"AuthMode": "jwt", "BaseUrl": "https://own"},
		{"AuthMode": "jwt", "Streaming": "url"},
		{"AuthMode": "jwt", "Streaming": "url", "BaseUrl": "https://own", "AdminUrl": "https://desk"},
		{"AuthMode": "jwt,token", "Streaming": "url", "Audience": "api://gate", "ReserveConcurrency": "false"},
		{"AuthMode": "iam", "Streaming": "url", "McpConcurrency": "7"},
		{"AuthMode": "token", "McpConcurrency": "20", "ProvisionedConcurrency": "5", "AccessLog": "false"},
		{"AuthMode": "jwt", "DomainName": "gate.example.com", "HostedZoneId": "Z1"},
		{"AuthMode": "jwt", "DomainName": "gate.example.com", "BaseUrl": "https://cdn.example.com", "OwnAddress": "open"},
		{"AuthMode": "jwt", "FrontDoor": "rest", "DomainName": "gate.example.com"},
		{"AuthMode": "iam", "FrontDoor": "rest", "DomainName": "gate.example.com", "AdminUrl": "https://desk", "WebAclRate": "0", "AccessLog": "false"},
		{"AuthMode": "token", "FrontDoor": "rest", "DomainName": "gate.example.com", "McpConcurrency": "20"},
	} {
		d := x.deployed(t, values)
		for i, name := range slices.Sorted(maps.Keys(values)) {
			b.WriteString(map[bool]string{true: "## ", false: " "}[i == 0] + name + "=" + values[name])
		}
		b.WriteString("\n")
		for _, name := range slices.Sorted(maps.Keys(x.Resources)) {
			if x.Resources[name].Condition != "" && d.has(name) {
				fmt.Fprintf(&b, "made: %s\n", name)
			}
		}
		mcp := x.Resources["McpFunction"].Properties
		fmt.Fprintf(&b, "mcp: %s s, reserved %q\n", d.text(mcp["Timeout"]), d.text(mcp["ReservedConcurrentExecutions"]))
		if alias := x.Resources["McpFunctionAliaslive"].Properties["ProvisionedConcurrencyConfig"]; d.holds(map[string]any{"Condition": "Provisioned"}) {
			fmt.Fprintf(&b, "kept started: %s\n", text(alias))
		}
		if d.has("Domain") {
			mapping := x.Resources["DomainMapping"].Properties
			fmt.Fprintf(&b, "domain: %s leads to %s, stage %s\n", d.text(x.Resources["Domain"].Properties["DomainName"]), d.text(mapping["ApiId"]), d.text(mapping["Stage"]))
		}
		if d.has("Api") {
			fmt.Fprintf(&b, "api: own address closed %s\n", d.text(x.Resources["Api"].Properties["DisableExecuteApiEndpoint"]))
		}
		if d.has("RestApi") {
			given := x.Resources["RestApi"].Properties["Parameters"].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(given)) {
				fmt.Fprintf(&b, "rest: %s = %s\n", name, d.text(given[name]))
			}
		}
		if d.has("McpFunctionUrl") {
			url := x.Resources["McpFunctionUrl"].Properties
			fmt.Fprintf(&b, "url: %s of %s, signed by %s\n", d.text(url["InvokeMode"]), d.text(url["TargetFunctionArn"]), d.text(url["AuthType"]))
		}
		for _, function := range []string{"McpFunction", "SyncFunction", "AdminFunction"} {
			env := x.Resources[function].Properties["Environment"].(map[string]any)["Variables"].(map[string]any)
			for _, name := range []string{"STREAMING", "BASE_URL", "ADMIN_URL", "AUDIENCE", "SEAL_KEY"} {
				if v, ok := env["PORTCULLIS_"+name]; ok {
					fmt.Fprintf(&b, "%s: %s = %s\n", function, name, d.text(v))
				}
			}
		}
		for _, name := range []string{"McpUrl", "AdminUrl", "ClientConfig"} {
			fmt.Fprintf(&b, "output %s: %s\n", name, d.text(x.Outputs[name].Value))
		}
		nested := x.Resources["Observability"].Properties["Parameters"].(map[string]any)
		fmt.Fprintf(&b, "alarms: of the %s API %s, streaming %s, slow at %s ms\n\n", d.text(nested["FrontDoor"]), d.text(nested["ApiId"]), d.text(nested["Streaming"]), d.text(nested["LatencyLimit"]))
	}
	golden.Check(t, "testdata/fronts.txt", b.String())
}

// CloudFormation refuses resources that need each other, such as a function with its own URL in its
// environment.
func TestNoCircle(t *testing.T) {
	x := expand(t)
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(name string, path []string)
	visit = func(name string, path []string) {
		path = append(path, name)
		switch state[name] {
		case visiting:
			t.Fatalf("circular dependency: %s", strings.Join(path, " → "))
		case done:
			return
		}
		state[name] = visiting
		r := x.Resources[name]
		for next := range x.needs([]any{r.Properties, r.UpdatePolicy}) {
			visit(next, path)
		}
		state[name] = done
	}
	for name := range x.Resources {
		visit(name, nil)
	}
	if len(x.needs(x.Resources["AdminFunction"].Properties)) < 4 {
		t.Error("found too few resources that a function needs: the search is broken")
	}
}

// An alarm counts the 5xx of each front that agents can use.
func TestAlarmsOfFronts(t *testing.T) {
	x := nested(t, "infra/observability.yaml")
	for front, want := range map[string]string{
		"Streaming=none": "ServerErrors: AWS/ApiGateway 5xx of ApiId",
		"Streaming=url":  "ServerErrors: AWS/ApiGateway 5xx of ApiId, UrlErrors: AWS/Lambda Url5xxCount of FunctionName", // of /admin, and of /mcp
		"FrontDoor=rest": "ServerErrors: AWS/ApiGateway 5XXError of ApiName",
	} {
		name, value, _ := strings.Cut(front, "=")
		d := x.deployed(t, map[string]string{name: value})
		var got []string
		for _, name := range x.of("AWS::CloudWatch::Alarm") {
			if p := x.Resources[name].Properties; d.has(name) && strings.Contains(strings.ToLower(d.text(p["MetricName"])), "5xx") {
				dimension := p["Dimensions"].([]any)[0].(map[string]any)
				got = append(got, fmt.Sprintf("%s: %s %s of %s", name, d.text(p["Namespace"]), d.text(p["MetricName"]), d.text(dimension["Name"])))
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: alarms on 5xx are %q, want %q", front, got, want)
		}
	}
}
