package outcome

import "github.com/portcullis-mcp/portcullis/pkg/base/text"

// A Challenge is the sign-in that a server demands: its answer of 401 or 403, and the metadata of
// its resource (RFC 9728). The server wrote every text. So each text has a limited length, and
// agents never see it. The gateway did not contact the issuers.
type Challenge struct {
	Text     string   `json:"text,omitempty"`     // WWW-Authenticate as received, without secrets
	Scopes   []string `json:"scopes,omitempty"`   // that the server requires; with ReasonScopeNotAllowed: and auth.scopes lacks
	Listed   bool     `json:"listed,omitempty"`   // the metadata has Scopes, and the challenge none
	Sent     bool     `json:"sent,omitempty"`     // the request had the config's Authorization
	Metadata string   `json:"metadata,omitempty"` // the address of the metadata
	Issuers  []string `json:"issuers,omitempty"`  // authorization servers of the metadata
	Fault    string   `json:"fault,omitempty"`    // why there is no usable metadata
}

// maxNamed is how many scopes or issuers a message lists.
const maxNamed = 5

// OperatorMessage returns the line about o for the people who run the gateway. It is
// [Outcome.Message], but has more facts about a required sign-in than an agent may read.
func (o Outcome) OperatorMessage(serverID string) string {
	if o.Status != Denied {
		return o.Message(serverID)
	}
	how := " Press \"Sign in\" on its page, or run portcullis servers login " + serverID + "."
	server, c := "MCP server '"+serverID+"'", o.Challenge
	if c == nil {
		c = &Challenge{}
	}
	named := func(none string) string {
		if len(c.Scopes) == 0 {
			return none
		}
		return text.List(c.Scopes, maxNamed)
	}
	switch o.Reason {
	case ReasonCredentialExpired:
		return "The sign-in at " + server + " has ended." + how
	case ReasonClientRefused:
		return "The sign-in at " + server + " has ended: its issuer no longer accepts the gateway " +
			"as a client. If the config has a client_id, correct it and its secret." + how
	case ReasonIssuerChanged:
		return "The sign-in at " + server + " has ended: the server names another issuer now. " +
			"Find out from its owner whether that is right, before you sign in again." + how
	case ReasonInsufficientScope:
		if !o.Connected {
			return server + " requires more rights than the gateway's credential has: " +
				named("the server names no scope") + ". Get a credential with these rights."
		}
		return server + " requires more rights than the gateway's sign-in has: " +
			named("the server names no scope") + "." + how
	case ReasonScopeNotAllowed:
		return server + " requires scopes that the config does not allow: " +
			named("the server names none") + ". These calls fail until you add the scopes to " +
			"auth.scopes and sign in again."
	case ReasonResourceMismatch:
		return "The metadata of " + server + " describe another resource, so the gateway offers " +
			"no sign-in: a token could go to another server. Its owner has to correct the metadata."
	case ReasonAuthRequired:
		if c.Sent {
			return server + " refused the Authorization header that the config has in headers. " +
				"Correct the header, or remove it to sign in with OAuth."
		}
		return o.Message(serverID)
	case ReasonSignInRequired:
	default:
		return o.Message(serverID)
	}
	out := server + " requires an OAuth sign-in." + how
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
