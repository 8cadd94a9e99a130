package infra

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/test/roletest"
)

const get, query, put, update, remove = "dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"

// item is a request of an item of the table.
func item(action, key string, attributes ...string) roletest.Request {
	return roletest.Request{Action: action, Resource: roletest.Table, LeadingKeys: []string{key}, Attributes: attributes}
}

// items is a request of several items at once.
func items(action string, keys ...string) roletest.Request {
	return roletest.Request{Action: action, Resource: roletest.Table, LeadingKeys: keys}
}

// on is a request of a resource that is no item.
func on(action, resource string) roletest.Request {
	return roletest.Request{Action: action, Resource: resource}
}

// decrypt is a use of the stack's key by way of a service; "" is one by the code itself.
func decrypt(action, service string) roletest.Request {
	return roletest.Request{Action: action, Resource: "KmsKeyArn", Via: service}
}

// TestRolesOfKeyAndNetwork tries what the roles may do with a key of the operator's and in a VPC.
func TestRolesOfKeyAndNetwork(t *testing.T) {
	roles := roletest.Load(t)
	for _, function := range []string{"mcp", "sync", "admin", "plan", "work", "assemble"} {
		writes := function != "mcp" && function != "admin" // objects, and what it could not do to a queue
		for _, test := range []try{
			{"reads an object", decrypt("kms:Decrypt", "s3"), true},
			{"reads an item", decrypt("kms:Decrypt", "dynamodb"), true},
			{"reads a secret", decrypt("kms:Decrypt", "secretsmanager"), true},
			{"reads a parameter", decrypt("kms:Decrypt", "ssm"), true},
			{"has its settings", decrypt("kms:Decrypt", "lambda"), true},
			{"writes an object", decrypt("kms:GenerateDataKey", "s3"), writes},
			{"gives an event up", decrypt("kms:GenerateDataKey", "sqs"), writes},
			{"decrypts by itself", decrypt("kms:Decrypt", ""), false},
			{"decrypts what another service has", decrypt("kms:Decrypt", "rds"), false},
			{"lends the key", decrypt("kms:CreateGrant", "s3"), false},
			{"uses another key", roletest.Request{Action: "kms:Decrypt", Resource: "TokenKey", Via: "s3"}, false},
			{"gets an interface", roletest.Request{Action: "ec2:CreateNetworkInterface", Resource: "*", ByLambda: true}, true},
			{"makes one by itself", on("ec2:CreateNetworkInterface", "*"), false},
			{"takes away those of others", on("ec2:DeleteNetworkInterface", "*"), false},
			{"looks around", on("ec2:DescribeNetworkInterfaces", "*"), false},
		} {
			if got := roles[function].Allows(test.request); got != test.allowed {
				t.Errorf("%s %s: allowed %v, want %v", function, test.name, got, test.allowed)
			}
		}
	}
}

// A try is what a function does, and whether its role lets it.
type try struct {
	name    string
	request roletest.Request
	allowed bool
}

// TestRolesKeepToTheirAccount holds that a bucket which somebody else made anew under the name of the
// stack's is not read: it could hold another policy.
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

// TestRolesKeepToTheirItems writes and reads where a function must not. That each may
// do what it has to is held by the tests of the functions, whose calls pass the same roles.
func TestRolesKeepToTheirItems(t *testing.T) {
	roles := roletest.Load(t)
	for function, tries := range map[string][]try{
		"mcp": triesOfMcp(), "sync": triesOfSync(), "admin": triesOfAdmin(), "plan": triesOfPlan(), "work": triesOfWork(), "assemble": triesOfAssemble(),
	} {
		t.Run(function, func(t *testing.T) {
			for _, test := range tries {
				t.Run(test.name, func(t *testing.T) {
					if got := roles[function].Allows(test.request); got != test.allowed {
						t.Errorf("%s: allowed %v, want %v", test.request, got, test.allowed)
					}
				})
			}
		})
	}
}

func triesOfMcp() []try {
	return []try{
		{"reads a record", item(get, "SRV#github"), true},
		{"reads a token", item(get, "TOKENS"), true},
		{"notes the use of a token", item(update, "TOKENS", "PK", "SK", "last_used"), true},
		{"decides", item(put, "SRV#github"), false},
		{"reads decisions", on(query, roletest.Index("decisions")), true},
		{"changes a record in part", item(update, "SRV#github", "last_used"), false},
		{"makes a token", item(put, "TOKENS"), false},
		{"changes a token", item(update, "TOKENS", "PK", "SK", "last_used", "token"), false},
		{"writes the audit", item(put, "AUDIT#github"), false},
		{"reads the audit", item(query, "AUDIT#github"), false},
		{"lists the tokens", item(query, "TOKENS"), false},
		{"lists the records of a server", item(query, "SRV#github"), false},
		{"signs a person in", item(put, "LOGIN#SESSIONS"), false},
		{"prolongs the session of a person", item(update, "LOGIN#SESSIONS", "last_used"), false},
		{"reads the session of a person", item(get, "LOGIN#SESSIONS"), false},
		{"lists who is signed in", item(query, "LOGIN#SESSIONS"), false},
		{"signs a person out", item(remove, "LOGIN#SESSIONS"), false},
		{"finds an agent's session", item(get, "SESSION#x"), true},
		{"keeps an agent's session", item(put, "SESSION#x"), true},
		{"ends an agent's session", item(remove, "SESSION#x"), true},
		{"lists sessions", item(query, "SESSION#x"), false},
		{"reads the whole table", on("dynamodb:Scan", roletest.Table), false},
		{"reads without a key", on(get, roletest.Table), false},
		{"deletes a record", item(remove, "SRV#github"), false},
		{"reads a record and the stops at once", items("dynamodb:BatchGetItem", "SRV#github", "STOP"), true},
		{"reads the stops", item(get, "STOP"), true},
		{"undoes a stop", item(put, "STOP"), false},
		{"changes a stop", item(update, "STOP", "stops"), false},
		{"takes the stops away", item(remove, "STOP"), false},
		{"lists what is at the key of stops", item(query, "STOP"), false},
		{"reads a token beside a record", items("dynamodb:BatchGetItem", "SRV#github", "TOKENS"), false},
		{"reads a session beside a record", items("dynamodb:BatchGetItem", "SRV#github", "LOGIN#SESSIONS"), false},
		{"writes the deeds", item(put, "AUDIT#@gateway"), false},
		{"reads the deeds", item(query, "AUDIT#@gateway"), false},
		{"queries its log", on("logs:StartQuery", "McpLogs.Arn"), false},
		{"reads metrics", on("cloudwatch:GetMetricData", "*"), false},
		{"writes the catalog", on("s3:PutObject", roletest.Object("catalog/current.json")), false},
		{"reads the key of sessions", on("secretsmanager:GetSecretValue", "SealKey"), true},
		{"reads a secret of a server", on("ssm:GetParameter", roletest.Parameter("github")), true},
		{"reads a secret of notices", on("ssm:GetParameter", roletest.Parameter("notify/slack")), false},
		{"reads a secret of notices in Secrets Manager", on("secretsmanager:GetSecretValue", roletest.Secret("notify/slack")), false},
		{"reads a secret of a server called notify", on("secretsmanager:GetSecretValue", roletest.Secret("notify")), true},
		{"asks", items(put, "ASK#kim", "ASK#"), true},
		{"reads what it asked for", item(get, "ASK#kim"), true},
		{"lists who asks for what", item(query, "ASK#"), false},
		{"takes a request away", item(remove, "ASK#kim"), false},
		{"changes a request in part", item(update, "ASK#kim", "doc"), false},
		{"grants", item(put, "GRANT#kim"), false},
		{"changes a grant", item(update, "GRANT#kim", "doc"), false},
		{"takes away what was decided", item(remove, "GRANT#kim"), false},
		{"grants beside its asking", items(put, "ASK#kim", "GRANT#kim"), false},
		{"lists what was decided", item(query, "GRANT#kim"), false},
		{"reads what was decided", item(get, "GRANT#kim"), true},
		{"reads a record, the stops and what was decided at once", items("dynamodb:BatchGetItem", "SRV#github", "STOP", "GRANT#kim"), true},
		{"reads requests beside a record", items("dynamodb:BatchGetItem", "SRV#github", "ASK#kim"), false},
		{"uses a confirmation", item(put, "USED#R-7KQ2M4XD"), true},
		{"gives a use back", item(remove, "USED#R-7KQ2M4XD"), false},
		{"changes a use", item(update, "USED#R-7KQ2M4XD", "used_at"), false},
		{"tells people", item(put, "OUTBOX#"), true},
		{"reads what people are told", item(get, "OUTBOX#"), false},
		{"lists what people are told", item(query, "OUTBOX#"), false},
		{"takes back what people are told", item(remove, "OUTBOX#"), false},
		{"claims what people are told", item(update, "OUTBOX#", "claimed"), false},
		{"starts the sync function", on("lambda:InvokeFunction", roletest.Syncer), true},
		{"starts another function", on("lambda:InvokeFunction", "AdminFunction.Arn"), false},
		{"publishes", on("sns:Publish", roletest.Topics), false},
	}
}

func triesOfSync() []try {
	return []try{
		{"reads the key of sessions", on("secretsmanager:GetSecretValue", "SealKey"), false},
		{"writes a record", item(update, "SRV#github", "PK", "SK", "record", "rev"), true},
		{"writes the audit", item(put, "AUDIT#github"), true},
		{"reads the records of a server", item(query, "SRV#github"), true},
		{"reads a token", item(get, "TOKENS"), false},
		{"lists the tokens", item(query, "TOKENS"), false},
		{"makes a token", item(put, "TOKENS"), false},
		{"changes a token", item(update, "TOKENS", "token"), false},
		{"puts a record beside a token", items(put, "SRV#github", "TOKENS"), false},
		{"takes an agent's session", item(get, "SESSION#x"), false},
		{"signs a person in", item(put, "LOGIN#SESSIONS"), false},
		{"prolongs the session of a person", item(update, "LOGIN#SESSIONS", "login"), false},
		{"reads the session of a person", item(get, "LOGIN#SESSIONS"), false},
		{"lists who is signed in", item(query, "LOGIN#SESSIONS"), false},
		{"signs a person out", item(remove, "LOGIN#SESSIONS"), false},
		{"puts a record beside a person's session", items(put, "SRV#github", "LOGIN#SESSIONS"), false},
		{"reads the stops", item(get, "STOP"), true},
		{"undoes a stop", item(put, "STOP"), false},
		{"changes a stop", item(update, "STOP", "stops"), false},
		{"takes the stops away", item(remove, "STOP"), false},
		{"puts a record beside the stops", items(put, "SRV#github", "STOP"), false},
		{"writes the deeds", item(put, "AUDIT#@gateway"), true},
		{"reads the deeds", item(query, "AUDIT#@gateway"), false},
		{"queries the log of calls", on("logs:StartQuery", "McpLogs.Arn"), false},
		{"reads metrics", on("cloudwatch:GetMetricData", "*"), false},
		{"reads a secret of notices", on("ssm:GetParameter", roletest.Parameter("notify/slack")), true},
		{"asks", item(put, "ASK#kim"), false},
		{"reads a request", item(get, "ASK#kim"), false},
		{"lists who asks for what", item(query, "ASK#"), false},
		{"grants", item(put, "GRANT#kim"), false},
		{"reads what was decided", item(get, "GRANT#kim"), false},
		{"grants beside a record", items(put, "SRV#github", "GRANT#kim"), false},
		{"uses a confirmation", item(put, "USED#R-7KQ2M4XD"), false},
		{"finds what people are to be told", item(query, "OUTBOX#"), true},
		{"claims it", item(update, "OUTBOX#", "claimed"), true},
		{"puts a digest", item(put, "OUTBOX#"), true},
		{"takes away what was sent", item(remove, "OUTBOX#"), true},
		{"publishes to the topics", on("sns:Publish", roletest.Topics), true},
		{"publishes to any topic", on("sns:Publish", "*"), false},
		{"subscribes to a topic", on("sns:Subscribe", roletest.Topics), false},
		{"starts itself", on("lambda:InvokeFunction", roletest.Syncer), false},
		{"writes the config", on("s3:PutObject", roletest.Object("config/policy.cedar")), false},
		{"writes the catalog", on("s3:PutObject", roletest.Object("catalog/current.json")), true},
		{"deletes the config", on("s3:DeleteObject", roletest.Object("config/policy.cedar")), false},
	}
}

func triesOfAdmin() []try {
	return []try{
		{"reads the key of sessions", on("secretsmanager:GetSecretValue", "SealKey"), true},
		{"decides", item(update, "SRV#github", "PK", "SK", "record", "rev"), true},
		{"makes a token", item(update, "TOKENS", "PK", "SK", "token", "rev", "write_id"), true},
		{"lists the tokens", item(query, "TOKENS"), true},
		{"signs a person in", item(put, "LOGIN#SESSIONS"), true},
		{"reads the session of a person", item(get, "LOGIN#SESSIONS"), true},
		{"lists who is signed in", item(query, "LOGIN#SESSIONS"), true},
		{"signs a person out", item(remove, "LOGIN#SESSIONS"), true},
		{"reads the stops", item(get, "STOP"), true},
		{"stops", item(put, "STOP"), true},
		{"takes the stops away", item(remove, "STOP"), false},
		{"stops beside what it must not write", items(put, "STOP", "SESSION#x"), false},
		{"writes the deeds", item(put, "AUDIT#@gateway"), true},
		{"reads the deeds", item(query, "AUDIT#@gateway"), true},
		{"takes a deed away", item(remove, "AUDIT#@gateway"), false},
		{"queries the log of calls", on("logs:StartQuery", "McpLogs.Arn"), true},
		{"queries another log", on("logs:StartQuery", "AdminLogs.Arn"), false},
		{"reads metrics", on("cloudwatch:GetMetricData", "*"), true},
		{"takes an agent's session", item(get, "SESSION#x"), false},
		{"writes the config", on("s3:PutObject", roletest.Object("config/policy.cedar")), false},
		{"takes away a record", item(remove, "SRV#github"), false},
		{"reads a secret of a server", on("ssm:GetParameter", roletest.Parameter("github")), false},
		{"reads a secret of notices", on("ssm:GetParameter", roletest.Parameter("notify/slack")), false},
		{"reads the secret of its client", on("ssm:GetParameter", roletest.ClientSecret), true},
		{"lists who asks for what", item(query, "ASK#"), true},
		{"asks for a person's agent", items(put, "ASK#kim", "ASK#"), true},
		{"takes a request away", item(remove, "ASK#kim"), false},
		{"reads what was decided", item(get, "GRANT#kim"), true},
		{"grants", item(put, "GRANT#kim"), true},
		{"takes away what was decided", item(remove, "GRANT#kim"), false},
		{"sees whether a confirmation was used", item(get, "USED#R-7KQ2M4XD"), true},
		{"uses a confirmation", item(put, "USED#R-7KQ2M4XD"), false},
		{"gives a use back", item(remove, "USED#R-7KQ2M4XD"), false},
		{"tells people", item(put, "OUTBOX#"), true},
		{"reads what people are told", item(query, "OUTBOX#"), false},
		{"takes back what people are told", item(remove, "OUTBOX#"), false},
		{"publishes", on("sns:Publish", roletest.Topics), false},
		{"starts the sync function", on("lambda:InvokeFunction", roletest.Syncer), true},
	}
}
