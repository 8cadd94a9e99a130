package infra

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/test/roletest"
)

// TestRolesKeepToTheirItems writes and reads where a function must not. That each may
// do what it has to is held by the tests of the functions, whose calls pass the same roles.
func TestRolesKeepToTheirItems(t *testing.T) {
	roles := roletest.Load(t)
	const get, query, put, update, remove = "dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"
	item := func(action, key string, attributes ...string) roletest.Request {
		return roletest.Request{Action: action, Resource: roletest.Table, LeadingKeys: []string{key}, Attributes: attributes}
	}
	key := roletest.Request{Action: "secretsmanager:GetSecretValue", Resource: "SealKey"}
	for _, test := range []struct {
		name, role string
		request    roletest.Request
		allowed    bool
	}{
		{"mcp reads a record", "mcp", item(get, "SRV#github"), true},
		{"mcp reads a token", "mcp", item(get, "TOKENS"), true},
		{"mcp notes the use of a token", "mcp", item(update, "TOKENS", "PK", "SK", "last_used"), true},
		{"mcp decides", "mcp", item(put, "SRV#github"), false},
		{"mcp reads decisions", "mcp", roletest.Request{Action: query, Resource: roletest.Index("decisions")}, true},
		{"mcp changes a record in part", "mcp", item(update, "SRV#github", "last_used"), false},
		{"mcp makes a token", "mcp", item(put, "TOKENS"), false},
		{"mcp changes a token", "mcp", item(update, "TOKENS", "PK", "SK", "last_used", "token"), false},
		{"mcp writes the audit", "mcp", item(put, "AUDIT#github"), false},
		{"mcp reads the audit", "mcp", item(query, "AUDIT#github"), false},
		{"mcp lists the tokens", "mcp", item(query, "TOKENS"), false},
		{"mcp lists the records of a server", "mcp", item(query, "SRV#github"), false},
		{"mcp signs a person in", "mcp", item(put, "LOGIN#SESSIONS"), false},
		{"mcp prolongs the session of a person", "mcp", item(update, "LOGIN#SESSIONS", "last_used"), false},
		{"mcp reads the session of a person", "mcp", item(get, "LOGIN#SESSIONS"), false},
		{"mcp lists who is signed in", "mcp", item(query, "LOGIN#SESSIONS"), false},
		{"mcp signs a person out", "mcp", item(remove, "LOGIN#SESSIONS"), false},
		{"mcp finds an agent's session", "mcp", item(get, "SESSION#x"), true},
		{"mcp keeps an agent's session", "mcp", item(put, "SESSION#x"), true},
		{"mcp ends an agent's session", "mcp", item(remove, "SESSION#x"), true},
		{"mcp lists sessions", "mcp", item(query, "SESSION#x"), false},
		{"mcp reads the whole table", "mcp", roletest.Request{Action: "dynamodb:Scan", Resource: roletest.Table}, false},
		{"mcp reads without a key", "mcp", roletest.Request{Action: get, Resource: roletest.Table}, false},
		{"mcp deletes a record", "mcp", item(remove, "SRV#github"), false},
		{"mcp writes the catalog", "mcp", roletest.Request{Action: "s3:PutObject", Resource: roletest.Object("catalog/current.json")}, false},

		{"mcp reads the key of sessions", "mcp", key, true},
		{"sync reads the key of sessions", "sync", key, false},
		{"admin reads the key of sessions", "admin", key, false},

		{"sync writes a record", "sync", item(update, "SRV#github", "PK", "SK", "record", "rev"), true},
		{"sync writes the audit", "sync", item(put, "AUDIT#github"), true},
		{"sync reads the records of a server", "sync", item(query, "SRV#github"), true},
		{"sync reads a token", "sync", item(get, "TOKENS"), false},
		{"sync lists the tokens", "sync", item(query, "TOKENS"), false},
		{"sync makes a token", "sync", item(put, "TOKENS"), false},
		{"sync changes a token", "sync", item(update, "TOKENS", "token"), false},
		{"sync puts a record beside a token", "sync", roletest.Request{Action: put, Resource: roletest.Table, LeadingKeys: []string{"SRV#github", "TOKENS"}}, false},
		{"sync takes an agent's session", "sync", item(get, "SESSION#x"), false},
		{"sync signs a person in", "sync", item(put, "LOGIN#SESSIONS"), false},
		{"sync prolongs the session of a person", "sync", item(update, "LOGIN#SESSIONS", "login"), false},
		{"sync reads the session of a person", "sync", item(get, "LOGIN#SESSIONS"), false},
		{"sync lists who is signed in", "sync", item(query, "LOGIN#SESSIONS"), false},
		{"sync signs a person out", "sync", item(remove, "LOGIN#SESSIONS"), false},
		{"sync puts a record beside a person's session", "sync", roletest.Request{Action: put, Resource: roletest.Table, LeadingKeys: []string{"SRV#github", "LOGIN#SESSIONS"}}, false},
		{"sync grants", "sync", item(put, "GRANT#kim"), false},
		{"sync writes the config", "sync", roletest.Request{Action: "s3:PutObject", Resource: roletest.Object("config/policy.cedar")}, false},
		{"sync writes the catalog", "sync", roletest.Request{Action: "s3:PutObject", Resource: roletest.Object("catalog/current.json")}, true},
		{"sync deletes the config", "sync", roletest.Request{Action: "s3:DeleteObject", Resource: roletest.Object("config/policy.cedar")}, false},

		{"admin decides", "admin", item(update, "SRV#github", "PK", "SK", "record", "rev"), true},
		{"admin makes a token", "admin", item(update, "TOKENS", "PK", "SK", "token", "rev", "write_id"), true},
		{"admin lists the tokens", "admin", item(query, "TOKENS"), true},
		{"admin signs a person in", "admin", item(put, "LOGIN#SESSIONS"), true},
		{"admin reads the session of a person", "admin", item(get, "LOGIN#SESSIONS"), true},
		{"admin lists who is signed in", "admin", item(query, "LOGIN#SESSIONS"), true},
		{"admin signs a person out", "admin", item(remove, "LOGIN#SESSIONS"), true},
		{"admin takes an agent's session", "admin", item(get, "SESSION#x"), false},
		{"admin writes the config", "admin", roletest.Request{Action: "s3:PutObject", Resource: roletest.Object("config/policy.cedar")}, false},
		{"admin takes away a record", "admin", item(remove, "SRV#github"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := roles[test.role].Allows(test.request); got != test.allowed {
				t.Errorf("%s: allowed %v, want %v", test.request, got, test.allowed)
			}
		})
	}
}
