// Package requesttest has agents and requests for tests.
package requesttest

import (
	"encoding/json"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Agent returns an agent with a token of its own.
func Agent(id string) request.Agent { return request.Agent{Way: identity.WayToken, ID: "token:" + id} }

// To returns a request to call a tool, as an agent makes it; the hash is the same for all.
func To(server, name string) request.Request {
	r := request.Request{Status: lock.PendingApproval, Note: "for a <release> & more, 日本"}
	return r.About(tool.ID{Server: server, Name: name}, Hash)
}

// OneCall returns a request for one call with these arguments.
func OneCall(server, name, arguments string) request.Request {
	r := To(server, name)
	r.Args = request.HashArgs(json.RawMessage(arguments))
	return r
}

// Hash is the hash of every sample tool's definition.
var Hash = tool.Hash(strings.Repeat("a1", 32))
