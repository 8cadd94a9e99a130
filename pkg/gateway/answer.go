package gateway

import (
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/text"
)

// result makes a tools/call result of one text block.
func result(text string, isError bool, meta map[string]any) (json.RawMessage, error) {
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	return rawjson.Encode(struct {
		Content []block        `json:"content"`
		IsError bool           `json:"isError,omitempty"`
		Meta    map[string]any `json:"_meta,omitempty"`
	}{[]block{{"text", text}}, isError, meta})
}

// maxEcho is how many characters of what an agent sent are repeated to it.
const maxEcho = 80

// quote makes a string of the agent's fit for a message.
func quote(s string) string { return text.Quote(s, maxEcho) }
