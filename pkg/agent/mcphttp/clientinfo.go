package mcphttp

import (
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// ClientInfo has the id of an agent, and what its client says about itself. The gateway does not
// verify what the client says.
type ClientInfo struct {
	Agent    string // id of the caller
	Name     string // "": the client sent no name
	Version  string
	Protocol string // MCP version of the client
}

// reportClient calls [Options].Seen for a client that got an answer and sent its client info. A
// handshake and each request of the stateless protocol contain client info.
func (h *handler) reportClient(q *request) {
	if h.opts.Seen == nil || q.session == nil {
		return
	}
	info, version := q.msg.Meta.Get(mcp.MetaClientInfo), mcp.VersionModern
	switch {
	case q.modern:
	case q.begins != nil:
		info, version = q.msg.Rest.Get("clientInfo"), q.begins.version
	default:
		return
	}
	h.opts.Seen(ClientInfo{
		Agent: q.agent.ID, Protocol: version, Name: member(info, "name"), Version: member(info, "version"),
	}, q.session)
}

// member returns the text of a member of an object, or "" if there is none.
func member(object []byte, name string) string { return rawjson.Text(rawjson.Get(object, name)) }
