package infra

import (
	"cmp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/roletest"
)

// TestEnvironmentsReadTheirOwnSecrets checks the rights of each environment of samconfig.toml to
// the secrets of each environment, if all environments are in one account and region.
func TestEnvironmentsReadTheirOwnSecrets(t *testing.T) {
	functions, pipeline, config := roletest.Load(t), roletest.LoadPipeline(t), environments(t)
	standard := nested(t, "template.yaml").Parameters["SecretPrefix"].Default.(string)
	prefix := func(e environment) string { return cmp.Or(e.values()["SecretPrefix"], standard) }
	at := func(resource string, e environment) string {
		return strings.ReplaceAll(resource, "${SecretPrefix}", prefix(e))
	}
	key := func(action, name string, e environment) roletest.Request {
		return roletest.Request{Action: "secretsmanager:" + action, Resource: secretARN(name), Stack: e.Deploy.Parameters.Stack}
	}
	for own, e := range config {
		deploys := pipeline["cloudformation"].With(map[string]string{"StackName": e.Deploy.Parameters.Stack})
		for _, q := range ofProd() {
			if got := deploys.Allows(q); got != (own == "prod") {
				t.Errorf("CloudFormation for %s, resource of prod: %s is allowed: %v", own, q, got)
			}
		}
		for other, o := range config {
			for _, name := range []string{"SealKey", "TokenKey"} {
				for _, action := range []string{"GetSecretValue", "DescribeSecret", "PutSecretValue", "UpdateSecret", "DeleteSecret", "PutResourcePolicy", "TagResource", "ReplicateSecretToRegions"} {
					if q := key(action, name, o); deploys.Allows(q) != (own == other) {
						t.Errorf("CloudFormation for %s, key of %s: %s is allowed: %v", own, other, q, own != other)
					}
					if q := key(action, name, o); pipeline["deploy"].With(map[string]string{"StackName": e.Deploy.Parameters.Stack}).Allows(q) {
						t.Errorf("the workflow of %s may use the key of %s: %s", own, other, q)
					}
				}
			}
			for _, function := range []string{"mcp", "sync", "plan", "work", "assemble", "admin"} {
				role := functions[function].With(map[string]string{"SecretPrefix": prefix(e)})
				for _, q := range []roletest.Request{
					on("ssm:GetParameter", at(roletest.Parameter("github"), o)), on("secretsmanager:GetSecretValue", at(roletest.Secret("github"), o)),
				} {
					reads := own == other && function != "admin" && function != "assemble"
					if role.Allows(q) != reads {
						t.Errorf("%s of %s, secret of %s: %s is allowed: %v", function, own, other, q, !reads)
					}
				}
				for _, name := range []string{"SealKey", "TokenKey"} { // roles name the ARNs of their own keys
					if q := key("GetSecretValue", name, o); role.Allows(q) {
						t.Errorf("%s of %s may use the key of %s: %s", function, own, other, q)
					}
				}
			}
		}
	}
}

// ofProd returns reads of the resources of prod's stack other than its keys.
func ofProd() []roletest.Request {
	const named, account = "arn:${AWS::Partition}:", ":${AWS::Region}:${AWS::AccountId}:"
	return []roletest.Request{
		on("dynamodb:GetItem", named+"dynamodb"+account+"table/portcullis-Data-1A2B3C-Table-4D5E6F"),
		on("s3:GetObject", named+"s3:::portcullis-data-1a2b3c-bucket-4d5e6f/config/mcp_config.json"),
		on("lambda:GetFunction", named+"lambda"+account+"function:portcullis-McpFunction-1A2B3C"),
		on("logs:FilterLogEvents", named+"logs"+account+"log-group:portcullis-McpLogs-1A2B3C"),
	}
}

// secretARN returns the ARN of a secret that CloudFormation created.
func secretARN(name string) string {
	return "arn:${AWS::Partition}:secretsmanager:${AWS::Region}:${AWS::AccountId}:secret:" + name + "-AbCdEfGhIjKl-MnOpQr"
}

// TestPipelineMakesSecrets checks that CloudFormation can create a secret, which has no tag yet,
// and that it cannot read a secret that no stack created.
func TestPipelineMakesSecrets(t *testing.T) {
	role := roletest.LoadPipeline(t)["cloudformation"]
	for action, want := range map[string]bool{"CreateSecret": true, "DescribeSecret": true, "TagResource": true, "GetSecretValue": false, "PutSecretValue": false, "DeleteSecret": false} {
		if q := on("secretsmanager:"+action, secretARN("SealKey")); role.Allows(q) != want {
			t.Errorf("%s without a tag: allowed %v, want %v", q, !want, want)
		}
		if q := on("secretsmanager:"+action, roletest.Secret("github")); role.Allows(q) {
			t.Errorf("%s is allowed", q)
		}
	}
	if !role.Allows(on("secretsmanager:GetRandomPassword", "*")) {
		t.Error("CloudFormation cannot generate a random key")
	}
}

// TestPipelineMakesKeys checks that CloudFormation can create the key of the vault and its alias,
// and that it can change or delete only keys of its stack.
func TestPipelineMakesKeys(t *testing.T) {
	const account = "arn:${AWS::Partition}:kms:${AWS::Region}:${AWS::AccountId}:"
	role := roletest.LoadPipeline(t)["cloudformation"].With(map[string]string{"StackName": "portcullis"})
	key := func(action, stack string) roletest.Request {
		return roletest.Request{Action: "kms:" + action, Resource: account + "key/0a1b", Stack: stack}
	}
	for _, action := range []string{"PutKeyPolicy", "EnableKeyRotation", "GetKeyRotationStatus", "ScheduleKeyDeletion", "CreateAlias"} {
		if !role.Allows(key(action, "portcullis")) || role.Allows(key(action, "other")) || role.Allows(key(action, "")) {
			t.Errorf("%s is not allowed for exactly the keys of the stack", action)
		}
	}
	if !role.Allows(on("kms:CreateKey", "*")) || !role.Allows(key("TagResource", "")) || role.Allows(key("TagResource", "other")) {
		t.Error("CloudFormation cannot create a key, or can tag the key of another stack")
	}
	for alias, want := range map[string]bool{"portcullis-sign-in": true, "other-sign-in": false} {
		if got := role.Allows(on("kms:DeleteAlias", account+"alias/"+alias)); got != want {
			t.Errorf("DeleteAlias of %s: allowed %v", alias, got)
		}
	}
}
