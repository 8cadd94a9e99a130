package mcphttp

import (
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// ClientInfo is the client's description of itself. None of it is verified.
type ClientInfo struct {
	Agent    string // id of the caller
	Name     string // "": none
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
