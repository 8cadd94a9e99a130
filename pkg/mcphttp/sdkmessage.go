package mcphttp

import (
	"github.com/portcullis-mcp/portcullis/pkg/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
)

// sdkID is the id under which the SDK sees every request. It would round an integer
// over 2^53, so the client's own id never reaches it but for one method.
const sdkID = `1`

// forSDK writes the message anew, so that the SDK reads what was read here and not
// what its own parser would make of the client's bytes. Of a tool call it
// needs the name and _meta; arguments, which may be long, stay out.
func forSDK(m mcp.Request) []byte {
	b := []byte(`{"jsonrpc":"2.0"`)
	switch {
	case m.IsNotification():
	case m.Method == mcp.MethodListen: // its answer repeats the id in _meta
		b = append(append(b, `,"id":`...), m.ID...)
	default:
		b = append(b, `,"id":`+sdkID...)
	}
	b = append(b, `,"method":`...)
	b = append(b, rawjson.Quote(m.Method)...)
	if m.Method != mcp.MethodCallTool && m.Method != mcp.MethodListTools {
		if m.Params {
			params := m.Rest
			if m.Meta != nil {
				params.Add("_meta", m.Meta)
			}
			b = params.Append(append(b, `,"params":`...))
		}
		return append(b, '}')
	}
	b = append(b, `,"params":{`...)
	if m.Method == mcp.MethodCallTool {
		b = append(b, `"name":`...)
		b = append(b, rawjson.Quote(m.Name)...)
	}
	if m.Meta != nil {
		if m.Method == mcp.MethodCallTool {
			b = append(b, ',')
		}
		b = append(append(b, `"_meta":`...), m.Meta...)
	}
	return append(b, "}}"...)
}
