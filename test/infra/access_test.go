package infra

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/roletest"
)

// item returns a request for an item of the table.
func item(action, key string, attributes ...string) roletest.Request {
	q := items(action, key)
	q.Attributes = attributes
	return q
}

// items returns one request for several items.
func items(action string, keys ...string) roletest.Request {
	return roletest.Request{Action: action, Resource: roletest.Table, LeadingKeys: keys}
}

// A place is a part of the table that a request can name.
type place struct {
	name    string
	request roletest.Request // without an action
}

// places returns one partition of each kind, groups of items that the driver reads or writes
// together, and the other parts of the table.
func places() []place {
	var all []place
	for _, keys := range []string{
		"SRV#github", "BASE#0a1b", "AUDIT#github", "AUDIT#@gateway", "STOP", "TOKENS", "LOGIN#SESSIONS", "SESSION#0a1b",
		"OUTBOX#OPEN", "OUTBOX#SEEN", "ASK#", "ASK#kim", "GRANT#kim", "USED#R-1", "PAGE#0a1b",
		"CRED#gateway", "CRED#clients",
		"CRED#refused", "CRED#other", "OTHER#",
		"SRV#github STOP GRANT#kim", "SRV#github AUDIT#github", "ASK#kim ASK#", "OUTBOX#SEEN OUTBOX#OPEN",
		"SRV#github STOP GRANT#kim CRED#gateway", "CRED#gateway CRED#clients", "CRED#gateway STOP",
		"SRV#github TOKENS", "ASK#kim GRANT#kim", "STOP SESSION#0a1b",
	} {
		all = append(all, place{keys, items("", strings.Fields(keys)...)})
	}
	return append(
		all,
		place{"TOKENS, last_used alone", item("", "TOKENS", "PK", "SK", "last_used")},
		place{"TOKENS, last_used and token", item("", "TOKENS", "PK", "SK", "last_used", "token")},
		place{"a key that is not named", on("", roletest.Table)},
		place{"the index decisions", records("decisions")},
		place{"another index", records("other")},
		place{"a stream", on("", roletest.Table+"/stream/2026")},
		place{"another table", on("", dynamodbARN+"table/other")},
	)
}

const dynamodbARN = "arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:"

// records returns a request for the records of an index.
func records(index string) roletest.Request {
	return roletest.Request{Resource: roletest.Index(index), LeadingKeys: []string{"records"}}
}

// actions contains DynamoDB's actions on data, and some actions that change a table.
var actions = []string{
	"GetItem", "BatchGetItem", "Query", "Scan", "ConditionCheckItem", "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem",
	"PartiQLSelect", "PartiQLInsert", "PartiQLUpdate", "PartiQLDelete", "GetRecords", "DescribeTable", "UpdateTable",
	"UpdateTimeToLive", "UpdateContinuousBackups", "DeleteTable", "CreateBackup", "ExportTableToPointInTime", "RestoreTableFromBackup",
}

var functions = []string{"mcp", "sync", "plan", "work", "assemble", "admin", "hook"}

// TestAccessToTheTable compares the rights of each role in each part of the table with a golden
// file.
func TestAccessToTheTable(t *testing.T) {
	roles := roletest.Load(t)
	var b strings.Builder
	b.WriteString("What each function may do with the table. Tried: " + strings.Join(actions, ", ") + ".\n")
	for _, function := range functions {
		role, ok := roles[function]
		if !ok {
			t.Fatalf("function %s has no role", function)
		}
		fmt.Fprintf(&b, "\n%s\n", function)
		for _, p := range places() {
			allowed := allowedActions(role, p.request)
			if len(allowed) == 0 {
				allowed = []string{"-"}
			}
			fmt.Fprintf(&b, "  %-27s %s\n", p.name, strings.Join(allowed, " "))
		}
	}
	golden.Check(t, "testdata/access.golden", b.String())
}

func allowedActions(role roletest.Role, q roletest.Request) (allowed []string) {
	for _, action := range actions {
		if q.Action = "dynamodb:" + action; role.Allows(q) {
			allowed = append(allowed, action)
		}
	}
	return allowed
}

// access names the functions that may read, write and delete in a part of the table.
type access struct{ read, write, remove []string }

// TestRightsThatMatter names the functions that may read, write or delete the items that unlock a
// tool, a session or the gateway. These rights are in the test, so a new golden file cannot change
// them.
func TestRightsThatMatter(t *testing.T) {
	roles := roletest.Load(t)
	mcp, admin, both := []string{"mcp"}, []string{"admin"}, []string{"mcp", "admin"}
	records, senders := []string{"sync", "work", "assemble"}, []string{"sync", "plan"}
	for _, p := range places() {
		want, ok := map[string]access{
			"SRV#github":     {read: functions[:6], write: append(records, "admin")},
			"BASE#0a1b":      {read: functions[:6], write: records},
			"AUDIT#github":   {read: admin, write: append(records, "plan", "admin")},
			"STOP":           {read: functions[:6], write: admin},
			"TOKENS":         {read: both, write: admin},
			"LOGIN#SESSIONS": {read: admin, write: admin, remove: admin},
			"SESSION#0a1b":   {read: mcp, write: mcp, remove: mcp},
			"OUTBOX#OPEN":    {read: senders, write: functions[:6], remove: senders},
			"ASK#kim":        {read: both, write: both},
			"GRANT#kim":      {read: both, write: admin},
			"USED#R-1":       {read: both, write: mcp},
			"PAGE#0a1b":      {read: mcp, write: mcp},
			"CRED#gateway":   {read: []string{"mcp", "sync", "work", "admin"}, write: []string{"mcp", "sync", "work", "admin"}, remove: admin},
			"CRED#clients":   {read: admin, write: admin, remove: admin},
			"CRED#refused":   {read: both, write: both, remove: admin},
			"CRED#other":     {},
			"OTHER#":         {}, "a key that is not named": {}, "another index": {}, "a stream": {}, "another table": {},
			"TOKENS, last_used alone": {read: both, write: both}, "TOKENS, last_used and token": {read: both, write: admin},
		}[p.name]
		if !ok {
			continue
		}
		for _, function := range functions {
			allowed := allowedActions(roles[function], p.request)
			for right, by := range map[string][]string{"GetItem BatchGetItem Query": want.read, "PutItem UpdateItem": want.write, "DeleteItem": want.remove} {
				may := slices.ContainsFunc(allowed, func(a string) bool {
					return slices.Contains(strings.Fields(right), a)
				})
				if may != slices.Contains(by, function) {
					t.Errorf("%s, %s: may %q; want %s only for %q", function, p.name, allowed, right, by)
				}
			}
			for _, action := range allowed {
				lists := action == "Query" &&
					(function == "mcp" || function != "admin" && strings.HasPrefix(p.name, "CRED#"))
				if !strings.HasSuffix(action, "Item") && action != "Query" || lists {
					t.Errorf("%s, %s: may %s", function, p.name, action)
				}
			}
		}
	}
}
