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

// An Agent is a verified caller.
type Agent struct {
	ID       string
	Human    string         // user on whose behalf it acts, according to its token; "": none is named, or the agent is that person
	Subject  string         // issuer, space and sub of the token's person, as in [Person]; "": none is known
	Way      string         // how it proved its identity; policies read it as principal.kind
	Servers  []string       // how it proved its identity; policies read it as principal.kind
	Tiers    []tool.Tier    // servers it may see; one "*" means every server
	Toolsets []string       // toolsets that bound its selection; nil: no bound
	Rights   Rights         // what it may do at /admin; unrelated to tools
	Claims   map[string]any // further facts that policies read; see [ClaimMap]
}

// Owner returns the owner of the caller's private state: the agent, and the user on whose behalf
// it acts. Two users can have tokens with one agent id. State of a caller for its next request is
// stored under this owner. Decisions of people concern agents (stops, policy, usage, the audit),
// and are stored under the id.
func (a Agent) Owner() session.Owner {
	o := session.Owner{Way: a.Way, Agent: a.ID, User: a.Subject}
	if o.User == "" && a.Human != "" {
		o.User = " " + a.Human // a person without a known issuer
	}
	return o
}

// An Authenticator finds the Agent of a request. Its error is for the log; the caller learns only
// what the error's kind allows.
type Authenticator interface {
	Authenticate(r *http.Request) (Agent, error)
}
