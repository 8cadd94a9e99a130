package gateway

import (
	"encoding/json"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// checkHeaders checks that headers which repeat arguments have the values of the arguments, because
// a proxy may have checked only the headers. The tools of search mode and the handshake protocol
// have no such headers.
func (s *Session) checkHeaders(i int, arguments json.RawMessage) *mcp.Error {
	if !s.direct || !s.caller.Modern {
		return nil
	}
	params, err := tool.HeaderParams(s.view.Tool(i).Definition.InputSchema)
	if err != nil || len(params) == 0 {
		return nil //nolint:nilerr // the sync refuses an invalid schema; the call explains it
	}
	for _, w := range params {
		values := s.caller.Header.Values(w.Header)
		_, isPresent := w.Value(arguments)
		switch {
		case !isPresent && len(values) == 0:
		case len(values) == 0:
			return mismatch("Header mismatch: " + w.Header + " is missing. The tool wants this argument repeated as a header; list the tools again.")
		default:
			for _, v := range values {
				if text, ok := tool.DecodeHeader(v); !ok || !w.Agrees(text, arguments) {
					return mismatch("Header mismatch: " + w.Header + " differs from the argument that it repeats.")
				}
			}
		}
	}
	return nil
}

func mismatch(message string) *mcp.Error {
	return &mcp.Error{Code: mcp.CodeHeaderMismatch, Status: http.StatusBadRequest, Message: message}
}
