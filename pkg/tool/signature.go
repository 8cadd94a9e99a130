package tool

import "encoding/json"

// Signature returns how the tool is called, in the manner of TypeScript.
func Signature(input, output json.RawMessage) (sig string, lossy bool) {
	return "()", len(input) > 0 || len(output) > 0
}
