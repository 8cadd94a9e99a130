package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// HashArguments returns the SHA-256 of arguments, in lower-case hex: of their canonical form, or of
// the bytes that came if they have none. No arguments are those of an empty object.
func HashArguments(arguments json.RawMessage) string {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	canonical, err := tool.Canonical(arguments)
	if err != nil {
		canonical = arguments
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}
