package gateway

import (
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
)

// AnswerTypes returns the types of objects in answers, by the head of their table in
// docs/agent-tools.md.
func AnswerTypes() map[string]any {
	return map[string]any{
		"a callable tool":                  match{},
		"a locked tool":                    lockedMatch{},
		"a described tool":                 toolEntry{},
		"a server":                         serverEntry{},
		"prompts and resources":            kindEntry{},
		"a request":                        accessResult{},
		"a failure":                        details{},
		"a lock":                           lockInfo{},
		"the answer of " + retrieveTools:   matches{},
		"the answer of " + upstreamServers: serverPage{},
	}
}

// ArgumentLimits returns the limits of arguments that the menu does not contain.
func ArgumentLimits() map[string]string {
	text := fmt.Sprintf("1 to %d characters", maxText)
	return map[string]string{
		"retrieve_tools.query": text, "retrieve_tools.limit": fmt.Sprintf("1 to %d", maxLimit),
		"describe_tools.names":  fmt.Sprintf("1 to %d names", maxNames),
		"call_tool_read.name":   text,
		"upstream_servers.name": text, "upstream_servers.after": text,
		"read_resource.server": text, "read_resource.uri": text,
		"request_access.names": fmt.Sprintf("1 to %d names", maxNames),
		"request_access.note":  fmt.Sprintf("1 to %d characters", request.MaxNote),
	}
}
