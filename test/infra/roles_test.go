package infra

import (
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/roletest"
)

// on returns a request for a resource that is not an item.
func on(action, resource string) roletest.Request {
	return roletest.Request{Action: action, Resource: resource}
}

// put and remove return requests for an object of the bucket.
func put(key string) roletest.Request    { return on("s3:PutObject", roletest.Object(key)) }
func remove(key string) roletest.Request { return on("s3:DeleteObject", roletest.Object(key)) }

// Requests for a secret of a server, and of a receiver of notices.
var (
	serverSecret = on("ssm:GetParameter", roletest.Parameter("github"))
	noticeSecret = on("ssm:GetParameter", roletest.Parameter("notify/slack"))
)

// decrypt returns a request for the stack's key through a service. If service is "", the code
// itself uses the key.
func decrypt(action, service string) roletest.Request {
	return roletest.Request{Action: action, Resource: "KmsKeyArn", Via: service}
}

// TestRolesOfKeyAndNetwork checks the rights of the roles to the operator's key, and in a VPC.
func TestRolesOfKeyAndNetwork(t *testing.T) {
	roles := roletest.Load(t)
	for _, function := range []string{"mcp", "sync", "admin", "plan", "work", "assemble"} {
		writes := function != "mcp" && function != "admin" // objects, and failed events
		for _, test := range []try{
			{"reads an object", decrypt("kms:Decrypt", "s3"), true},
			{"reads an item", decrypt("kms:Decrypt", "dynamodb"), true},
			{"reads a secret", decrypt("kms:Decrypt", "secretsmanager"), true},
			{"reads a parameter", decrypt("kms:Decrypt", "ssm"), true},
			{"reads its settings", decrypt("kms:Decrypt", "lambda"), true},
			{"writes an object", decrypt("kms:GenerateDataKey", "s3"), writes},
			{"sends a failed event to a queue", decrypt("kms:GenerateDataKey", "sqs"), writes},
			{"decrypts by itself", decrypt("kms:Decrypt", ""), false},
			{"decrypts data of another service", decrypt("kms:Decrypt", "rds"), false},
			{"lends the key", decrypt("kms:CreateGrant", "s3"), false},
			{"uses another key", roletest.Request{Action: "kms:Decrypt", Resource: "TokenKey", Via: "s3"}, false},
			{"gets a network interface", roletest.Request{Action: "ec2:CreateNetworkInterface", Resource: "*", ByLambda: true}, true},
			{"creates a network interface itself", on("ec2:CreateNetworkInterface", "*"), false},
			{"deletes network interfaces of others", on("ec2:DeleteNetworkInterface", "*"), false},
			{"lists network interfaces", on("ec2:DescribeNetworkInterfaces", "*"), false},
		} {
			if got := roles[function].Allows(test.request); got != test.allowed {
				t.Errorf("%s %s: allowed %v, want %v", function, test.name, got, test.allowed)
			}
		}
	}
}

// TestRolesOfTheVault checks who may use the key of the vault, and for what. A role of a function
// that asks servers can decrypt connections of this table. Only the admin function can also decrypt
// registrations.
func TestRolesOfTheVault(t *testing.T) {
	roles := roletest.Load(t)
	for _, function := range functions {
		asks := slices.Contains([]string{"mcp", "sync", "work", "admin"}, function)
		for _, test := range []try{
			{"opens a connection", vault("kms:Decrypt", roletest.Place("CRED#gateway")), asks},
			{"seals a connection", vault("kms:Encrypt", roletest.Place("CRED#gateway")), asks},
			{"opens a registration", vault("kms:Decrypt", roletest.Place("CRED#clients")), function == "admin"},
			{"seals a sign-in that waits", vault("kms:Encrypt", roletest.Place("CRED#flow")), function == "admin"},
			{"opens an item of another table", vault("kms:Decrypt", "portcullis vault 1/other/CRED#gateway/0a1b"), false},
			{"decrypts anything", vault("kms:Decrypt", ""), false},
			{"lends the key", vault("kms:CreateGrant", roletest.Place("CRED#gateway")), false},
			{"deletes the key", vault("kms:ScheduleKeyDeletion", ""), false},
			{"changes its policy", vault("kms:PutKeyPolicy", ""), false},
		} {
			if got := roles[function].Allows(test.request); got != test.allowed {
				t.Errorf("%s %s: allowed %v, want %v", function, test.name, got, test.allowed)
			}
		}
	}
}

// vault returns a request for the key of the vault.
func vault(action, place string) roletest.Request {
	return roletest.Request{Action: action, Resource: roletest.VaultKey, Place: place}
}

// A try is a request of a function, and whether the function's role must allow it.
type try struct {
	name    string
	request roletest.Request
	allowed bool
}

// TestRolesKeepToTheirAccount checks that a role cannot read a bucket in another account. Somebody
// could create a bucket with the name of the stack's deleted bucket, and store another policy in
// it.
func TestRolesKeepToTheirAccount(t *testing.T) {
	roles := roletest.Load(t)
	for _, function := range []string{"mcp", "sync", "admin", "plan", "work", "assemble"} {
		for _, q := range []roletest.Request{on("s3:GetObject", roletest.Object("config/policy.cedar")), on("s3:ListBucket", roletest.Bucket)} {
			if !roles[function].Allows(q) {
				t.Errorf("%s may not do %s in its own account", function, q)
			}
			if q.Owner = "210987654321"; roles[function].Allows(q) {
				t.Errorf("%s may do %s in another account", function, q)
			}
		}
	}
}

// TestRolesKeepToTheirPart checks requests that a role must refuse, except those for the table,
// which TestAccessToTheTable checks. The tests of the functions check that each role has the rights
// that it needs.
func TestRolesKeepToTheirPart(t *testing.T) {
	roles := roletest.Load(t)
	for function, tries := range map[string][]try{
		"mcp": triesOfMcp(), "sync": triesOfSync(), "admin": triesOfAdmin(), "plan": triesOfPlan(), "work": triesOfWork(), "assemble": triesOfAssemble(),
	} {
		for _, test := range tries {
			if got := roles[function].Allows(test.request); got != test.allowed {
				t.Errorf("%s %s: allowed %v, want %v", function, test.name, got, test.allowed)
			}
		}
	}
}

func triesOfMcp() []try {
	return []try{
		{"queries its log", on("logs:StartQuery", "McpLogs.Arn"), false},
		{"reads metrics", on("cloudwatch:GetMetricData", "*"), false},
		{"writes the catalog", put("catalog/current-2.json"), false},
		{"reads a secret of notices", noticeSecret, false},
		{"reads a secret of notices in Secrets Manager", on("secretsmanager:GetSecretValue", roletest.Secret("notify/slack")), false},
		{"reads a secret of a server called notify", on("secretsmanager:GetSecretValue", roletest.Secret("notify")), true},
		{"starts another function", on("lambda:InvokeFunction", "AdminFunction.Arn"), false},
		{"publishes", on("sns:Publish", roletest.Topics), false},
		{"counts the receivers of alarms", on("sns:GetTopicAttributes", "AlarmTopicArn"), false},
	}
}

func triesOfSync() []try {
	return []try{
		{"reads the key of sessions", on("secretsmanager:GetSecretValue", "SealKey"), false},
		{"queries the log of calls", on("logs:StartQuery", "McpLogs.Arn"), false},
		{"reads metrics", on("cloudwatch:GetMetricData", "*"), false},
		{"publishes to the topics", on("sns:Publish", roletest.Topics), true},
		{"publishes to any topic", on("sns:Publish", "*"), false},
		{"subscribes to a topic", on("sns:Subscribe", roletest.Topics), false},
		{"starts itself", on("lambda:InvokeFunction", roletest.Syncer), false},
		{"writes the config", put("config/policy.cedar"), false},
		{"deletes the config", remove("config/policy.cedar"), false},
	}
}

func triesOfAdmin() []try {
	return []try{
		{"queries the log of calls", on("logs:StartQuery", "McpLogs.Arn"), true},
		{"queries another log", on("logs:StartQuery", "AdminLogs.Arn"), false},
		{"reads metrics", on("cloudwatch:GetMetricData", "*"), false},
		{"writes the config", put("config/policy.cedar"), false},
		{"reads a secret of a server", serverSecret, false},
		{"reads a secret of notices", noticeSecret, false},
		{"reads a secret of the gateway's clients at servers", on("ssm:GetParameter", roletest.Parameter("oauth/github")), true},
		{"publishes", on("sns:Publish", roletest.Topics), false},
		{"publishes to the topic of alarms", on("sns:Publish", "AlarmTopicArn"), false},
		{"counts the receivers of alarms", on("sns:GetTopicAttributes", "AlarmTopicArn"), true},
		{"counts them at its own topic", on("sns:GetTopicAttributes", "AlarmTopic"), true},
		{"counts them at other topics", on("sns:GetTopicAttributes", roletest.Topics), false},
	}
}
