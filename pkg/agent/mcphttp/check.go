package mcphttp

import (
	"fmt"
	"net"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// checkHost refuses a loopback connection whose Host header is not loopback. Such
// requests come from web pages whose host name was rebound to this machine (DNS rebinding).
func (h *handler) checkHost(r *http.Request) *mcp.Error {
	if h.proxied || hostname.IsLoopback(r.Host) {
		return nil
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !hostname.IsLoopback(local.String()) {
		return nil
	}
	return refuse(http.StatusForbidden, fmt.Sprintf("Forbidden: invalid Host header %q", r.Host))
}

// maxNesting is the maximum nesting of lists and objects, except in a tool's arguments. Servers and
// clients of the official SDKs have the same limit.
const maxNesting = 1000

// check refuses a message that contradicts its headers, or lacks a required member.
func (q *request) check(headers standardHeaders) *mcp.Error {
	m := q.msg
	described := rawjson.Text(m.Meta.Get(mcp.MetaVersion))
	subject, _ := m.Subject()
	switch {
	case q.nesting() > maxNesting:
		return badRequest(mcp.CodeInvalidRequest, fmt.Sprintf("malformed payload: unmarshaling jsonrpc message: json: exceeded maximum nesting depth of %d", maxNesting))
	case !m.Params && (m.Method == mcp.MethodInitialize || m.Method == mcp.MethodListen):
		return badRequest(mcp.CodeInvalidRequest, `invalid request: missing required "params"`)
	case described == "" && (!q.modern || m.IsNotification()):
	case headers.version == "":
		return mismatch("%s header is required for requests carrying %q", mcp.HeaderVersion, mcp.MetaVersion)
	case described == "":
		return badRequest(mcp.CodeInvalidParams, fmt.Sprintf("missing or invalid _meta field %q", mcp.MetaVersion))
	case described != headers.version:
		return mismatch("%s header %q does not match request %s %q", mcp.HeaderVersion, headers.version, mcp.MetaVersion, described)
	}
	switch {
	case !q.modern:
	case headers.method == "":
		return mismatch("missing required %s header", mcp.HeaderMethod)
	case headers.method != m.Method:
		return mismatch("header mismatch: %s header value '%s' does not match body value '%s'", mcp.HeaderMethod, headers.method, m.Method)
	case subject == "":
	case headers.name == "":
		return mismatch("missing required %s header for method %q", mcp.HeaderName, m.Method)
	case headers.name != subject:
		return mismatch("header mismatch: %s header value '%s' does not match body value '%s'", mcp.HeaderName, headers.name, subject)
	}
	return nil
}

// nesting returns the nesting depth of the message, without a tool's arguments and other members
// that pass through.
func (q *request) nesting() int {
	deepest := 0
	for _, m := range q.msg.Meta {
		deepest = max(deepest, 3+nesting(m.Value))
	}
	switch q.msg.Method {
	case mcp.MethodCallTool, mcp.MethodListTools, mcp.MethodGetPrompt, mcp.MethodReadResource:
	default:
		for _, m := range q.msg.Rest {
			deepest = max(deepest, 2+nesting(m.Value))
		}
	}
	return deepest
}

// nesting returns the nesting depth of the lists and objects of a JSON text.
func nesting(text []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}', c == ']':
			depth--
		}
	}
	return deepest
}

// checkClient refuses a request of the stateless protocol without client info or client
// capabilities.
func (q *request) checkClient() *mcp.Error {
	info, capabilities := q.msg.Meta.Get(mcp.MetaClientInfo), q.msg.Meta.Get(mcp.MetaClientCapabilities)
	switch {
	case info != nil && (!isPresent(info) || !implementation.fits(info)):
		return badRequest(mcp.CodeInvalidParams, fmt.Sprintf("invalid _meta field %q", mcp.MetaClientInfo))
	case !isPresent(capabilities) || !clientCapabilities.fits(capabilities):
		return badRequest(mcp.CodeInvalidParams, fmt.Sprintf("missing or invalid _meta field %q", mcp.MetaClientCapabilities))
	}
	return nil
}
