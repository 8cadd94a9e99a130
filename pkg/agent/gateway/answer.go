package gateway

import (
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// result makes a tools/call result of one text block.
func result[T []byte | string](text T, isError bool, meta map[string]any) (json.RawMessage, error) {
	// About one byte in eight of JSON is a quote, which needs an escape.
	out := make([]byte, 0, len(text)+len(text)/8+64)
	out = rawjson.AppendText(append(out, `{"content":[{"type":"text","text":`...), text)
	out = append(out, `}]`...)
	if isError {
		out = append(out, `,"isError":true`...)
	}
	if len(meta) > 0 {
		m, err := rawjson.Encode(meta)
		if err != nil {
			return nil, err
		}
		out = append(append(out, `,"_meta":`...), m...)
	}
	return append(out, '}'), nil
}

// maxEcho is how many characters of an agent's text a message repeats.
const maxEcho = 80

// quote returns the agent's text s in quotes, with at most maxEcho characters of it.
func quote(s string) string { return text.Quote(s, maxEcho) }
