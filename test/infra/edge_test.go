package infra

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// logged contains the variables that an access log line may use. The only data of the sender in a
// line is the method. A line has the route instead of the path.
var logged = []string{
	"requestId", "requestTimeEpoch", "identity.sourceIp", "routeKey", "httpMethod", "resourcePath", "status", "error.message",
	"integrationErrorMessage", "responseLatency", "integrationLatency", "responseLength", "wafResponseCode",
}

// The access log lines of both APIs are JSON and contain only allowed variables.
func TestAccessLog(t *testing.T) {
	http := expand(t).Resources["Stage"].Properties["AccessLogSettings"].(map[string]any)
	rest := nested(t, "infra/edge-rest.yaml").Resources["Stage"].Properties["AccessLogSetting"].(map[string]any)
	variable := regexp.MustCompile(`\$context\.([A-Za-z.]+)`)
	for name, setting := range map[string]map[string]any{"http": http, "rest": rest} {
		format := setting["Fn::If"].([]any)[1].(map[string]any)["Format"].(string)
		for _, v := range variable.FindAllStringSubmatch(format, -1) {
			if !slices.Contains(logged, v[1]) {
				t.Errorf("%s: a line contains $context.%s", name, v[1])
			}
		}
		if strings.Contains(variable.ReplaceAllString(format, ""), "$") ||
			strings.Contains(format, "\n") {
			t.Errorf("%s: the format has another variable or a newline: %s", name, format)
		}
		line := require.JSON[map[string]any](t, variable.ReplaceAllString(format, "7"))
		want := strings.Fields("at bytes error failed function_ms id ip ms route status")
		if name == "rest" {
			want = append(want, "waf")
		}
		if got := slices.Sorted(maps.Keys(line)); !slices.Equal(got, want) {
			t.Errorf("%s: a line has %v, want %v", name, got, want)
		}
	}
}

// The access log exists by default, and AccessLog=false removes it.
func TestAccessLogIsOn(t *testing.T) {
	x := expand(t)
	for _, front := range []map[string]string{{}, {"FrontDoor": "rest", "DomainName": "gate.example.com"}, {"Streaming": "url"}} {
		values := maps.Clone(front)
		values["AccessLog"] = "false"
		with, without := x.deployed(t, front).has("AccessLogs"), x.deployed(t, values).has("AccessLogs")
		if !with || without {
			t.Errorf("%v: AccessLogs exist by default: %v, with AccessLog=false: %v", front, with, without)
		}
	}
}

// Each route with its own throttle exists, and CloudFormation creates it before the stage. The
// limits of both APIs are equal to docs/aws-front.md.
func TestThrottles(t *testing.T) {
	x := expand(t)
	stage := x.Resources["Stage"]
	settings, routes := stage.Properties["RouteSettings"].(map[string]any), map[string]string{}
	for _, name := range x.of("AWS::ApiGatewayV2::Route") {
		routes[x.Resources[name].Properties["RouteKey"].(string)] = name
	}
	raw, err := json.Marshal(stage)
	require.OK(t, err)
	got := map[string]string{}
	for key, setting := range settings {
		if routes[key] == "" ||
			!strings.Contains(string(raw), `"`+routes[key]+`"`) &&
				!strings.Contains(string(raw), "${"+routes[key]+"}") {
			t.Errorf("%s is throttled, but the stage does not depend on its route %q", key, routes[key])
		}
		choice, conditional := setting.(map[string]any)["Fn::If"].([]any)
		if only := x.Resources[routes[key]].Condition; conditional != (only != stage.Condition) ||
			conditional && choice[0] != only {
			t.Errorf("%s is throttled under the condition %v, but exists under %s", key, choice, only)
		}
		if conditional {
			setting = choice[1]
		}
		got[key] = limits(setting.(map[string]any))
	}
	want := map[string]string{
		"GET /healthz": "5/s, 10 at once", "ANY /.well-known/{proxy+}": "20/s, 40 at once",
		"ANY /admin": "20/s, 40 at once", "ANY /admin/{proxy+}": "20/s, 40 at once",
	}
	if !maps.Equal(got, want) {
		t.Errorf("throttles are %v, want %v", got, want)
	}

	y := nested(t, "infra/edge-rest.yaml")
	got = map[string]string{}
	for _, setting := range y.Resources["Stage"].Properties["MethodSettings"].([]any) {
		s := setting.(map[string]any)
		if s["LoggingLevel"] != "OFF" || s["DataTraceEnabled"] != false {
			t.Errorf("bodies are logged: %v", s)
		}
		if path := s["ResourcePath"].(string); path != "/*" {
			path = strings.ReplaceAll(strings.TrimPrefix(path, "/"), "~1", "/")
			got[s["HttpMethod"].(string)+" "+path] = limits(s)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("throttles of the REST API are %v, want %v", got, want)
	}
}

// limits returns the limits of the settings of a route.
func limits(s map[string]any) string {
	return fmt.Sprint(s["ThrottlingRateLimit"], "/s, ", s["ThrottlingBurstLimit"], " at once")
}

// encrypted contains the types of resources that store data, and the property that names the key.
var encrypted = map[string]string{
	"AWS::Logs::LogGroup": "KmsKeyId", "AWS::SecretsManager::Secret": "KmsKeyId", "AWS::SQS::Queue": "KmsMasterKeyId", "AWS::Lambda::Function": "KmsKeyArn",
	"AWS::S3::Bucket": "BucketEncryption", "AWS::DynamoDB::Table": "SSESpecification",
}

// In each template, every resource that stores data uses the operator's key, if there is one.
func TestEverythingKeptHasTheKey(t *testing.T) {
	found := map[string]int{}
	check := func(file string, x template) {
		for name, r := range x.Resources {
			property, keeps := encrypted[r.Type]
			if !keeps {
				continue
			}
			found[r.Type]++
			raw, err := json.Marshal(r.Properties[property])
			require.OK(t, err)
			if !strings.Contains(string(raw), `"OwnKey"`) ||
				!strings.Contains(string(raw), `"KmsKeyArn"`) {
				t.Errorf("%s: %s is not encrypted with KmsKeyArn: %s is %s", file, name, property, raw)
			}
		}
	}
	x := expand(t)
	check("template.yaml", x)
	for _, name := range x.of("AWS::CloudFormation::Stack") {
		file := text(x.Resources[name].Properties["TemplateURL"])
		y := nested(t, file)
		check(file, y)
		parameters, _ := x.Resources[name].Properties["Parameters"].(map[string]any)
		if _, takes := y.Parameters["KmsKeyArn"]; takes &&
			text(parameters["KmsKeyArn"]) != "KmsKeyArn" {
			t.Errorf("%s does not receive KmsKeyArn", file)
		}
	}
	for kind := range encrypted {
		if found[kind] == 0 {
			t.Errorf("found no %s: the search is broken", kind)
		}
	}
}

// With a VPC, all functions are in it except the hook, which calls only Lambda and CodeDeploy.
func TestFunctionsInVpc(t *testing.T) {
	x := expand(t)
	for _, name := range x.of("AWS::Lambda::Function") {
		got := text(x.Resources[name].Properties["VpcConfig"])
		inVpc := strings.HasPrefix(got, "If(InVpc, ") && strings.Contains(got, "VpcSubnetIds") &&
			strings.Contains(got, "VpcSecurityGroupIds")
		if name != "HookFunction" && !inVpc {
			t.Errorf("%s has the VPC %s", name, got)
		}
	}
}

// docs/cost.md has the right size of an access log line.
func TestAccessLogLine(t *testing.T) {
	setting := expand(t).Resources["Stage"].Properties["AccessLogSettings"].(map[string]any)
	line := setting["Fn::If"].([]any)[1].(map[string]any)["Format"].(string)
	for name, value := range map[string]string{
		"requestId": "UQ2Qpj9tFiAEPMw=", "requestTimeEpoch": "1795176000000", "identity.sourceIp": "203.0.113.7", "routeKey": "ANY /mcp", "status": "200",
		"error.message": "-", "integrationErrorMessage": "-", "responseLatency": "14", "integrationLatency": "11", "responseLength": "812",
	} {
		line = strings.ReplaceAll(line, "$context."+name, value)
	}
	const want = `{"id":"UQ2Qpj9tFiAEPMw=","at":1795176000000,"ip":"203.0.113.7","route":"ANY /mcp", "status":"200","error":"-","failed":"-", "ms":"14","function_ms":"11","bytes":"812"}`
	if line != want {
		t.Errorf("the line is %s, want %s", line, want)
	}
	const envelope = 26 // bytes that CloudWatch Logs charges in addition for each event
	page, err := os.ReadFile(filepath.Join(root, "docs", "cost.md"))
	require.OK(t, err)
	row := fmt.Sprintf("| access log, 1 M requests × %.2f KB × ", float64(len(line)+envelope)/1000)
	if !strings.Contains(string(page), row) {
		t.Errorf("docs/cost.md does not contain %q", row)
	}
}
