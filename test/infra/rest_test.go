package infra

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const restTemplate = "infra/edge-rest.yaml"

// The golden file has the routes of the REST API and the rules of the web ACL, for each way to
// deploy it.
func TestRestApi(t *testing.T) {
	x := nested(t, restTemplate)
	var b strings.Builder
	for _, values := range []map[string]string{
		{"AccessLogGroup": "lines"},
		{"Authorization": "AWS_IAM", "WebAclRate": "500"},
		{"Transfer": "BUFFERED", "WebAcl": "false"},
		{"Transfer": "BUFFERED", "Authorization": "AWS_IAM"},
	} {
		d := x.deployed(t, values)
		for i, name := range slices.Sorted(maps.Keys(values)) {
			b.WriteString(map[bool]string{true: "## ", false: " "}[i == 0] + name + "=" + values[name])
		}
		b.WriteString("\n")
		d.values["McpFunctionArn"], d.values["AdminFunctionArn"] = "mcp:live", "admin:live"
		for _, name := range slices.Sorted(maps.Keys(x.Resources)) {
			if x.Resources[name].Condition != "" && d.has(name) {
				fmt.Fprintf(&b, "made: %s\n", name)
			}
		}
		for _, name := range x.of("AWS::ApiGateway::Method") {
			p := x.Resources[name].Properties
			i := p["Integration"].(map[string]any)
			fmt.Fprintf(&b, "%s %s: %s %s, authorization %s, at most %s ms\n  %s\n", p["HttpMethod"], x.pathOf(t, p["ResourceId"]),
				i["Type"], cmp.Or(d.text(i["ResponseTransferMode"]), "BUFFERED"), d.text(p["AuthorizationType"]), d.text(i["TimeoutInMillis"]), d.text(i["Uri"]))
		}
		for _, name := range x.of("AWS::Lambda::Permission") {
			p := x.Resources[name].Properties
			fmt.Fprintf(&b, "permission %s: %s on %s from %s\n", p["Principal"], p["Action"], d.text(p["FunctionName"]), d.text(p["SourceArn"]))
		}
		api, stage := x.Resources["Api"].Properties, x.Resources["Stage"].Properties
		fmt.Fprintf(&b, "api: own address closed %v, binary %v; stage %s of %s\n", api["DisableExecuteApiEndpoint"], api["BinaryMediaTypes"], stage["StageName"], d.text(stage["DeploymentId"]))
		if d.has("WebAclOfApi") {
			acl := x.Resources["WebAclOfApi"].Properties
			fmt.Fprintf(&b, "web ACL: default %s, before %s\n", text(acl["DefaultAction"]), d.text(x.Resources["WebAclAssociation"].Properties["ResourceArn"]))
			for _, r := range acl["Rules"].([]any) {
				fmt.Fprintf(&b, "  %s\n", text(r))
			}
		}
		b.WriteString("\n")
	}
	golden.Check(t, "testdata/rest.txt", b.String())
}

// pathOf returns the path of a resource of the REST API.
func (x template) pathOf(t *testing.T, ref any) string {
	t.Helper()
	name := text(ref)
	if name == "Api.RootResourceId" {
		return ""
	}
	r, ok := x.Resources[name]
	if !ok {
		t.Fatalf("no resource %s", name)
	}
	return x.pathOf(t, r.Properties["ParentId"]) + "/" + r.Properties["PathPart"].(string)
}

// API Gateway serves a REST API in the state at its deployment. Therefore the name of a deployment
// must change with the API, and each deployment must depend on every method.
func TestDeploymentsOfRestApi(t *testing.T) {
	x := nested(t, restTemplate)
	content := map[string]any{}
	for name, r := range x.Resources {
		if r.Type == "AWS::ApiGateway::RestApi" || r.Type == "AWS::ApiGateway::Resource" || r.Type == "AWS::ApiGateway::Method" {
			content[name] = []any{r.Type, r.Properties}
		}
	}
	raw, err := json.Marshal(content) // with sorted members
	require.OK(t, err)
	sum := sha256.Sum256(raw)
	digits := hex.EncodeToString(sum[:])[:6]
	deployments := x.of("AWS::ApiGateway::Deployment")
	for _, name := range deployments {
		r := x.Resources[name]
		if want := r.Condition + "X" + digits; name != want {
			t.Errorf("the API or a route of %s changed: name the deployment %s %s, there and in Stage", restTemplate, name, want)
		}
		if methods := x.of("AWS::ApiGateway::Method"); !slices.Equal(slices.Sorted(slices.Values(texts(r.DependsOn))), methods) {
			t.Errorf("%s depends on %v, want %v", name, r.DependsOn, methods)
		}
	}
	if len(deployments) != 4 {
		t.Errorf("deployments %v, want one for each transfer and authorization", deployments)
	}
}

func texts(v any) []string {
	var out []string
	list, _ := v.([]any)
	for _, e := range list {
		out = append(out, e.(string))
	}
	return out
}

// Both APIs have the same routes, with the same authorization.
func TestRoutesOfBothApis(t *testing.T) {
	x, y := expand(t), nested(t, restTemplate)
	for _, auth := range []string{"token", "iam"} {
		http, rest := map[string]string{}, map[string]string{}
		d := x.deployed(t, map[string]string{"AuthMode": auth})
		for _, name := range x.of("AWS::ApiGatewayV2::Route") {
			p := x.Resources[name].Properties
			http[p["RouteKey"].(string)] = strings.TrimPrefix(d.text(p["AuthorizationType"]), "NONE")
		}
		d = x.deployed(t, map[string]string{"AuthMode": auth, "FrontDoor": "rest", "DomainName": "gate.example.com"})
		given := x.Resources["RestApi"].Properties["Parameters"].(map[string]any)
		e := y.deployed(t, map[string]string{"Authorization": d.text(given["Authorization"])})
		for _, name := range y.of("AWS::ApiGateway::Method") {
			p := y.Resources[name].Properties
			rest[p["HttpMethod"].(string)+" "+y.pathOf(t, p["ResourceId"])] = strings.TrimPrefix(e.text(p["AuthorizationType"]), "NONE")
		}
		if !maps.Equal(http, rest) {
			t.Errorf("%s: the HTTP API has %v, the REST API %v", auth, http, rest)
		}
	}
}
