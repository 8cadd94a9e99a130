// Package identity says who is calling: an [Agent] with the servers that it
// may see and the tiers that it may call.
//
// The zero Agent may see nothing and call nothing. Who is calling is taken from
// credentials that were verified, or from what API Gateway verified, and from nothing else
// that a request holds.
package identity

import (
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// The ways in which a caller proves who it is, as PORTCULLIS_AUTH names them.
const (
	WayJWT   = "jwt"
	WayToken = "token"
	WayIAM   = "iam"
	WayNone  = "none"
)

// An Agent is a verified caller.
type Agent struct {
	ID       string
	Human    string         // person that it acts for, as its token says; "": the token names none, or the agent is that person
	Subject  string         // issuer, space and sub of the person whose token it is, as in [Person]; "": it is of none, as far as is known
	Way      string         // how it proved who it is: one of the ways; policies read it as principal.kind
	Servers  []string       // servers it may see; one "*" stands for every server
	Tiers    []tool.Tier    // tiers it may call
	Toolsets []string       // toolsets that bound its selection; nil: no bound
	Rights   Rights         // what it may do at /admin; says nothing of tools
	Claims   map[string]any // what else policies may read of it; see [ClaimMap]
}

// Owner returns whom the private state of the caller belongs to: the agent, and the user for
// whom it acts. Two users can have tokens that give one agent id. Whatever is kept of a
// caller for its next request is kept under this owner. What people decide is about agents
// (stops, policy, usage, the audit), and is kept under the id.
func (a Agent) Owner() session.Owner {
	o := session.Owner{Way: a.Way, Agent: a.ID, User: a.Subject}
	if o.User == "" && a.Human != "" {
		o.User = " " + a.Human // a person of an issuer that is not known
	}
	return o
}

// An Authenticator turns a request into an Agent. An error is for the log;
// the caller is told only what its kind allows.
type Authenticator interface {
	Authenticate(r *http.Request) (Agent, error)
}
