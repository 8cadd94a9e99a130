package infra

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A template is a CloudFormation template, such as the translation of template.yaml by SAM.
type template struct {
	Parameters map[string]struct {
		Type           string
		Default        any
		AllowedPattern string
		AllowedValues  []any

		MinValue, MaxValue *float64
	}
	Metadata   map[string]map[string]any
	Rules      map[string]rule
	Conditions map[string]any
	Resources  map[string]resource
	Outputs    map[string]struct{ Value any }
}

type resource struct {
	Type                                string
	Condition                           string
	DependsOn                           any
	DeletionPolicy, UpdateReplacePolicy string
	Properties                          map[string]any
	UpdatePolicy                        map[string]any
}

// only returns a text with the condition of the resource, or "".
func (r resource) only() string {
	if r.Condition == "" {
		return ""
	}
	return "only if " + r.Condition + ", "
}

// printed contains the output of Python by its arguments. Python is slow to start.
var printed sync.Map

// python runs Python with the libraries of the SAM CLI, and returns its output. Python must print
// the same for the same arguments.
func python(t *testing.T, args ...string) string {
	t.Helper()
	key := strings.Join(args, "\n")
	if out, ok := printed.Load(key); ok {
		return out.(string)
	}
	out := command(t, nil, filepath.Join(filepath.Dir(sam(t)), "python"), args...)
	printed.Store(key, out)
	return out
}

// expand returns the CloudFormation template of template.yaml, with values for the parameters that
// SAM reads.
func expand(t *testing.T, values ...string) template {
	t.Helper()
	args := append([]string{"infra/expand.py", "template.yaml"}, values...)
	return require.JSON[template](t, python(t, args...))
}

// nested reads a template that SAM need not translate.
func nested(t *testing.T, path string) template {
	t.Helper()
	const script = "import json, sys; from samcli.yamlhelper import yaml_parse; " +
		"json.dump(yaml_parse(open(sys.argv[1]).read()), sys.stdout)"
	return require.JSON[template](t, python(t, "-c", script, path))
}

// of returns the names of the resources of a type, sorted.
func (x template) of(kind string) []string {
	var names []string
	for name, r := range x.Resources {
		if r.Type == kind {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestTemplateMayDoWhatTheGoldenFileSays compares the rights, the routes and the triggers of the
// template with a golden file.
func TestTemplateMayDoWhatTheGoldenFileSays(t *testing.T) {
	x := expand(t)
	var b strings.Builder
	for _, name := range x.of("AWS::Lambda::Function") {
		p := x.Resources[name].Properties
		fmt.Fprintf(&b, "%sfunction %s: %s, %s s, at most %s, role %s\n", x.Resources[name].only(), name, p["Runtime"], text(p["Timeout"]), text(p["ReservedConcurrentExecutions"]), text(p["Role"]))
	}
	for _, name := range x.of("AWS::IAM::Role") {
		fmt.Fprintf(&b, "\n%srole %s, for %s\n", x.Resources[name].only(), name, principal(x.Resources[name]))
		for _, s := range statements(x.Resources[name]) {
			fmt.Fprintf(&b, "  %s\n", s)
		}
	}
	for _, name := range x.of("AWS::KMS::Key") {
		p := x.Resources[name].Properties
		fmt.Fprintf(&b, "\n%skey %s, rotates: %s, deleted after %s days\n", x.Resources[name].only(), name, text(p["EnableKeyRotation"]), text(p["PendingWindowInDays"]))
		for _, s := range read(p["KeyPolicy"]) {
			fmt.Fprintf(&b, "  %s\n", s)
		}
	}
	b.WriteString("\n")
	for _, name := range x.of("AWS::ApiGatewayV2::Route") {
		p := x.Resources[name].Properties
		auth := p["AuthorizationType"]
		if auth == nil {
			auth = "NONE"
		}
		target := strings.TrimSuffix(strings.TrimPrefix(text(p["Target"]), "integrations/${"), "}")
		fmt.Fprintf(&b, "%sroute %s: %s, authorization %s\n", x.Resources[name].only(), p["RouteKey"], text(x.Resources[target].Properties["IntegrationUri"]), text(auth))
	}
	for _, name := range x.of("AWS::Events::Rule") {
		p := x.Resources[name].Properties
		fmt.Fprintf(&b, "rule %s: %s%s starts %s\n", name, text(p["ScheduleExpression"]), text(p["EventPattern"]), text(p["Targets"]))
	}
	for _, name := range x.of("AWS::Lambda::Permission") {
		p := x.Resources[name].Properties
		fmt.Fprintf(&b, "%spermission %s: %s on %s from %s", x.Resources[name].only(), text(p["Principal"]), p["Action"], text(p["FunctionName"]), text(p["SourceArn"]))
		for _, limit := range []string{"FunctionUrlAuthType", "InvokedViaFunctionUrl"} {
			if v := p[limit]; v != nil {
				fmt.Fprintf(&b, ", %s %s", limit, text(v))
			}
		}
		b.WriteString("\n")
	}
	for _, name := range x.of("AWS::Lambda::EventSourceMapping") {
		p := x.Resources[name].Properties
		fmt.Fprintf(&b, "%smapping %s: %s a call of %s %s\n", x.Resources[name].only(), text(p["FunctionName"]), text(p["BatchSize"]), text(p["EventSourceArn"]), text(p["ScalingConfig"]))
	}
	golden.Check(t, "testdata/template.txt", b.String())
}

// nameless contains the actions that do not support resources.
var nameless = []string{
	"xray:PutTraceSegments", "xray:PutTelemetryRecords", // X-Ray
	"cloudwatch:DescribeAlarms", // of CodeDeploy
	// Lambda creates network interfaces in a VPC for a function; the function's code cannot. AWS's
	// managed policy names no resource for them either.
	"ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:DeleteNetworkInterface", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
	"logs:GetQueryResults", "logs:StopQuery", // for a running query
}

// Each role names its actions, and its resources if the action supports them.
func TestNoRoleHasAWildcard(t *testing.T) {
	x := expand(t)
	roles := x.of("AWS::IAM::Role")
	if len(roles) != 7 {
		t.Fatalf("roles %v, want one for each function and one for CodeDeploy", roles)
	}
	for _, name := range roles {
		for _, s := range statements(x.Resources[name]) {
			if strings.Contains(s.actions, "*") {
				t.Errorf("%s: %s", name, s)
			}
			for action := range strings.SplitSeq(s.actions, ", ") {
				if s.resources == "*" && !slices.Contains(nameless, action) {
					t.Errorf("%s: %s on every resource: %s", name, action, s)
				}
			}
		}
	}
	for _, name := range x.of("AWS::Lambda::Function") {
		if role := text(x.Resources[name].Properties["Role"]); role != strings.Replace(name, "Function", "Role", 1)+".Arn" {
			t.Errorf("%s has the role %s", name, role)
		}
	}
}

// maxPolicies is IAM's limit for all inline policies of a role, in characters without white space.
const maxPolicies = 10_240

// The policies of each role are within IAM's limit. Without this test, only a failing deploy would
// show an exceeded limit, because no linter checks it.
func TestPoliciesFit(t *testing.T) {
	x := expand(t)
	for _, name := range x.of("AWS::IAM::Role") {
		policies, err := json.Marshal(longest(x.Resources[name].Properties["Policies"]))
		require.OK(t, err)
		if t.Logf("%s: at most %d characters", name, len(policies)); len(policies) > maxPolicies {
			t.Errorf("the policies of %s have up to %d characters, IAM accepts %d", name, len(policies), maxPolicies)
		}
	}
}

// longest returns a value with the longest texts that CloudFormation could insert: an ARN for each
// name, ten ARNs for topics, and the parts that exist only under a condition.
func longest(v any) any {
	arn := strings.Repeat("a", 128)
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = longest(e)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, arg := range v {
			parts, _ := arg.([]any)
			switch {
			case name == "Fn::If":
				return longest(parts[1])
			case name == "Ref" && arg == "NotifyTopics":
				return slices.Repeat([]string{arn}, 10)
			case name == "Fn::Sub" && parts == nil:
				return arn + arg.(string)[strings.LastIndex(arg.(string), "}")+1:]
			case name == "Ref" || strings.HasPrefix(name, "Fn::"):
				return arn
			}
			out[name] = longest(arg)
		}
		return out
	}
	return v
}

// cfn-lint accepts all templates, and SAM accepts template.yaml, which stays short.
func TestTemplatesAreClean(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	require.OK(t, err)
	if n := strings.Count(string(source), "\n"); n > 1000 {
		t.Errorf("template.yaml has %d lines, want at most 1000: docs/design/template.md says what may move", n)
	}
	command(t, []string{"MAKEFLAGS="}, "make", "template-lint")
	out := command(t, nil, sam(t), "validate")
	if !strings.Contains(out, "is a valid SAM Template") {
		t.Errorf("sam validate prints %s", out)
	}
}

// A statement is one statement of a role, as texts.
type statement struct{ sid, effect, principal, actions, resources, condition string }

func (s statement) String() string {
	out := fmt.Sprintf("%s: %s %s%s on %s", s.sid, strings.ToLower(s.effect), s.principal, s.actions, s.resources)
	if s.condition != "" {
		out += " if " + s.condition
	}
	return out
}

func statements(role resource) []statement {
	var all []statement
	policies, _ := role.Properties["Policies"].([]any)
	for _, p := range policies {
		all = append(all, read(p.(map[string]any)["PolicyDocument"])...)
	}
	return all
}

// read returns the statements of a policy.
func read(document any) []statement {
	var all []statement
	for _, raw := range document.(map[string]any)["Statement"].([]any) {
		m := raw.(map[string]any)
		prefix, who := "", ""
		if choice, ok := m["Fn::If"].([]any); ok { // the other branch is AWS::NoValue
			prefix, m = "only if "+choice[0].(string)+", ", choice[1].(map[string]any)
		}
		if p, ok := m["Principal"].(map[string]any); ok {
			who = text(p["AWS"]) + " "
		}
		all = append(all, statement{
			sid: prefix + m["Sid"].(string), effect: m["Effect"].(string), principal: who,
			actions: text(m["Action"]), resources: text(m["Resource"]), condition: text(m["Condition"]),
		})
	}
	return all
}

func principal(role resource) string {
	document := role.Properties["AssumeRolePolicyDocument"].(map[string]any)
	return text(document["Statement"].([]any)[0].(map[string]any)["Principal"])
}

// text returns a value as text, with a short form of intrinsic functions.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return fmt.Sprint(v)
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = text(e)
		}
		return strings.Join(parts, ", ")
	case map[string]any:
		if len(v) == 1 {
			for name, arg := range v {
				switch name {
				case "Ref", "Fn::Sub":
					return text(arg)
				case "Fn::GetAtt":
					return strings.ReplaceAll(text(arg), ", ", ".")
				case "Fn::If":
					return "If(" + text(arg) + ")"
				}
			}
		}
	}
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}
