package outcome

import "github.com/portcullis-mcp/portcullis/pkg/base/text"

// A Challenge is the sign-in that a server demands: its answer of 401 or 403 to a load, and the
// metadata of its resource (RFC 9728). The server wrote every text. So each text has a limited
// length, and agents never see it. The gateway did not contact the issuers.
type Challenge struct {
	Text     string   `json:"text,omitempty"`     // WWW-Authenticate as received, without secrets
	Scopes   []string `json:"scopes,omitempty"`   // of the challenge; if none, the metadata's
	Metadata string   `json:"metadata,omitempty"` // the address of the metadata
	Issuers  []string `json:"issuers,omitempty"`  // authorization servers of the metadata
	Fault    string   `json:"fault,omitempty"`    // why there is no usable metadata
}

// maxNamed is how many scopes or issuers a message lists.
const maxNamed = 5

// OperatorMessage returns the line about o for the people who run the gateway. It is
// [Outcome.Message], but has more facts about a required sign-in than an agent may read.
func (o Outcome) OperatorMessage(serverID string) string {
	const how = " Press \"Sign in\" on its page, or run portcullis servers login "
	switch {
	case o.Status == Denied && o.Reason == ReasonCredentialExpired:
		return "The sign-in at MCP server '" + serverID + "' has ended." + how + serverID + "."
	case o.Status != Denied || o.Reason != ReasonSignInRequired:
		return o.Message(serverID)
	}
	out := "MCP server '" + serverID + "' requires an OAuth sign-in." + how + serverID + "."
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
