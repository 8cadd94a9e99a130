package admin

import (
	"cmp"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// schemaNames are the names under which types stand in the description of the API, if that is not the
// name of the Go type: clients that were generated from it keep working when a type is renamed.
var schemaNames = map[string]string{
	"AuditPage":      "Lines",
	"BulkAnswer":     "BulkOutputBody",
	"Explanation":    "Trial",
	"ExplainedAgent": "TrialAgent",
	"ExplainedCheck": "TrialCheck",
	"ExplainedGroup": "TrialGroup",
	"ExplainedTool":  "TrialTool",
	"MadeToken":      "MakeTokenOutputBody",
	"ReconciledItem": "Settled",
	"Reconciliation": "Settlement",
	"RevokedToken":   "RevokeTokenOutputBody",
	"TokenList":      "TokensOutputBody",
}

// schemaName returns the name of a type in the description of the API.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	return cmp.Or(schemaNames[name], name)
}
