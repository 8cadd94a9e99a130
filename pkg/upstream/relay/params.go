package relay

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxTools is of how many tools it is remembered which arguments they want as headers.
const maxTools = 10_000

// ToolHeaders remember which arguments of a tool are to be repeated as headers, which only somebody
// who speaks HTTP does. The lists of tools that pass by say so.
type toolHeaders struct {
	mu     sync.Mutex
	byTool map[string][]tool.HeaderParam
}

func newToolHeaders() *toolHeaders { return &toolHeaders{byTool: map[string][]tool.HeaderParam{}} }

// learn reads the result of a tools/list.
func (h *toolHeaders) learn(result json.RawMessage) {
	list, err := rawjson.Elements(rawjson.Get(result, "tools"))
	if err != nil {
		return // what the list is worth is the client's to say
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
