package outcome

import "github.com/portcullis-mcp/portcullis/pkg/base/text"

// A Challenge is what a server asks for that answered a load with 401 or 403, and what the metadata
// of its resource (RFC 9728) says about a sign-in. The server wrote all of it: every text is bounded,
// and none is for an agent. The issuers were not contacted.
type Challenge struct {
	Text     string   `json:"text,omitempty"`     // WWW-Authenticate as it was sent, without secrets
	Scopes   []string `json:"scopes,omitempty"`   // of the challenge, or else of the metadata
	Metadata string   `json:"metadata,omitempty"` // the address at which the metadata was read
	Issuers  []string `json:"issuers,omitempty"`  // authorization servers of the metadata
	Fault    string   `json:"fault,omitempty"`    // why there is no metadata that can be used
}

// maxNamed is how many scopes or issuers a message names.
const maxNamed = 5

// OperatorMessage returns the line about o for the people who run the gateway. It is [Outcome.Message],
// unless they may read more than an agent: how the server wants to be signed in to.
func (o Outcome) OperatorMessage(serverID string) string {
	if o.Status != Denied || o.Reason != ReasonSignInRequired {
		return o.Message(serverID)
	}
	out := "MCP server '" + serverID + "' requires an OAuth sign-in, which this version cannot do. Use a token in `headers`."
	c := o.Challenge
	if c == nil {
		return out
	}
	if len(c.Issuers) > 0 {
		out += " Issuer: " + text.List(c.Issuers, maxNamed) + "."
	}
	if len(c.Scopes) > 0 {
		out += " Scopes: " + text.List(c.Scopes, maxNamed) + "."
	}
	if c.Fault != "" {
		out += " Its issuer is not known: " + c.Fault + "."
	}
	return out
}
