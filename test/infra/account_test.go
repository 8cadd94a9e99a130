package infra

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// templates returns each template of the repository by its path, also those that template.yaml
// includes as nested stacks.
func templates(t *testing.T) map[string]template {
	t.Helper()
	all := map[string]template{"template.yaml": expand(t)}
	files, err := filepath.Glob(filepath.Join(root, "infra", "*.yaml"))
	require.OK(t, err)
	for _, file := range files {
		path := "infra/" + filepath.Base(file)
		all[path] = nested(t, path)
	}
	for name, r := range all["template.yaml"].Resources {
		if path := text(r.Properties["TemplateURL"]); r.Type == "AWS::CloudFormation::Stack" &&
			all[path].Resources == nil {
			t.Errorf("%s includes %s, which is no file of infra", name, path)
		}
	}
	return all
}

// Every role of every template has the path and the permissions boundary that the operator names. A
// stack with the path / has roles without this property: CloudFormation replaces a role whose
// property Path is new.
func TestRolesOfTheAccount(t *testing.T) {
	roles := 0
	for file, x := range templates(t) {
		for _, name := range x.of("AWS::IAM::Role") {
			roles++
			p := x.Resources[name].Properties
			if got := text(p["Path"]); got != "If(AtPath, RolePath, AWS::NoValue)" {
				t.Errorf("%s: %s has the path %q", file, name, got)
			}
			const bounded = "If(Bounded, PermissionsBoundary, AWS::NoValue)"
			if got := text(p["PermissionsBoundary"]); got != bounded {
				t.Errorf("%s: %s has the boundary %q", file, name, got)
			}
		}
		if len(x.of("AWS::IAM::Role")) == 0 {
			continue
		}
		for path, want := range map[string]bool{"/": false, "/gateways/": true} {
			d := x.deployed(t, map[string]string{"RolePath": path})
			if got := d.holds(map[string]any{"Condition": "AtPath"}); got != want {
				t.Errorf("%s: roles have a path with RolePath=%s: %v", file, path, got)
			}
		}
	}
	if roles != 11 {
		t.Errorf("found %d roles, want 11: change this number if you add or remove a role", roles)
	}
	x := expand(t)
	for _, name := range x.of("AWS::CloudFormation::Stack") {
		given, _ := x.Resources[name].Properties["Parameters"].(map[string]any)
		takes := nested(t, text(x.Resources[name].Properties["TemplateURL"])).Parameters
		for _, p := range []string{"RolePath", "PermissionsBoundary"} {
			if _, ok := takes[p]; ok && text(given[p]) != p {
				t.Errorf("%s does not receive %s", name, p)
			}
		}
	}
}

// A log group outlives its stack, because it has audit lines. CloudFormation chooses its name, or
// the name has the id of the stack. Otherwise a later stack of the same name could not be created.
func TestLogGroupsOutliveTheStack(t *testing.T) {
	groups := 0
	for file, x := range templates(t) {
		for _, name := range x.of("AWS::Logs::LogGroup") {
			groups++
			r := x.Resources[name]
			if r.DeletionPolicy != "RetainExceptOnCreate" || r.UpdateReplacePolicy != "Retain" {
				t.Errorf(
					"%s: %s: DeletionPolicy %q, UpdateReplacePolicy %q",
					file,
					name,
					r.DeletionPolicy,
					r.UpdateReplacePolicy,
				)
			}
			if r.Properties["RetentionInDays"] == nil {
				t.Errorf("%s: the lines of %s never expire", file, name)
			}
			if named := text(r.Properties["LogGroupName"]); named != "" &&
				!strings.Contains(named, "AWS::StackId") {
				t.Errorf("%s: %s has the fixed name %s", file, name, named)
			}
		}
	}
	if groups < 8 {
		t.Errorf("found %d log groups: the search is broken", groups)
	}
}

// staying has the resources that no update may delete or replace, because they hold data, or
// because callers know their address. The text is the type, and the properties whose change would replace
// the resource. This list is in the test, so that -update cannot change it.
var staying = map[string]map[string]string{
	"template.yaml": {
		"Data":                 "AWS::CloudFormation::Stack",
		"AuditLines":           "AWS::CloudFormation::Stack",
		"RestApi":              "AWS::CloudFormation::Stack",
		"TokenKey":             "AWS::SecretsManager::Secret",
		"SealKey":              "AWS::SecretsManager::Secret",
		"VaultKey":             "AWS::KMS::Key",
		"VaultKeyAlias":        "AWS::KMS::Alias AliasName=alias/${AWS::StackName}-sign-in",
		"McpFunction":          "AWS::Lambda::Function",
		"SyncFunction":         "AWS::Lambda::Function",
		"WorkFunction":         "AWS::Lambda::Function",
		"AssembleFunction":     "AWS::Lambda::Function",
		"AdminFunction":        "AWS::Lambda::Function",
		"HookFunction":         "AWS::Lambda::Function",
		"McpFunctionAliaslive": "AWS::Lambda::Alias FunctionName=McpFunction Name=live",
		"McpRole":              "AWS::IAM::Role",
		"SyncRole":             "AWS::IAM::Role",
		"WorkRole":             "AWS::IAM::Role",
		"AssembleRole":         "AWS::IAM::Role",
		"AdminRole":            "AWS::IAM::Role",
		"McpLogs":              "AWS::Logs::LogGroup",
		"SyncLogs":             "AWS::Logs::LogGroup",
		"WorkLogs":             "AWS::Logs::LogGroup",
		"AssembleLogs":         "AWS::Logs::LogGroup",
		"AdminLogs":            "AWS::Logs::LogGroup",
		"Api":                  "AWS::ApiGatewayV2::Api ProtocolType=HTTP",
		"Domain":               "AWS::ApiGatewayV2::DomainName DomainName=DomainName",
		"McpFunctionUrl":       "AWS::Lambda::Url TargetFunctionArn=McpFunctionAliaslive",
		"AlarmTopic":           "AWS::SNS::Topic",
		"DeadLetters":          "AWS::SQS::Queue",
	},
	"infra/data.yaml": {
		"Bucket":       "AWS::S3::Bucket BucketName=If(NamedBucket, BucketName, AWS::NoValue)",
		"BucketPolicy": "AWS::S3::BucketPolicy Bucket=Bucket",
		"Table": "AWS::DynamoDB::Table KeySchema=" +
			`{"AttributeName":"PK","KeyType":"HASH"}, {"AttributeName":"SK","KeyType":"RANGE"}` +
			" TableName=If(NamedTable, TableName, AWS::NoValue)",
	},
	"infra/audit.yaml":     {"Bucket": "AWS::S3::Bucket"},
	"infra/edge-rest.yaml": {"Api": "AWS::ApiGateway::RestApi"},
}

// replacing has the properties whose change makes CloudFormation replace a resource, as AWS
// documents them, without properties that no template could use.
var replacing = []string{
	"AliasName", "Bucket", "BucketName", "DomainName", "FifoQueue", "FunctionName",
	"ImportSourceLocation", "KeySchema", "KeySpec", "LogGroupName", "LogGroupClass",
	"MultiRegion", "Name", "PackageType", "ProtocolType", "QueueName", "Qualifier",
	"RoleName", "StackName", "TableName", "TargetFunctionArn", "TenancyConfig", "TopicName",
	"FifoTopic",
}

// mutable has the names of such properties that another type can change in place.
var mutable = []string{"AWS::ApiGatewayV2::Api Name", "AWS::ApiGateway::RestApi Name"}

// No update replaces or deletes a resource that holds data or that callers know. A resource that
// moves to another template is a deleted resource and a new one.
func TestResourcesThatStay(t *testing.T) {
	all := templates(t)
	for file, resources := range staying {
		for name, want := range resources {
			r, ok := all[file].Resources[name]
			if !ok {
				t.Errorf("%s has no %s: an update would delete it with its data", file, name)
				continue
			}
			got := r.Type
			for _, p := range slices.Sorted(maps.Keys(r.Properties)) {
				if slices.Contains(replacing, p) && !slices.Contains(mutable, r.Type+" "+p) {
					got += fmt.Sprintf(" %s=%s", p, text(r.Properties[p]))
				}
			}
			if got != want {
				t.Errorf("%s: %s is %q, want %q: an update would replace it", file, name, got, want)
			}
		}
	}
	for name, r := range all["template.yaml"].Resources {
		kept := regexp.MustCompile(`^AWS::(SecretsManager|KMS|SNS|SQS|` +
			`ApiGatewayV2::DomainName|Lambda::(Url|Function)$|CloudFormation)`).
			MatchString(r.Type)
		if _, ok := staying["template.yaml"][name]; kept && !ok && name != "Observability" &&
			name != "FanOut" {
			t.Errorf(
				"%s (%s) is in neither list: say whether an update may replace it",
				name,
				r.Type,
			)
		}
	}
}
