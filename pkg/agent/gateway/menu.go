package gateway

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// The gateway's own tools in search mode.
const (
	retrieveTools   = "retrieve_tools"
	describeTools   = "describe_tools"
	upstreamServers = "upstream_servers"
)

// How long a client may cache a list of tools, in milliseconds. The six tools change only with the
// gateway's version. In direct mode a cached list may still contain a tool that has been locked
// since. The gateway refuses a call of this tool.
const (
	menuTTL   = 300_000
	directTTL = 30_000
)

// menu returns the definitions of the six tools. Every agent pays for each of their words in every
// conversation, so a test limits their size.
//
// alwaysLoad asks clients that defer tools not to hide these six.
func menu() []string {
	const (
		tail = `,"_meta":{"anthropic/alwaysLoad":true}}`
		read = `,"annotations":{"readOnlyHint":true}` + tail
		call = `"inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"server:tool"},` +
			`"args":{"type":"object"}},"required":["name"],"additionalProperties":false}`
	)
	return []string{
		`{"name":"retrieve_tools","description":"Find tools by what they do. Call a result with the tool named in its call_with.",` +
			`"inputSchema":{"type":"object","properties":{` +
			`"query":{"type":"string","description":"a few words for what the tool does"},` +
			`"limit":{"type":"integer","default":10},` +
			`"include_disabled":{"type":"boolean","description":"also locked tools, and why"},` +
			`"detail":{"enum":["compact","full"]},` +
			`"read_only":{"type":"boolean"}},` +
			`"required":["query"],"additionalProperties":false}` + read,
		`{"name":"describe_tools","description":"Full definitions of tools.",` +
			`"inputSchema":{"type":"object","properties":{` +
			`"names":{"type":"array","items":{"type":"string","description":"server:tool"},"maxItems":10}},` +
			`"required":["names"],"additionalProperties":false}` + read,
		`{"name":"call_tool_read","description":"Call a tool that only reads.",` + call + read,
		`{"name":"call_tool_write","description":"Call a tool that changes but does not destroy.",` + call +
			`,"annotations":{"destructiveHint":false}` + tail,
		`{"name":"call_tool_destructive","description":"Call a tool that may delete or overwrite.",` + call +
			`,"annotations":{"destructiveHint":true}` + tail,
		`{"name":"upstream_servers","description":"Servers: status, toolsets, locked tools.",` +
			`"inputSchema":{"type":"object","properties":{` +
			`"name":{"type":"string","description":"one server"},` +
			`"after":{"type":"string","description":"value of \"next\" from the previous page"}},` +
			`"additionalProperties":false}` + read,
	}
}

// readResourceDefinition follows the six definitions if there are resources.
const readResourceDefinition = `{"name":"read_resource","description":"Read a resource of a server.",` +
	`"inputSchema":{"type":"object","properties":{"server":{"type":"string"},"uri":{"type":"string"}},` +
	`"required":["server","uri"],"additionalProperties":false},` +
	`"annotations":{"readOnlyHint":true},"_meta":{"anthropic/alwaysLoad":true}}`

// ListTools returns the result of tools/list: in search mode the six tools, and tools with a page
// for hosts that show it; in direct mode the callable tools themselves. cursor is the nextCursor of
// the previous page. An error is an [*mcp.Error].
func (s *Session) ListTools(ctx context.Context, cursor string) (json.RawMessage, error) {
	if s.st.Config == nil || s.down && s.direct {
		return nil, notReadyError(s.st.Health)
	}
	if s.direct {
		s.loadGrants(ctx)
		return s.listDirect(cursor)
	}
	if cursor != "" {
		return nil, badCursor("tools")
	}
	tools, ttl := menu(), menuTTL
	if s.readable() {
		tools, ttl = append(tools, readResourceDefinition), directTTL
	}
	if s.canAsk() {
		tools = append(tools, requestAccessDefinition)
	}
	if s.listsPaged() {
		s.loadGrants(ctx)
		for _, definition := range s.paged() {
			tools = append(tools, string(definition))
		}
		ttl = directTTL
	}
	return rawjson.Encode(struct {
		Tools json.RawMessage `json:"tools"`
		TTL   int             `json:"ttlMs"`
		Meta  map[string]any  `json:"_meta,omitempty"`
	}{json.RawMessage("[" + strings.Join(tools, ",") + "]"), ttl, s.meta()})
}
