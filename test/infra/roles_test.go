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

// A try is what a function does, and whether its role lets it.
type try struct {
	name    string
	request roletest.Request
	allowed bool
}

// TestRolesKeepToTheirItems writes and reads where a function must not. That each may
// do what it has to is held by the tests of the functions, whose calls pass the same roles.
func TestRolesKeepToTheirItems(t *testing.T) {
	roles := roletest.Load(t)
	for function, tries := range map[string][]try{"mcp": triesOfMcp(), "sync": triesOfSync(), "admin": triesOfAdmin()} {
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
		{"grants", item(put, "GRANT#kim"), false},
		{"queries its log", on("logs:StartQuery", "McpLogs.Arn"), false},
		{"reads metrics", on("cloudwatch:GetMetricData", "*"), false},
		{"writes the catalog", on("s3:PutObject", roletest.Object("catalog/current.json")), false},
		{"reads the key of sessions", on("secretsmanager:GetSecretValue", "SealKey"), true},
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
		{"grants", item(put, "GRANT#kim"), false},
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
	}
}
