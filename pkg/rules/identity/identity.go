// Package identity determines the caller: an [Agent] with the servers that it may see and the
// tiers that it may call.
//
// The zero Agent may see nothing and call nothing. The caller's identity comes only from
// credentials that the gateway or API Gateway verified, and from nothing else in a request.
package identity

import (
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// The ways to prove an identity, as PORTCULLIS_AUTH names them.
const (
	WayJWT   = "jwt"
	WayToken = "token"
	WayIAM   = "iam"
	WayNone  = "none"
)

// WayPerson is the way of a person who calls a tool from /admin, where the person has proved their
// identity. No agent has this way.
const WayPerson = "person"

// PersonAgent returns the id with which a person calls tools. Policies and the audit read it.
func PersonAgent(name string) string { return "person:" + name }

// An Agent is a verified caller.
type Agent struct {
	ID       string
	Human    string         // user on whose behalf it acts, according to its token; "": the token names no user, or the agent is that person
	Subject  string         // "issuer sub" of the token's person, as in [Person]; "": unknown
	Way      string         // how it proved its identity; policies read it as principal.kind
	Servers  []string       // servers it may see; one "*" means every server
	Tiers    []tool.Tier    // tiers it may call
	Toolsets []string       // toolsets that limit the tools it may select; nil: no limit
	Rights   Rights         // what it may do at /admin; unrelated to tools
	Claims   map[string]any // further facts that policies read; see [ClaimMap]
}

// Owner returns the owner of the caller's private state: the agent, and the user on whose behalf
// it acts. Two users can have tokens with one agent id. State that a caller needs in its next
// request is stored under this owner. Stops, policy, usage and the audit concern agents: their data
// is stored under the agent id.
func (a Agent) Owner() session.Owner {
	o := session.Owner{Way: a.Way, Agent: a.ID, User: a.Subject}
	if o.User == "" && a.Human != "" {
		o.User = " " + a.Human // a person whose issuer is unknown
	}
	return o
}

// Client returns the client that a JWT names: its azp, client_id or cid. It returns "" for other
// agents, and if the token names none.
func (a Agent) Client() string {
	if a.Way != WayJWT {
		return ""
	}
	for _, claim := range clientClaims {
		if name, ok := a.Claims[claim].(string); ok && validID(name) {
			return name
		}
	}
	return ""
}

// An Authenticator finds the Agent of a request. Its error is for the log. The caller's answer
// depends only on the kind of the error.
type Authenticator interface {
	Authenticate(r *http.Request) (Agent, error)
}
