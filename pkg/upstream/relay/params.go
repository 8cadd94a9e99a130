package relay

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxTools bounds the number of tools in toolHeaders.
const maxTools = 10_000

// A toolHeaders remembers, for each tool, the arguments that the HTTP request of a call must repeat
// as headers. It learns them from the tool lists that pass through the relay.
type toolHeaders struct {
	mu     sync.Mutex
	byTool map[string][]tool.HeaderParam
}

func newToolHeaders() *toolHeaders { return &toolHeaders{byTool: map[string][]tool.HeaderParam{}} }

// learn reads the result of a tools/list.
func (h *toolHeaders) learn(result json.RawMessage) {
	list, err := rawjson.Elements(rawjson.Get(result, "tools"))
	if err != nil {
		return // the client checks the list
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, raw := range list {
		name := rawjson.Text(rawjson.Get(raw, "name"))
		params, err := tool.HeaderParams(rawjson.Get(raw, "inputSchema"))
		if delete(h.byTool, name); err == nil && len(params) > 0 && len(h.byTool) < maxTools {
			h.byTool[name] = params
		}
	}
}

// set sets the headers of a call.
func (h *toolHeaders) set(header http.Header, name string, arguments json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.byTool[name] {
		if v, ok := p.Value(arguments); ok {
			header.Set(p.Header, tool.EncodeHeader(v))
		}
	}
}
