package admin

import (
	"cmp"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// schemaNames has the names in the OpenAPI document of types that have another name in Go. So
// generated clients keep working when a Go type is renamed.
var schemaNames = map[string]string{
	"AuditPage":      "Lines",
	"BulkAnswer":     "BulkOutputBody",
	"Explanation":    "Trial",
	"ExplainedAgent": "TrialAgent",
	"ExplainedCheck": "TrialCheck",
	"ExplainedGroup": "TrialGroup",
	"ExplainedTool":  "TrialTool",
	"Loss":           "Lost",
	"Matches":        "Found",
	"MadeToken":      "MakeTokenOutputBody",
	"ReconciledItem": "Settled",
	"Reconciliation": "Settlement",
	"RevokedToken":   "RevokeTokenOutputBody",
	"StartedQuery":   "Asked",
	"TokenList":      "TokensOutputBody",
}

// schemaName returns the name of a type in the OpenAPI document.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	return cmp.Or(schemaNames[name], name)
}
