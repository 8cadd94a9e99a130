package console

import (
	"bytes"
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/review"
)

// maxPretty is how many bytes arguments may take with one member a line and each level indented.
const maxPretty = 64 << 10

// argumentsText returns arguments of a call as a person reads them: all of them, in the order and with
// the letters that were sent, one member a line.
func argumentsText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	indent := "  "
	if prettySize(raw, len(indent)) > maxPretty { // deep ones would grow with the square of their depth
		indent = ""
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", indent) != nil {
		return review.Readable(string(raw))
	}
	return review.Readable(b.String())
}

// prettySize returns about how many bytes JSON takes with every member on a line of its own.
func prettySize(raw []byte, indent int) (n int) {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		n++
		switch b := raw[i]; {
		case quoted && b == '\\':
			i, n = i+1, n+1
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			depth++
			n += 1 + depth*indent
		case b == ',':
			n += 1 + depth*indent
		case b == '}' || b == ']':
			depth--
			n += 1 + depth*indent
		}
	}
	return n
}
