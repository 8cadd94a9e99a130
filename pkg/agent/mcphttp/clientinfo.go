package mcphttp

import (
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// ClientInfo is what a client says of itself. None of it is proved.
type ClientInfo struct {
	Agent    string // id of the caller
	Name     string // "": it has none
	Version  string
	Protocol string // the version of MCP that it speaks
}

// reportClient tells [Options].Seen of a client that was answered, if its request says what the
// client is: a handshake does, and each request of the stateless protocol.
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

// member returns the text of a member of an object; "" if there is none.
func member(object []byte, name string) string { return rawjson.Text(rawjson.Get(object, name)) }
