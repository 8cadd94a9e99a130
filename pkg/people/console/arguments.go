package console

import (
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
)

// argumentsText returns all arguments of a call as a person reads them, in the order and with the
// letters that were sent.
func argumentsText(raw json.RawMessage) string { return review.Readable(rawjson.Indent(raw, "", "  ")) }
